"""Random secrets, for instance of sessions and one-time links, and their hashes.

A secret has 256 random bits, so one pass of SHA-256 is enough.
"""

import hashlib
import hmac
from base64 import urlsafe_b64encode

from semq.clock import draw_secret

SIZE = 32  # bytes of a secret


def new_secret() -> str:
    """Return a new secret, as text for addresses, cookies and headers."""
    return urlsafe_b64encode(draw_secret(SIZE)).rstrip(b"=").decode()


def hash_of(secret: str) -> bytes:
    """Return the hash of a secret as it is stored."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def derived(secret: str, purpose: str) -> str:
    """Return a text that proves knowledge of a secret for one purpose, and does not reveal it."""
    return hmac.new(secret.encode("utf-8", "surrogatepass"), purpose.encode(), hashlib.sha256).hexdigest()


def is_same(text: str, expected: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass"))
