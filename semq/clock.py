"""Time, random numbers and new identities, from the operating system.

The modules of nodes take a ``Clock`` as an argument instead of asking the operating system, so that the simulator can
replay any run from a seed (``tests/test_house.py`` has the exceptions). Timers run on the monotonic clock (PROTOCOL.md,
rule N21). The wall clock is for dates: time stamps, ``@NotBefore`` and expiry, certificates.
"""

import secrets
import time
from datetime import UTC, datetime
from random import SystemRandom
from typing import Protocol
from uuid import UUID, uuid4


def draw_secret(size: int) -> bytes:
    """Return ``size`` unpredictable bytes, for keys, salts and tokens. Not part of ``Clock``: secrets are never
    replayed.
    """
    return secrets.token_bytes(size)


class Clock(Protocol):
    """The source of time and random numbers for a node."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back; only differences are meaningful."""

    def wall(self) -> datetime:
        """Return the wall-clock time in UTC, for dates; it may jump."""

    def random(self) -> float:
        """Return a uniformly distributed number in [0, 1), for jitter."""

    def incarnation(self) -> int:
        """Return a fresh random 63-bit number that identifies one run of a process (PROTOCOL.md section 2, ``inc``)."""

    def uuid(self) -> UUID:
        """Return a fresh random UUID, for stores and client tokens."""


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
