"""The messages of one queue that wait for a consumer, in the order in which they leave. Pure; used by ``queue`` alone.

Strategy: what arrives in order of position stands in a deque; what comes back, or arrives late, stands in a heap
beside it; the lower of the two heads goes first. That is how a message returns to its original place at the price of
the heap alone. A queue with priorities has such a pair for each priority that is in use.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from semq.broker.message import Message


class Entry:
    """One message in one queue. ``expires_at`` is on the monotonic clock; ``is_stored`` says that the store knows
    it."""

    __slots__ = ("deliveries", "expires_at", "is_stored", "message", "position")

    def __init__(self, message: Message, position: int, expires_at: float | None) -> None:
        self.message = message
        self.position = position
        self.expires_at = expires_at
        self.deliveries = 0
        self.is_stored = False


class _Returned(NamedTuple):
    """A row of the heap; positions are unique, so entries are never compared."""

    position: int
    entry: Entry


class _Lane:
    """The messages of one priority."""

    __slots__ = ("fresh", "returned")

    def __init__(self) -> None:
        self.fresh: deque[Entry] = deque()
        self.returned: list[_Returned] = []

    def __len__(self) -> int:
        return len(self.fresh) + len(self.returned)

    def push(self, entry: Entry) -> None:
        if self.fresh and entry.position < self.fresh[-1].position:
            self.put_back(entry)
        else:
            self.fresh.append(entry)

    def put_back(self, entry: Entry) -> None:
        heapq.heappush(self.returned, _Returned(entry.position, entry))

    def head(self) -> Entry:
        return self.returned[0].entry if self._returned_first() else self.fresh[0]

    def pop(self) -> Entry:
        return heapq.heappop(self.returned).entry if self._returned_first() else self.fresh.popleft()

    def _returned_first(self) -> bool:
        if not self.returned:
            return False
        return not self.fresh or self.returned[0].position < self.fresh[0].position

    def __iter__(self) -> Iterator[Entry]:
        return heapq.merge((row.entry for row in sorted(self.returned)), self.fresh, key=lambda entry: entry.position)


class ReadyMessages:
    """Waiting messages: higher priority first, then by position. ``bytes`` is the sum of their bodies."""

    __slots__ = ("_count", "_lanes", "_max_priority", "_order", "bytes")

    def __init__(self, max_priority: int = 0) -> None:
        self._max_priority = max_priority
        self._lanes: dict[int, _Lane] = {0: _Lane()}
        self._order = [0]  # priorities in use, highest first
        self._count = 0
        self.bytes = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        """All of them, in the order in which they would leave."""
        for priority in self._order:
            yield from self._lanes[priority]

    def push(self, entry: Entry) -> None:
        """Put a new message to its place, which is usually the end."""
        self._lane(entry).push(entry)
        self._count += 1
        self.bytes += entry.message.size

    def put_back(self, entry: Entry) -> None:
        """Put a message that had left back to its place."""
        self._lane(entry).put_back(entry)
        self._count += 1
        self.bytes += entry.message.size

    def head(self) -> Entry | None:
        """The message that leaves next."""
        if not self._count:
            return None
        return self._first(self._order).head()

    def pop(self) -> Entry:
        """Take the message that leaves next; IndexError when there is none."""
        return self._take(self._first(self._order))

    def pop_least(self) -> Entry:
        """Take the oldest of the lowest priority (AMQP 0-9-1, 3.1.1: what must be dropped is dropped from there)."""
        return self._take(self._first(reversed(self._order)))

    def pop_expired(self, now: float) -> list[Entry]:
        """Take what has expired from the head of each priority; what stands behind a living message waits its turn."""
        gone: list[Entry] = []
        for lane in self._lanes.values():
            while len(lane):
                expires_at = lane.head().expires_at
                if expires_at is None or expires_at > now:
                    break
                gone.append(self._take(lane))
        return gone

    def next_expiry(self) -> float | None:
        """When the first head expires, or None."""
        heads = (lane.head().expires_at for lane in self._lanes.values() if len(lane))
        return min((at for at in heads if at is not None), default=None)

    def clear(self) -> list[Entry]:
        """Take everything."""
        everything = list(self)
        for lane in self._lanes.values():
            lane.fresh.clear()
            lane.returned.clear()
        self._count = self.bytes = 0
        return everything

    def _lane(self, entry: Entry) -> _Lane:
        if not self._max_priority:
            return self._lanes[0]
        priority = min(entry.message.priority, self._max_priority)
        lane = self._lanes.get(priority)
        if lane is None:
            lane = self._lanes[priority] = _Lane()
            self._order = sorted(self._lanes, reverse=True)
        return lane

    def _first(self, priorities: "Iterator[int] | list[int]") -> _Lane:
        for priority in priorities:
            lane = self._lanes[priority]
            if lane.returned or lane.fresh:
                return lane
        raise IndexError("no message waits")

    def _take(self, lane: _Lane) -> Entry:
        entry = lane.pop()
        self._count -= 1
        self.bytes -= entry.message.size
        return entry
