"""Users of the node: which of them administer it, and whether the node accepts a password."""

from typing import Protocol
from urllib.parse import urlsplit

from semq.app import Client
from semq.app.errors import LoginRefused
from semq.clock import Clock
from semq.config.reach import door_of
from semq.config.settings import Settings
from semq.web.access.limits import Attempts

LOGIN_S = 10.0
PASSWORD_MAX = 1000


class NodeOfUsers(Protocol):
    """The part of the web process that the login of a user of the node uses."""

    settings: Settings
    node_url: str
    clock: Clock
    attempts: Attempts


def is_node_admin(settings: Settings, name: str) -> bool:
    """Whether a user of the configuration may administer the node. The default user guest is not in the
    configuration."""
    user = settings.amqp.users.get(name)
    return user is not None and user.is_admin


async def node_accepts(web: NodeOfUsers, name: str, password: str) -> bool:
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


def node_url(web: NodeOfUsers, name: str, password: str) -> str:
    """Return the URL of the node for another user."""
    parts = urlsplit(web.node_url)
    door = door_of(web.settings)._replace(host=parts.hostname or "", user=name, password=password)
    return door.url(parts.port)
