"""Passwords of users: hashed with scrypt and checked in constant time, at most AT_ONCE of them in parallel; with a
minimum length.
"""

import asyncio

from semq.broker.users import check_password, hash_password
from semq.clock import draw_secret
from semq.web.errors import BadRequest

LENGTH_MIN, LENGTH_MAX = 12, 1000
AT_ONCE = 2  # each check takes 16 MiB

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


_NOBODY = f"scrypt${'00' * 16}${'00' * 64}"
