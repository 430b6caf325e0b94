"""Users, their passwords and permissions per virtual host, and the port for other authentication.

``Authenticator`` is the port: a node with certificates or a directory supplies its own. ``UserTable`` is the built-in
one. ``sasl`` decodes the SASL mechanisms; ``refusals`` has the AMQP errors. Used by ``server`` and ``session``.
"""

import asyncio
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Protocol

from semq.amqp.sasl import Credentials
from semq.transport.peer import PeerInfo

# RFC 7914: N, r, p. 16 MiB and about 40 ms per attempt: expensive for guessing, acceptable at the rate of new
# connections.
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 2**14, 8, 1


class Right(Enum):
    """The rights that RabbitMQ's permissions distinguish."""

    __hash__ = object.__hash__  # in C; members are compared by identity

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Permissions:
    """Three regular expressions for the names of exchanges and queues, which may match anywhere unless anchored.

    The default exchange has the name ``amq.default`` here. An empty expression matches only the empty name, so nothing.
    """

    configure: str = ".*"
    write: str = ".*"
    read: str = ".*"

    def allow(self, right: Right, name: str) -> bool:
        pattern: str = getattr(self, right.value)
        return _compiled(pattern or "^$").search(name or "amq.default") is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class Authenticator(Protocol):
    """The port for authentication and permissions. Called in the event loop; only ``authenticate`` may take time."""

    mechanisms: tuple[str, ...]

    async def authenticate(self, mechanism: str, credentials: Credentials, peer: PeerInfo) -> str | None:
        """Return the name of the user, or None for a refusal; the client cannot distinguish refusals.

        ``credentials.password`` is None for EXTERNAL, where ``peer.certificate_subject`` is the identity.
        """

    def permissions(self, user: str, vhost: str) -> Permissions | None:
        """Return the user's permissions in a virtual host, or None if the user may not enter it."""


def hash_password(password: str | bytes, salt: bytes) -> str:
    """Return a line for storage: algorithm, salt and scrypt digest (RFC 7914)."""
    secret = password.encode() if isinstance(password, str) else password
    digest = hashlib.scrypt(secret, salt=salt, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P)
    return f"scrypt${salt.hex()}${digest.hex()}"


def check_password(password: str | bytes, kept: str) -> bool:
    """Return whether the password matches the stored line; a line in another form matches nothing."""
    algorithm, _, rest = kept.partition("$")
    salt, _, digest = rest.partition("$")
    if algorithm != "scrypt" or not digest:
        return False
    return hmac.compare_digest(hash_password(password, bytes.fromhex(salt)), kept)


@dataclass(slots=True)
class User:
    """One row of the table. Without ``password_hash`` the user can log in by certificate only (EXTERNAL)."""

    name: str
    password_hash: str | None = None
    permissions: dict[str, Permissions] = field(default_factory=dict)
    loopback_only: bool = False


class UserTable:
    """Users with name and password; the built-in ``Authenticator``.

    PLAIN and AMQPLAIN compare passwords; EXTERNAL uses the subject of the verified certificate as the name. A user may
    be restricted to loopback connections, as RabbitMQ does with guest.
    """

    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN", "EXTERNAL")

    def __init__(self, users: list[User] | None = None) -> None:
        self.users = {user.name: user for user in users or []}
        # One attempt needs 16 MiB: many simultaneous unauthenticated clients must not fill the memory.
        self._tries = asyncio.Semaphore(2)
        self._verified: dict[str, tuple[str, bytes]] = {}

    def replace(self, users: list[User]) -> None:
        """Replace the users. ``AmqpServer.apply_permissions`` applies the change to open connections."""
        self.users = {user.name: user for user in users}
        self._verified = {name: known for name, known in self._verified.items() if name in self.users}

    async def authenticate(self, mechanism: str, credentials: Credentials, peer: PeerInfo) -> str | None:
        is_external = mechanism == "EXTERNAL"
        name = (peer.certificate_subject or "") if is_external else credentials.user
        user = self.users.get(name)
        if user is None or (user.loopback_only and not peer.is_loopback):
            return None
        if is_external:
            return name
        if user.password_hash is None or credentials.password is None:
            return None
        kept = user.password_hash
        if not await self._fits(name, kept, credentials.password):
            return None
        found = self.users.get(name)  # the table may have been replaced meanwhile
        return name if found is not None and found.password_hash == kept else None

    async def _fits(self, name: str, kept: str, secret: bytes) -> bool:
        # A thousand reconnecting clients must not cost a thousand scrypt calculations: a password that matched is
        # cached as a fast digest, in memory only, and only while the stored line is unchanged.
        quick = hashlib.blake2b(secret, key=kept.encode()[-64:]).digest()
        if self._verified.get(name) == (kept, quick):
            return True
        async with self._tries:
            fits = await asyncio.to_thread(check_password, secret, kept)
        if fits:
            self._verified[name] = kept, quick
        return fits

    def permissions(self, user: str, vhost: str) -> Permissions | None:
        found = self.users.get(user)
        return found.permissions.get(vhost) if found else None
