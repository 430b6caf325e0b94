"""Virtual time: a queue of calls, and the clocks of nodes."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from random import Random
from typing import Any
from uuid import UUID

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
Call = Callable[..., None]


class Timeline:
    """Future calls in order of their time, then in the order in which they were planned."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._heap: list[tuple[float, int, Call, tuple[Any, ...]]] = []
        self._planned = 0

    def at(self, when: float, call: Call, *args: Any) -> None:
        """Plan a call for a time; a past time means now."""
        self._planned += 1
        heappush(self._heap, (max(self.now, when), self._planned, call, args))

    def after(self, delay: float, call: Call, *args: Any) -> None:
        self._planned += 1
        heappush(self._heap, (self.now + delay if delay > 0 else self.now, self._planned, call, args))

    def step(self, end: float) -> bool:
        """Make the next call if it is due at ``end`` at the latest; else set the time to ``end`` and return False."""
        if not self._heap or self._heap[0][0] > end:
            self.now = end
            return False
        self.now, _, call, args = heappop(self._heap)
        self.steps += 1
        call(*args)
        return True


class SimClock:
    """The clock of a process, until it ends. Its monotonic time starts at a random number; its wall clock may jump."""

    def __init__(self, timeline: Timeline, chance: Random, skew_s: float) -> None:
        self._timeline = timeline
        self._chance = chance
        self.base = chance.uniform(0.0, 1e6)
        self.skew_s = skew_s

    def monotonic(self) -> float:
        return self._timeline.now + self.base

    def wall(self) -> datetime:
        return EPOCH + timedelta(seconds=self._timeline.now + self.skew_s)

    def random(self) -> float:
        return self._chance.random()

    def incarnation(self) -> int:
        return self._chance.getrandbits(63) or 1

    def uuid(self) -> UUID:
        return UUID(int=self._chance.getrandbits(128))
