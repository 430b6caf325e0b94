"""Clocks for tests: one that a test moves by hand, and one that is ahead of the machine's clock or behind it."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from semq.clock import SystemClock

START = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock whose time the test sets: ``now``, in seconds since START.

    ``random`` returns 0.5, ``incarnation`` and ``uuid`` consecutive numbers.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.lives = 0  #: drawn incarnations
        self._drawn = 0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.now)

    def random(self) -> float:
        return 0.5

    def incarnation(self) -> int:
        self.lives += 1
        return 0xA000 + self.lives

    def uuid(self) -> UUID:
        self._drawn += 1
        return UUID(int=self._drawn)


class ShiftedClock(SystemClock):
    """The clock of this machine, ``ahead`` of the true time, or behind it."""

    def __init__(self, ahead: timedelta = timedelta(0)) -> None:
        super().__init__()
        self.ahead = ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead.total_seconds()

    def wall(self) -> datetime:
        return super().wall() + self.ahead


def noon_clock() -> ShiftedClock:
    """Return a clock that shows noon of this day in UTC, so that no test ends on another day."""
    now = datetime.now(UTC)
    return ShiftedClock(now.replace(hour=12, minute=0) - now)
