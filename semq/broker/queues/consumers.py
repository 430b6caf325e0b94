"""The consumers of one queue, and their turns. Pure; used by ``queue`` only.

Higher priority first, round robin within a priority. A consumer without room is set aside until ``resume`` is called
for it, so a queue with ten thousand full consumers considers only those with room.
"""

import heapq
from bisect import insort
from collections import deque
from itertools import count
from typing import Any, Protocol


class Taker(Protocol):
    """The interface of a consumer for its queue."""

    priority: int
    is_parked: bool
    no_ack: bool

    def can_take(self) -> bool:
        """Return whether it has room for one message now; after False, ``resume`` is called when that changes."""

    def take(self, queue: Any, item: Any) -> None:
        """Deliver one message to it."""

    def cancelled(self) -> None:
        """Note that its queue was deleted."""


class ConsumerRing:
    """Consumers and their turns. With ``single_active`` only one gets messages: the oldest of the highest priority at
    the time when it became ``active``.

    Clients choose priorities freely, so a lane exists only while a consumer of its priority has turns.
    """

    __slots__ = ("_age", "_lanes", "_priorities", "_turns", "_waiting", "active", "everyone")

    def __init__(self, single_active: bool = False) -> None:
        self.everyone: dict[Taker, None] = {}
        self.active: Taker | None = None
        self._lanes: dict[int, deque[Taker]] = {}
        self._priorities: list[int] = []  # priorities that have a lane, lowest first
        self._turns = 0  # in all lanes, including the turns of removed consumers
        self._age = count()
        self._waiting: list[tuple[int, int, Taker]] | None = [] if single_active else None

    def __len__(self) -> int:
        return len(self.everyone)

    def add(self, consumer: Taker) -> None:
        """Add a consumer; it may get messages immediately."""
        self.everyone[consumer] = None
        if self._waiting is None:
            self._enter(consumer)
        else:
            heapq.heappush(self._waiting, (-consumer.priority, next(self._age), consumer))
            self._activate()

    def remove(self, consumer: Taker) -> None:
        """Remove a consumer; with ``single_active`` the next one becomes the active one."""
        self.everyone.pop(consumer, None)
        # Its turn is not searched for but skipped later, so that removing ten thousand consumers stays cheap.
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

    def resume(self, consumer: Taker) -> None:
        """Note that a consumer that was set aside has room again."""
        if consumer.is_parked and consumer in self.everyone:
            self._enter(consumer)

    def next(self) -> Taker | None:
        """Return the consumer whose turn it is, or None if none has room."""
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
