"""Passwords of users: hashed with scrypt and checked in constant time, at most AT_ONCE of them in parallel; with a
minimum length.
"""

import asyncio
import hashlib
import hmac

from semq.clock import draw_secret
from semq.web.errors import BadRequest

LENGTH_MIN, LENGTH_MAX = 12, 1000
AT_ONCE = 2  # each check takes 16 MiB

# RFC 7914: N, r, p. 16 MiB and about 40 ms per attempt: expensive for guessing, acceptable at the rate of sign-ins.
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 2**14, 8, 1

_checks = asyncio.Semaphore(AT_ONCE)


async def line_of(password: str) -> str:
    """Return the hash of a new password as it is stored. Raises BadRequest if the password is too short or too long."""
    if not LENGTH_MIN <= len(password) <= LENGTH_MAX:
        raise BadRequest(f"A password has {LENGTH_MIN} to {LENGTH_MAX} characters.")
    async with _checks:
        return await asyncio.to_thread(hash_password, password, draw_secret(16))


async def is_right(password: str, kept: str | None) -> bool:
    """Compare a password with the stored hash. Without a hash the same work is done, so that the time reveals
    nothing.
    """
    if len(password) > LENGTH_MAX:
        return False
    async with _checks:
        return await asyncio.to_thread(check_password, password, kept or _NOBODY) and kept is not None


def hash_password(password: str, salt: bytes) -> str:
    """Return the line that is stored: algorithm, salt and scrypt digest (RFC 7914)."""
    digest = hashlib.scrypt(password.encode(), salt=salt, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P)
    return f"scrypt${salt.hex()}${digest.hex()}"


def check_password(password: str, kept: str) -> bool:
    """Return whether the password matches the stored line; a line in another form matches nothing."""
    algorithm, _, rest = kept.partition("$")
    salt, _, digest = rest.partition("$")
    if algorithm != "scrypt" or not digest:
        return False
    return hmac.compare_digest(hash_password(password, bytes.fromhex(salt)), kept)


_NOBODY = f"scrypt${'00' * 16}${'00' * 64}"
