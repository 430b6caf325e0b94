"""Who may come in and what each may touch: users with passwords, permissions per virtual host, and the port to other
ways.

``Authenticator`` is the port: a node with certificates or a directory brings its own. ``UserTable`` is the built-in
one. The SASL mechanisms themselves (what the octets mean) belong to ``sasl``; the AMQP refusals to ``refusals``. Used
by ``server`` and ``session``.
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

# RFC 7914: N, r, p. 16 MiB and some 40 ms a try: dear for a guesser, bearable at the rate at which connections open.
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 2**14, 8, 1


class Right(Enum):
    """What RabbitMQ's permissions tell apart."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Permissions:
    """Three regular expressions over the names of exchanges and queues; searched, so anchors are the caller's.

    The default exchange goes by the name ``amq.default``. An empty expression fits only the empty name, that is
    nothing.
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
    """The port: who is this, and what may it do. Called in the event loop; what blocks belongs behind
    ``authenticate``."""

    mechanisms: tuple[str, ...]

    async def authenticate(self, mechanism: str, credentials: Credentials, peer: PeerInfo) -> str | None:
        """The name of the user, or None for a refusal; refusals look all alike to the client.

        ``credentials.password`` is None for EXTERNAL, where ``peer.certificate_subject`` says who it is.
        """

    def permissions(self, user: str, vhost: str) -> Permissions | None:
        """What the user may do in a virtual host, or None when it may not enter at all."""


def hash_password(password: str | bytes, salt: bytes) -> str:
    """A line that can be kept: algorithm, salt and scrypt digest (RFC 7914)."""
    secret = password.encode() if isinstance(password, str) else password
    digest = hashlib.scrypt(secret, salt=salt, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P)
    return f"scrypt${salt.hex()}${digest.hex()}"


def check_password(password: str | bytes, kept: str) -> bool:
    """Whether the password is the one that was kept; a line in another form fits nothing."""
    algorithm, _, rest = kept.partition("$")
    salt, _, digest = rest.partition("$")
    if algorithm != "scrypt" or not digest:
        return False
    return hmac.compare_digest(hash_password(password, bytes.fromhex(salt)), kept)


@dataclass(slots=True)
class User:
    """One row of the table. Without ``password_hash`` the user can only come with a certificate (EXTERNAL)."""

    name: str
    password_hash: str | None = None
    permissions: dict[str, Permissions] = field(default_factory=dict)
    loopback_only: bool = False


class UserTable:
    """Users known by name and password; the built-in ``Authenticator``.

    PLAIN and AMQPLAIN compare passwords; EXTERNAL takes the subject of the verified certificate as the name. A user
    may be confined to the loopback address, as RabbitMQ does with guest.
    """

    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN", "EXTERNAL")

    def __init__(self, users: list[User] | None = None) -> None:
        self.users = {user.name: user for user in users or []}
        # One try costs 16 MiB: strangers who knock all at once must not fill the memory.
        self._tries = asyncio.Semaphore(2)
        self._verified: dict[str, tuple[str, bytes]] = {}

    def replace(self, users: list[User]) -> None:
        """These are the users from now on; who is connected is the business of ``AmqpServer.look_at_permissions``."""
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
        # A thousand clients that reconnect must not cost a thousand scrypts: a password that fitted once is remembered
        # by a quick digest, in memory only and only as long as the kept line stays the same.
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
