"""Time, random numbers and new identities, from the operating system.

Modules of nodes take a ``Clock`` as an argument, so that the simulator can replay a run from a seed
(``tests/test_house.py`` has the exceptions). Timers use the monotonic clock (PROTOCOL.md, rule N21), dates the wall
clock.
"""

import secrets
import time
from datetime import UTC, datetime
from random import SystemRandom
from typing import Protocol
from uuid import UUID, uuid4


def draw_secret(size: int) -> bytes:
    """Return unpredictable bytes. Not part of ``Clock``, because secrets are never replayed."""
    return secrets.token_bytes(size)


class Clock(Protocol):
    """The source of time and random numbers for a node."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""

    def wall(self) -> datetime:
        """Return the wall-clock time in UTC; it may jump."""

    def random(self) -> float:
        """Return a uniformly distributed number in [0, 1)."""

    def incarnation(self) -> int:
        """Return a random 63-bit number for one run of a process (PROTOCOL.md section 2, ``inc``)."""

    def uuid(self) -> UUID:
        """Return a random UUID."""


class SystemClock:
    """The operating system's clocks and random numbers."""

    def __init__(self) -> None:
        self._system_random = SystemRandom()

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def random(self) -> float:
        return self._system_random.random()

    def incarnation(self) -> int:
        return secrets.randbits(63) or 1

    def uuid(self) -> UUID:
        return uuid4()
