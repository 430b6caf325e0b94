"""The consumers of one queue: whose turn it is. Pure; used by ``queue`` and by nothing else.

Higher priority first, round robin within a priority. A consumer without room is set aside and costs nothing until it
says ``wake``, so a queue with ten thousand full consumers looks only at those that can take something.
"""

import heapq
from bisect import insort
from collections import deque
from itertools import count
from typing import Any, Protocol


class Taker(Protocol):
    """What a queue sees of a consumer."""

    priority: int
    is_parked: bool
    no_ack: bool

    def can_take(self) -> bool:
        """Whether it has room for one message now; a False is followed by a ``wake`` when that changes."""

    def take(self, queue: Any, item: Any) -> None:
        """Give it one message."""

    def cancelled(self) -> None:
        """Tell it that its queue is gone."""


class ConsumerRing:
    """Consumers and their turns; with ``single_active`` only one has any: the oldest of the highest priority at the
    time when it became ``active``.

    Clients choose priorities freely: a lane is there only while somebody of its priority has turns.
    """

    __slots__ = ("_age", "_lanes", "_priorities", "_turns", "_waiting", "active", "everyone")

    def __init__(self, single_active: bool = False) -> None:
        self.everyone: dict[Taker, None] = {}
        self.active: Taker | None = None
        self._lanes: dict[int, deque[Taker]] = {}
        self._priorities: list[int] = []  # those that have a lane, lowest first
        self._turns = 0  # in all lanes, with those that have lapsed
        self._age = count()
        self._waiting: list[tuple[int, int, Taker]] | None = [] if single_active else None

    def __len__(self) -> int:
        return len(self.everyone)

    def add(self, consumer: Taker) -> None:
        """One more; it may have a turn at once."""
        self.everyone[consumer] = None
        if self._waiting is None:
            self._enter(consumer)
        else:
            heapq.heappush(self._waiting, (-consumer.priority, next(self._age), consumer))
            self._activate()

    def remove(self, consumer: Taker) -> None:
        """Take a consumer out; with ``single_active`` the next one becomes the active one."""
        self.everyone.pop(consumer, None)
        # Its turn is not searched for, it lapses when it comes: ten thousand that leave at once must stay cheap.
        kept = 2 * len(self.everyone) + 8
        if self._turns > kept:
            self._sweep()
        if self._waiting is not None:
            if len(self._waiting) > kept:
                self._waiting = [row for row in self._waiting if row[2] in self.everyone]
                heapq.heapify(self._waiting)
            if self.active is consumer:
                self.active = None
                self._activate()

    def wake(self, consumer: Taker) -> None:
        """A consumer that was set aside has room again."""
        if consumer.is_parked and consumer in self.everyone:
            self._enter(consumer)

    def next(self) -> Taker | None:
        """Whose turn it is, or None when nobody has room."""
        while self._priorities:
            ring = self._lanes[self._priorities[-1]]
            while ring:
                consumer = ring[0]
                if consumer in self.everyone and consumer.can_take():
                    ring.rotate(-1)
                    return consumer
                consumer.is_parked = True
                ring.popleft()
                self._turns -= 1
            del self._lanes[self._priorities.pop()]
        return None

    def _enter(self, consumer: Taker) -> None:
        consumer.is_parked = False
        self._turns += 1
        ring = self._lanes.get(consumer.priority)
        if ring is None:
            ring = self._lanes[consumer.priority] = deque()
            insort(self._priorities, consumer.priority)
        ring.append(consumer)

    def _sweep(self) -> None:
        turns = [consumer for ring in self._lanes.values() for consumer in ring if consumer in self.everyone]
        self._lanes, self._priorities, self._turns = {}, [], 0
        for consumer in turns:
            self._enter(consumer)

    def _activate(self) -> None:
        while self.active is None and self._waiting:
            chosen = heapq.heappop(self._waiting)[2]
            if chosen in self.everyone:
                self.active = chosen
                self._enter(chosen)
