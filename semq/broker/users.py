"""Users, their passwords and permissions per virtual host, and the interface of authenticators."""

import hashlib
import hmac
import logging
import re
from enum import Enum
from functools import lru_cache
from typing import Protocol

from msgspec import Struct, field

from semq.amqp.sasl import Credentials
from semq.clock import draw_secret
from semq.transport.peer import PeerInfo

NO_NAME = "(?!)"  # an expression that matches nothing, not even a line break, unlike ^$

log = logging.getLogger(__name__)
_KEY = draw_secret(hashlib.blake2b.MAX_KEY_SIZE)


class Right(Enum):
    """The rights that RabbitMQ's permissions distinguish."""

    __hash__ = object.__hash__  # faster than Enum's, which is written in Python; members are compared by identity

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


class Permissions(Struct, frozen=True):
    """Three regular expressions for the names of exchanges and queues; each may match anywhere in a name.

    The default exchange has the name ``amq.default`` here. An empty expression matches no name.
    """

    configure: str = ".*"
    write: str = ".*"
    read: str = ".*"

    def allow(self, right: Right, name: str) -> bool:
        pattern: str = getattr(self, right.value)
        return _compiled(pattern or NO_NAME).search(name or "amq.default") is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class Authenticator(Protocol):
    """The interface for authentication and permissions, called in the event loop; only ``authenticate`` may wait."""

    mechanisms: tuple[str, ...]

    async def authenticate(self, mechanism: str, credentials: Credentials, peer: PeerInfo) -> str | None:
        """Return the name of the user, or None for a refusal. The log has its reason; the client does not get it.

        ``credentials.password`` is None for EXTERNAL, where ``peer.common_name`` is the identity.
        """

    def permissions(self, user: str, vhost: str) -> Permissions | None:
        """Return the user's permissions in a virtual host, or None if the user may not enter it."""


def digest_of(password: str | bytes) -> bytes:
    """Return the digest by which a password is compared: BLAKE2b (RFC 7693) under a key of this process.

    It is fast and not for storage.
    """
    return hashlib.blake2b(password.encode() if isinstance(password, str) else password, key=_KEY).digest()


class User(Struct):
    """One user. ``password`` is the result of ``digest_of``; None: login by certificate only."""

    name: str
    password: bytes | None = None
    permissions: dict[str, Permissions] = field(default_factory=dict)
    loopback_only: bool = False


class UserTable:
    """The built-in ``Authenticator``.

    PLAIN and AMQPLAIN compare passwords; EXTERNAL uses the common name of the verified certificate as the user name.
    """

    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN", "EXTERNAL")

    def __init__(self, users: list[User] | None = None) -> None:
        self.users = {user.name: user for user in users or []}

    def replace(self, users: list[User]) -> None:
        """Replace the users. ``AmqpServer.apply_permissions`` applies the change to open connections."""
        self.users = {user.name: user for user in users}

    async def authenticate(self, mechanism: str, credentials: Credentials, peer: PeerInfo) -> str | None:
        name = (peer.common_name or "") if mechanism == "EXTERNAL" else credentials.user
        fault = self._fault(name, mechanism, credentials, peer)
        if fault is None:
            return name
        log.warning("refused a login by %s as %r from %s: %s", mechanism, name[:80], peer, fault)
        return None

    def _fault(self, name: str, mechanism: str, credentials: Credentials, peer: PeerInfo) -> str | None:
        """Return why a login is refused; None accepts it."""
        if mechanism == "EXTERNAL" and peer.common_name is None:
            return "no certificate, or one without a common name"
        user = self.users.get(name)
        if user is None:
            return "there is no such user"
        if user.loopback_only and not peer.is_loopback:
            return "this user may log in from this machine only"
        if mechanism == "EXTERNAL":
            return None
        if user.password is None:
            return "this user has no password, and logs in by certificate"
        if credentials.password is None or not hmac.compare_digest(digest_of(credentials.password), user.password):
            return "wrong password"
        return None

    def permissions(self, user: str, vhost: str) -> Permissions | None:
        row = self.users.get(user)
        return row.permissions.get(vhost) if row else None
