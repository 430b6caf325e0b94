"""The URL of a node for applications on the same machine, derived from its configuration.

`url_of` takes settings. `door_in` reads a file for commands that only ask a running node: only the few keys that it
needs, without importing the packages that check the others. A file that it cannot read goes to ``load``, which
reports all faults.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from semq.config.defaults import HOST, NESTED, PORT, PREFIX

if TYPE_CHECKING:
    from semq.config.settings import Settings

ANY = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # wildcard addresses, and the addresses to connect to instead
GUEST = "guest"  # user and password if no user is configured
SECTIONS = ("node", "amqp", "tls")  # sections that `door_in` reads


class AdminAddress(NamedTuple):
    """The address and login of an administrator at a node."""

    host: str
    port: int
    user: str
    password: str
    authorities: str  #: PEM file; empty without TLS
    virtual_host: str = ""  #: virtual host of an institution on a shared port

    def url(self, port: int | None = None) -> str:
        """Return ``amqp://user:password@host:port``, or ``amqps://…?cafile=…``.

        ``port``: the actual port, if the configuration lets the node use any free one.
        """
        host = ANY.get(self.host, self.host)
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@{host}:{port or self.port}"
        place = f"{login}/{quote(self.virtual_host, safe='')}" if self.virtual_host else login
        return f"amqps://{place}?cafile={quote(self.authorities)}" if self.authorities else f"amqp://{place}"


def url_of(settings: "Settings", port: int | None = None) -> str:
    """Return the URL of the first of the node's administrators.

    If there is no administrator, the first user's; if no user is configured, that of ``guest``.
    """
    return door_of(settings).url(port)


def door_of(settings: "Settings") -> AdminAddress:
    """Return the door that settings describe."""
    users = settings.amqp.users
    user = next((name for name, one in users.items() if one.is_admin), next(iter(users), GUEST))
    password = users[user].password.get_secret_value() if users else GUEST
    authorities = str(settings.tls.trust or settings.pki_dir / "trust.pem") if settings.amqp.tls else ""
    if settings.port_certificate is not None:
        authorities = str(settings.port_certificate)
    host = settings.institution or ""
    return AdminAddress(settings.amqp.host, settings.amqp.port, user, password, authorities, host)


def door_in(path: Path, env: Mapping[str, str], institution: str | None = None) -> AdminAddress:
    """Return the door that a configuration file and an environment describe; of a file with several institutions that
    of one, or of the whole server.

    Raises ConfigUnreadable, ConfigInvalid.
    """
    if institution is not None:
        from semq.config.file import load

        return door_of(load(path, env, institution))
    try:
        door = _door(path, tomllib.loads(path.read_text("utf-8")), _passwords(env))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        door = None
    if door is not None:
        return door
    from semq.config.file import load

    return door_of(load(path, env))


def _door(path: Path, written: Mapping[str, Any], passwords: Mapping[str, str]) -> AdminAddress | None:
    """Return the door; None or a Python exception if a value is not plainly correct."""
    amqp, tls = written.get("amqp", {}), written.get("tls", {})
    if "server" in written:
        server = written["server"]
        if server.get("certificate"):
            tls = {"trust": server["certificate"]}
        amqp = {**amqp, "users": server.get("users", {}), "tls": bool(server.get("certificate"))}
    users = {name: one if isinstance(one, dict) else {"password": one} for name, one in amqp.get("users", {}).items()}
    for name, password in passwords.items():
        users[name] = {**users.get(name, {}), "password": password}
    user = next((name for name, one in users.items() if _is_admin(one)), next(iter(users), GUEST))
    host, port, serves_tls = amqp.get("host", HOST), amqp.get("port", PORT), amqp.get("tls", False)
    password = users[user]["password"] if users else GUEST
    if [type(one) for one in (host, port, serves_tls, password)] != [str, int, bool, str]:
        return None
    authorities = str(_authorities(path, written.get("node", {"id": "server"}), tls)) if serves_tls else ""
    return AdminAddress(host, port, user, password, authorities)


def _is_admin(user: Mapping[str, Any]) -> bool:
    admin = user.get("admin")
    if not isinstance(admin, bool | None):
        raise TypeError
    return user.get("permissions") is None and user.get("inboxes") is None if admin is None else admin


def _authorities(path: Path, node: Mapping[str, Any], tls: Mapping[str, Any]) -> Path:
    data_dir = node.get("data_dir") or Path("var") / node["id"]
    folder = path.parent / (tls.get("dir") or path.parent.resolve() / data_dir / "pki")
    return Path(path.parent, tls.get("trust") or folder / "trust.pem").resolve()


def _passwords(env: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords of users in the environment. Raises ValueError if it sets any other relevant key."""
    found = {}
    for name, value in env.items():
        parts = name[len(PREFIX) :].lower().split(NESTED)
        if not name.upper().startswith(PREFIX) or not value or parts[0] not in SECTIONS:
            continue
        if parts[:2] != ["amqp", "users"] or len(parts) != 3:
            raise ValueError(name)
        found[parts[2]] = value
    return found
