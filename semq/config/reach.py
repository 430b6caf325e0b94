"""How an application on the same machine reaches a node: the URL that its configuration describes."""

from urllib.parse import quote

from semq.config.settings import Settings

ANY = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # addresses to listen on that are none to connect to


def url_of(settings: Settings, port: int | None = None) -> str:
    """``amqp://user:password@host:port``, or ``amqps://…?cafile=…``, of the first of the node's administrators.

    Of the first user where none is one, of ``guest`` where no user is configured.

    ``port``: where it really listens, if the configuration lets it take any free one.
    """
    users = settings.amqp.users
    user = next((name for name, one in users.items() if one.is_admin), next(iter(users), "guest"))
    password = quote(users[user].password.get_secret_value() if users else "guest", safe="")
    host = ANY.get(settings.amqp.host, settings.amqp.host)
    login = f"{quote(user, safe='')}:{password}@{host}:{port or settings.amqp.port}"
    if not settings.amqp.tls:
        return f"amqp://{login}"
    authorities = settings.tls.trust or settings.pki_dir / "trust.pem"
    return f"amqps://{login}?cafile={quote(str(authorities))}"
