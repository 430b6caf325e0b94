"""Session keys at their sender: creation, nonces, limits.

**Why a nonce never repeats under a key.** A session key is 32 random bytes, used for one pair of institutions. Only the
process that has drawn a key seals with it. A nonce consists of a counter of 32 bits and of 64 random bits. The counter
starts at 0 with the key, rises with each use, and is kept in memory only: after a restart or a restore, the process
draws other keys. The stored copy of a key (``wrapped_for_storage``) serves to wrap the key again and to prove digests;
a caller must not make a ``SessionKey`` from it. Only a snapshot of a machine that is resumed twice repeats key and
counter; then the random part distinguishes the nonces.

A session key is replaced long before AES-GCM requires it (NIST SP 800-38D: 2**32 uses).

Three values are derived from a session key (HKDF-Expand, RFC 5869): a key for content, a key for digests, and the
public session id. To find two keys with the same id takes about 2**64 attempts, so nobody can make an AES-GCM
ciphertext that opens under two keys.
"""

import hmac
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from msgspec import Struct

from semq.seal.errors import SealBroken
from semq.seal.keys import PrivateKey, PublicKey, alg_of, key_id, sign, wrap
from semq.seal.token import SealScope, SessionToken, signature_message, wrap_context, write_token

SECRET_LENGTH = 32
ID_LENGTH = 16
NONCE_LENGTH, TAG_LENGTH = 12, 16
RANDOM_LENGTH = 8  # random bytes in each nonce
MESSAGES_MAX = 1 << 31  # messages under one key, even if ``KeyLimits`` allows more
OVERHEAD = NONCE_LENGTH + TAG_LENGTH  # bytes that sealing adds to a payload


class KeyLimits(Struct, frozen=True):
    """The limits at which a session key is replaced."""

    messages: int = 65_536
    payload_bytes: int = 1 << 30
    seconds: float = 3600.0


def _derived(secret: bytes, purpose: bytes, length: int) -> bytes:
    return HKDFExpand(SHA256(), length, b"semq 1 " + purpose).derive(secret)


def session_id_of(secret: bytes) -> bytes:
    """Return the public id of a session key."""
    return _derived(secret, b"session id", ID_LENGTH)


class OpeningKey:
    """A session key for opening bodies and for salts and digests."""

    __slots__ = ("_cipher", "_digests", "id")

    def __init__(self, secret: bytes) -> None:
        self.id = session_id_of(secret)
        self._cipher = AESGCM(_derived(secret, b"content", 32))
        self._digests = hmac.new(_derived(secret, b"digests", 32), digestmod=sha256)

    def open(self, body: bytes | memoryview, bound: bytes) -> bytes:
        """Return the payload. Raises SealBroken if the body or ``bound``, the authenticated data, was altered."""
        try:
            return self._cipher.decrypt(bytes(body[:NONCE_LENGTH]), body[NONCE_LENGTH:], bound)
        except (InvalidTag, ValueError) as error:
            raise SealBroken from error

    def salt(self, name: str) -> bytes:
        """Return the salt for the digest of one message; ``name`` is the LK0 under which its payload was sealed.

        A published salt proves this digest and reveals nothing about others.
        """
        salt = self._digests.copy()
        salt.update(name.encode())
        return salt.digest()

    def digest(self, name: str, payload_digest: bytes) -> bytes:
        """Return the public digest of a message. Without the key, nobody can test a guess of the payload."""
        return salted_digest(self.salt(name), payload_digest)


def salted_digest(salt: bytes, payload_digest: bytes) -> bytes:
    """Return the public digest; ``payload_digest`` is the SHA-256 of the payload."""
    return sha256(b"semq digest 1" + salt + payload_digest).digest()


class SessionKey(OpeningKey):
    """A session key that this process has drawn for one receiver, and may seal with."""

    __slots__ = ("_bytes", "_ends_at", "_limits", "_messages", "_secret", "alg", "key_id", "text")

    def __init__(
        self,
        secret: bytes,
        own: PrivateKey,
        source: str,
        receiver: PublicKey,
        target: str,
        now: float,
        limits: KeyLimits,
    ) -> None:
        """Wrap and sign the key, once. ``secret`` is 32 new random bytes; ``now`` is monotonic time in seconds.

        Raises KeyUnfit.
        """
        super().__init__(secret)
        self._secret = secret
        self._messages = self._bytes = 0
        self._limits = limits
        self._ends_at = now + limits.seconds
        self.alg, self.key_id = alg_of(receiver), key_id(receiver)
        self.text = wrapped_for(secret, own, source, receiver, target)  #: @SessionKey

    def wrapped_for_storage(self, own: PrivateKey, node: str) -> str:
        """Return the session key wrapped for the sender itself (address ``node``), for the database."""
        return wrapped_for(self._secret, own, node, own.public_key(), node)

    def is_over(self, now: float) -> bool:
        """Return whether the next message needs another key."""
        limits = self._limits
        messages_max = min(limits.messages, MESSAGES_MAX)
        return now >= self._ends_at or self._messages >= messages_max or self._bytes >= limits.payload_bytes

    def seal(self, payload: bytes | memoryview, bound: bytes, random_part: bytes) -> bytes:
        """Return nonce, ciphertext and tag; ``bound`` is authenticated with them.

        ``random_part`` is RANDOM_LENGTH new random bytes.
        """
        nonce = self._messages.to_bytes(NONCE_LENGTH - RANDOM_LENGTH, "big") + random_part
        self._messages += 1
        self._bytes += len(payload)
        return nonce + self._cipher.encrypt(nonce, payload, bound)


def wrapped_for(secret: bytes, own: PrivateKey, source: str, receiver: PublicKey, target: str, resent: str = "") -> str:
    """Return @SessionKey: a session key wrapped for a receiver and signed by its sender. Raises KeyUnfit."""
    scope = SealScope(alg_of(receiver), key_id(receiver), key_id(own.public_key()), source, target, resent)
    session_id = session_id_of(secret)
    context = wrap_context(scope, session_id)
    wrapped = wrap(receiver, secret, context)
    signature = sign(own, signature_message(context, wrapped))
    return write_token(SessionToken(session_id, wrapped, scope.signer_key_id, signature))
