"""The consumers of one queue, and their turns. Pure.

Of the consumers that have room, those of the highest priority come first; consumers of one priority take turns. A
consumer has room while it may get a message (prefetch, channel.flow, output). A consumer without room is set aside
until ``resume`` is called for it, so that full consumers cost nothing.
"""

import heapq
from bisect import insort
from collections import deque
from itertools import count
from typing import Protocol

from semq.broker.queues.message import QueueEntry


class QueueConsumer(Protocol):
    """A consumer, as its queue uses it."""

    priority: int
    is_set_aside: bool  #: it had no room, and waits for ``resume``
    no_ack: bool

    def has_room(self) -> bool:
        """Return whether the consumer has room; after False, ``resume`` is called when there may be room again."""

    def deliver_entry(self, entry: QueueEntry) -> None: ...

    def note_cancelled(self) -> None:
        """Note that the queue was deleted."""


class ConsumerRing:
    """Consumers and their turns. With ``single_active`` only one (``active``) gets messages, until it is removed; then
    the oldest consumer of the highest priority becomes active.
    """

    __slots__ = ("_age", "_lanes", "_priorities", "_turns", "_waiting", "active", "members")

    def __init__(self, single_active: bool = False) -> None:
        self.members: dict[QueueConsumer, None] = {}
        self.active: QueueConsumer | None = None
        self._lanes: dict[int, deque[QueueConsumer]] = {}
        self._priorities: list[int] = []  # priorities that have a lane, lowest first
        self._turns = 0  # number of turns in all lanes, also of removed consumers
        self._age = count()
        # with ``single_active``, a heap of the consumers that have not been active
        self._waiting: list[tuple[int, int, QueueConsumer]] | None = [] if single_active else None

    def __len__(self) -> int:
        return len(self.members)

    def add(self, consumer: QueueConsumer) -> None:
        self.members[consumer] = None
        if self._waiting is None:
            self._enter(consumer)
        else:
            heapq.heappush(self._waiting, (-consumer.priority, next(self._age), consumer))
            self._activate()

    def remove(self, consumer: QueueConsumer) -> None:
        """Remove a consumer. If it was the active one, the next one becomes active."""
        self.members.pop(consumer, None)
        # The turn of the consumer is skipped later: a search for it would be expensive.
        limit = 2 * len(self.members) + 8
        if self._turns > limit:
            self._sweep()
        if self._waiting is not None:
            if len(self._waiting) > limit:
                self._waiting = [row for row in self._waiting if row[2] in self.members]
                heapq.heapify(self._waiting)
            if self.active is consumer:
                self.active = None
                self._activate()

    def resume(self, consumer: QueueConsumer) -> None:
        if consumer.is_set_aside and consumer in self.members:
            self._enter(consumer)

    def next(self) -> QueueConsumer | None:
        """Return the consumer whose turn it is, or None if none has room."""
        while self._priorities:
            lane = self._lanes[self._priorities[-1]]
            while lane:
                consumer = lane[0]
                if consumer in self.members and consumer.has_room():
                    lane.rotate(-1)
                    return consumer
                consumer.is_set_aside = True
                lane.popleft()
                self._turns -= 1
            del self._lanes[self._priorities.pop()]
        return None

    def _enter(self, consumer: QueueConsumer) -> None:
        consumer.is_set_aside = False
        self._turns += 1
        lane = self._lanes.get(consumer.priority)
        if lane is None:
            lane = self._lanes[consumer.priority] = deque()
            insort(self._priorities, consumer.priority)
        lane.append(consumer)

    def _sweep(self) -> None:
        turns = [consumer for lane in self._lanes.values() for consumer in lane if consumer in self.members]
        self._lanes, self._priorities, self._turns = {}, [], 0
        for consumer in turns:
            self._enter(consumer)

    def _activate(self) -> None:
        while self.active is None and self._waiting:
            chosen = heapq.heappop(self._waiting)[2]
            if chosen in self.members:
                self.active = chosen
                self._enter(chosen)
