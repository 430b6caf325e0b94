"""Logins of the node's users.

The web process has the configuration of its node, which restarts it when the users change. So it compares passwords
itself: a wrong one costs no connection to the node, and takes as long as the name of a user that does not exist.
"""

import hmac
from typing import Protocol
from urllib.parse import urlsplit

from semq.app import Client
from semq.app.errors import LoginRefused
from semq.broker.users import digest_of
from semq.clock import Clock
from semq.config.reach import admin_address_of
from semq.config.settings import Settings

LOGIN_S = 10.0  # longest wait for a connection to the node


class LoginServices(Protocol):
    """The attributes of ``services.Web`` that logins of the node's users need."""

    settings: Settings
    node_url: str
    clock: Clock


def node_admins(settings: Settings) -> list[str]:
    """Return the configured users who may administer the node; the default user guest is not configured."""
    return [name for name, user in settings.amqp.users.items() if user.is_admin]


def is_node_admin(settings: Settings, name: str) -> bool:
    """Whether a user may administer the node."""
    return name in node_admins(settings)


def is_password_of(settings: Settings, name: str, password: str) -> bool:
    """Whether the configuration has a user of this name and password; the duration does not depend on the name."""
    user = settings.amqp.users.get(name)
    expected = "" if user is None else user.password.get_secret_value()
    is_right = hmac.compare_digest(digest_of(password.encode("utf-8", "surrogatepass")), digest_of(expected))
    return is_right and user is not None and password.isprintable()


async def node_accepts(web: LoginServices, name: str, password: str) -> bool:
    """Whether the node accepts this login, whose password is right. Raises NodeUnreachable."""
    client = Client(node_url(web, name, password), patience_s=LOGIN_S, clock=web.clock)
    try:
        await client.connect()
    except LoginRefused:
        return False
    finally:
        await client.close()
    return True


def node_url(web: LoginServices, name: str, password: str) -> str:
    """Return the URL of the node with this user and password."""
    parts = urlsplit(web.node_url)
    address = admin_address_of(web.settings)._replace(host=parts.hostname or "", user=name, password=password)
    return address.url(parts.port)
