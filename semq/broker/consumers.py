"""The consumers of one queue: whose turn it is. Pure; used by ``queue`` and by nothing else.

Higher priority first, round robin within a priority. A consumer without room is set aside and costs nothing until it
says ``wake``, so a queue with ten thousand full consumers looks only at those that can take something.
"""

from collections import deque
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
    """Consumers and their turns; with ``single_active`` only the oldest of the highest priority has any."""

    __slots__ = ("_lanes", "_single_active", "everyone")

    def __init__(self, single_active: bool = False) -> None:
        self.everyone: dict[Taker, None] = {}
        self._lanes: list[tuple[int, deque[Taker]]] = []
        self._single_active = single_active

    def __len__(self) -> int:
        return len(self.everyone)

    def add(self, consumer: Taker) -> None:
        self.everyone[consumer] = None
        if self._single_active:
            self._activate()
        else:
            self._enter(consumer)

    def remove(self, consumer: Taker) -> None:
        """Take a consumer out; with ``single_active`` the next one becomes the active one."""
        self.everyone.pop(consumer, None)
        # Its turn is not searched for, it lapses when it comes: ten thousand that leave at once must stay cheap.
        self._lanes = [(priority, self._compact(ring)) for priority, ring in self._lanes]
        if self._single_active:
            self._activate()

    def wake(self, consumer: Taker) -> None:
        """A consumer that was set aside has room again."""
        if consumer.is_parked and consumer in self.everyone:
            self._enter(consumer)

    def next(self) -> Taker | None:
        """Whose turn it is, or None when nobody has room."""
        for _, ring in self._lanes:
            while ring:
                consumer = ring[0]
                if consumer in self.everyone and consumer.can_take():
                    ring.rotate(-1)
                    return consumer
                consumer.is_parked = True
                ring.popleft()
        return None

    def active(self) -> Taker | None:
        """The only one that is served, when ``single_active``."""
        if not self._single_active or not self.everyone:
            return None
        return max(self.everyone, key=lambda consumer: consumer.priority)  # the first of equals is the oldest

    def _compact(self, ring: "deque[Taker]") -> "deque[Taker]":
        if len(ring) <= 2 * len(self.everyone) + 8:
            return ring
        return deque(consumer for consumer in ring if consumer in self.everyone)

    def _activate(self) -> None:
        active = self._served()
        if active is None and (chosen := self.active()) is not None:
            self._enter(chosen)

    def _served(self) -> Taker | None:
        turns = (consumer for _, ring in self._lanes for consumer in ring if consumer in self.everyone)
        parked = (consumer for consumer in self.everyone if consumer.is_parked)
        return next(turns, None) or next(parked, None)

    def _enter(self, consumer: Taker) -> None:
        consumer.is_parked = False
        for priority, ring in self._lanes:
            if priority == consumer.priority:
                ring.append(consumer)
                return
        self._lanes.append((consumer.priority, deque([consumer])))
        self._lanes.sort(key=lambda lane: -lane[0])
