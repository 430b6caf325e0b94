"""Passwords of users: hashes (scrypt), and checks in constant time."""

import asyncio
import hashlib
import hmac
import re

from semq.clock import draw_secret
from semq.service.errors import BadArguments

LENGTH_MIN, LENGTH_MAX = 12, 1000  # characters of a password
STORED = re.compile(r"scrypt\$(?P<salt>(?:[0-9a-f]{2})+)\$(?P<digest>[0-9a-f]{128})")
CHECKS_MAX = 2  # parallel checks; each takes 16 MiB

# RFC 7914: N, r, p. 16 MiB and about 40 ms per attempt.
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 2**14, 8, 1

_checks = asyncio.Semaphore(CHECKS_MAX)


async def new_hash(password: str) -> str:
    """Return the hash of a new password as it is stored. Raises BadArguments if its length is not permitted."""
    if not LENGTH_MIN <= len(password) <= LENGTH_MAX:
        raise BadArguments(f"A password has {LENGTH_MIN} to {LENGTH_MAX} characters.")
    async with _checks:
        return await asyncio.to_thread(hash_password, password, draw_secret(16))


async def is_right(password: str, stored: str | None) -> bool:
    """Whether a password has the stored hash.

    The duration does not reveal whether the user exists: without a hash (no such user), the work is the same.
    """
    if len(password) > LENGTH_MAX:
        return False
    async with _checks:
        return await asyncio.to_thread(check_password, password, stored or _NO_USER) and stored is not None


def hash_password(password: str, salt: bytes) -> str:
    """Return the hash as it is stored: algorithm, salt and scrypt digest (RFC 7914)."""
    digest = hashlib.scrypt(password.encode("utf-8", "surrogatepass"), salt=salt, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P)
    return f"scrypt${salt.hex()}${digest.hex()}"


def check_password(password: str, stored: str) -> bool:
    """Whether a password has the stored hash; False if the hash has another form."""
    form = STORED.fullmatch(stored)
    if form is None:
        return False
    return hmac.compare_digest(hash_password(password, bytes.fromhex(form["salt"])), stored)


# The hash that is checked if there is no such user
_NO_USER = f"scrypt${'00' * 16}${'00' * 64}"
