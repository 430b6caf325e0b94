"""Passwords of people: hashed with scrypt, checked in constant time and few at a time, and long enough."""

import asyncio

from semq.broker.users import check_password, hash_password
from semq.clock import draw_secret
from semq.web.errors import BadRequest

LENGTH_MIN, LENGTH_MAX = 12, 1000
AT_ONCE = 2  # each check takes 16 MiB

_checks = asyncio.Semaphore(AT_ONCE)


async def line_of(password: str) -> str:
    """Return what is stored of a new password. Raises BadRequest if it is too short or too long."""
    if not LENGTH_MIN <= len(password) <= LENGTH_MAX:
        raise BadRequest(f"A password has {LENGTH_MIN} to {LENGTH_MAX} characters.")
    async with _checks:
        return await asyncio.to_thread(hash_password, password, draw_secret(16))


async def is_right(password: str, kept: str | None) -> bool:
    """Compare a password with the stored line. Without a line the same work is done, so that time tells nothing."""
    if len(password) > LENGTH_MAX:
        return False
    async with _checks:
        return await asyncio.to_thread(check_password, password, kept or _NOBODY) and kept is not None


_NOBODY = f"scrypt${'00' * 16}${'00' * 64}"
