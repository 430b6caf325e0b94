"""Time, chance and new identities: the only module that asks the machine for them.

Everything else takes a ``Clock`` as an argument, so that the simulator can replay any run from a seed (PROTOCOL.md rule
R21: timers run on the monotonic clock, a wall clock that jumps changes nothing but the time stamps shown to people).
"""

import secrets
import time
from datetime import UTC, datetime
from random import SystemRandom
from typing import Protocol
from uuid import UUID, uuid4


def draw_secret(octets: int) -> bytes:
    """Fresh octets that nobody can guess: session keys. Never replayed, so no part of ``Clock``."""
    return secrets.token_bytes(octets)


class Clock(Protocol):
    """Where a node reads time and draws chance."""

    def monotonic(self) -> float:
        """Seconds that never go back; only differences have a meaning."""

    def wall(self) -> datetime:
        """The time for people and ledgers, in UTC; it may jump."""

    def random(self) -> float:
        """An evenly spread number in [0, 1), for jitter."""

    def incarnation(self) -> int:
        """A fresh random 63-bit number that names one life of a process (PROTOCOL.md section 2, ``inc``)."""

    def uuid(self) -> UUID:
        """A fresh random UUID, for stores and client tokens."""


class SystemClock:
    """The machine's own clock and randomness."""

    def __init__(self) -> None:
        self._chance = SystemRandom()

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def random(self) -> float:
        return self._chance.random()

    def incarnation(self) -> int:
        return secrets.randbits(63) or 1

    def uuid(self) -> UUID:
        return uuid4()
