"""Keys of every kind for two institutions, and session keys between them."""

from dataclasses import dataclass
from functools import cache

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from semq.seal.keys import PrivateKey, PublicKey, key_id
from semq.seal.opened import OpenedKeys
from semq.seal.session import KeyLimits, SessionKey

A, B = "1.10008", "1.56001"
KINDS = ("P256", "P384", "P521", "RSA")
SECRET = bytes(range(32))


@cache
def key_of(kind: str, owner: str) -> PrivateKey:
    """Return a key, always the same one for a kind and an owner."""
    if kind == "RSA":
        return rsa.generate_private_key(65537, 2048)
    return ec.generate_private_key({"P256": ec.SECP256R1(), "P384": ec.SECP384R1(), "P521": ec.SECP521R1()}[kind])


@dataclass
class SealingPair:
    """Two institutions; A sends to B."""

    kind: str = "P256"

    @property
    def a(self) -> PrivateKey:
        return key_of(self.kind, A)

    @property
    def b(self) -> PrivateKey:
        return key_of(self.kind, B)

    def session_key(self, secret: bytes = SECRET, now: float = 0.0, limits: KeyLimits = KeyLimits()) -> SessionKey:  # noqa: B008
        return SessionKey(secret, self.a, A, self.b.public_key(), B, now, limits)

    def opened_keys(self, opened_max: int = 8) -> OpenedKeys:
        keys = {key_id(self.b.public_key()): self.b}
        self.key_ids_asked: list[str] = []

        def find_signer_key(node: str, signer_key_id: str) -> PublicKey:
            self.key_ids_asked.append(signer_key_id)
            return self.a.public_key()

        return OpenedKeys(keys.get, find_signer_key, opened_max)
