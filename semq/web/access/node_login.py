"""Logins of the node's users."""

from typing import Protocol
from urllib.parse import urlsplit

from semq.app import Client
from semq.app.errors import LoginRefused
from semq.clock import Clock
from semq.config.reach import admin_address_of
from semq.config.settings import Settings
from semq.web.access.limits import Attempts

LOGIN_S = 10.0  # longest wait for a connection to the node
PASSWORD_MAX = 1000  # characters


class LoginServices(Protocol):
    """The attributes of ``services.Web`` that logins of the node's users need."""

    settings: Settings
    node_url: str
    clock: Clock
    attempts: Attempts


def node_admins(settings: Settings) -> list[str]:
    """Return the configured users who may administer the node; the default user guest is not configured."""
    return [name for name, user in settings.amqp.users.items() if user.is_admin]


def is_node_admin(settings: Settings, name: str) -> bool:
    """Whether a user may administer the node."""
    return name in node_admins(settings)


async def node_accepts(web: LoginServices, name: str, password: str) -> bool:
    """Whether the node accepts this login. Raises NodeUnreachable."""
    if not password or not password.isprintable() or len(password) > PASSWORD_MAX:
        return False
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
