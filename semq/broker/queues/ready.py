"""The waiting messages of one queue, in the order in which they leave. Pure.

Each priority in use has a lane with a deque and a heap. Messages that arrive in order of position are in the deque.
Messages that were returned to the queue, and messages that arrive after others with higher positions, are in the heap.
Of the two heads, the one with the lower position leaves first.

In a long queue, pages (``pages``) follow the deque, and the newest messages follow the pages. When the newest messages
fill a page, ``on_full`` lets it leave memory once the store has it. ``on_low`` reads the next page in time.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from semq.broker.queues.message import QueueEntry
from semq.broker.queues.pages import PAGE, PAGE_BYTES, QueuePage


class _HeapRow(NamedTuple):
    """A row of the heap. Positions are unique, so entries are not compared."""

    position: int
    entry: QueueEntry


class PriorityLane:
    """The waiting messages of one priority."""

    __slots__ = ("front", "newest", "newest_bytes", "out_of_order", "pages")

    def __init__(self) -> None:
        self.front: deque[QueueEntry] = deque()  # messages before the pages
        self.pages: deque[QueuePage] = deque()
        self.newest: list[QueueEntry] = []  # messages after the pages
        self.newest_bytes = 0
        self.out_of_order: list[_HeapRow] = []  # a heap

    def __bool__(self) -> bool:
        return bool(self.front or self.out_of_order or self.pages or self.newest)

    def push(self, entry: QueueEntry) -> None:
        if self.front and entry.position < self.front[-1].position:
            self.put_back(entry)
        else:
            self.front.append(entry)

    def push_last(self, entry: QueueEntry) -> QueuePage | None:
        """Add an entry to the newest messages, or to the heap if out of order. Return a page that the entry fills."""
        last = self.newest[-1].position if self.newest else self._last()
        if entry.position < last:
            self.put_back(entry)
            return None
        self.newest.append(entry)
        self.newest_bytes += entry.message.size
        if len(self.newest) < PAGE and self.newest_bytes < PAGE_BYTES:
            return None
        return self.close_page()

    def close_page(self) -> QueuePage:
        """Make the newest messages a page in memory."""
        page = QueuePage.of(self.newest)
        self.pages.append(page)
        self.newest, self.newest_bytes = [], 0
        return page

    def _last(self) -> int:
        if self.pages:
            return self.pages[-1].last
        return self.front[-1].position if self.front else 0

    def put_back(self, entry: QueueEntry) -> None:
        heapq.heappush(self.out_of_order, _HeapRow(entry.position, entry))

    def head(self) -> QueueEntry | None:
        """Return the entry that leaves next; None if it is not in memory."""
        if self._heap_is_first():
            return self.out_of_order[0].entry
        return self.front[0] if self.front else None

    def pop(self) -> QueueEntry:
        return heapq.heappop(self.out_of_order).entry if self._heap_is_first() else self.front.popleft()

    def _heap_is_first(self) -> bool:
        if not self.out_of_order:
            return False
        if self.front:
            return self.out_of_order[0].position < self.front[0].position
        return not self.pages or self.out_of_order[0].position < self.pages[0].first

    def refill(self) -> int:
        """Append the next page, which must be in memory, to ``front``; without pages, the newest messages. Return the
        bytes of the page, or 0.
        """
        if not self.pages:
            self.front.extend(self.newest)
            self.newest, self.newest_bytes = [], 0
            return 0
        page = self.pages.popleft()
        assert page.entries is not None
        page.is_gone = True
        self.front.extend(page.entries)
        return page.bytes

    def __iter__(self) -> Iterator[QueueEntry]:
        in_pages = (entry for page in self.pages for entry in page.entries or page.kept)
        out_of_order = (row.entry for row in sorted(self.out_of_order))
        in_order = (entry for part in (self.front, in_pages, self.newest) for entry in part)
        return heapq.merge(out_of_order, in_order, key=lambda entry: entry.position)


class ReadyMessages:
    """Waiting messages: higher priority first, then by position.

    ``bytes``: size of all bodies. ``paged_bytes``: size of the bodies in pages, in memory or not.

    When ``front`` of a lane has ``window`` messages, or the bodies outside of pages exceed ``window_bytes``, paging of
    the lane begins: new messages go to ``newest`` and become pages. It ends when ``pages`` and ``newest`` are empty.
    """

    __slots__ = (
        "_count",
        "_lanes",
        "_max_priority",
        "_order",
        "bytes",
        "on_full",
        "on_low",
        "paged_bytes",
        "window",
        "window_bytes",
    )

    def __init__(self, max_priority: int = 0) -> None:
        self._max_priority = max_priority
        self._lanes: dict[int, PriorityLane] = {0: PriorityLane()}
        self._order = [0]  # priorities in use, highest first
        self._count = 0
        self.bytes = 0
        self.paged_bytes = 0
        self.window = self.window_bytes = 1 << 62
        self.on_full: Callable[[QueuePage], None] = lambda _: None
        self.on_low: Callable[[PriorityLane, QueuePage], None] = lambda *_: None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[QueueEntry]:
        """Yield the entries in memory, in order."""
        for priority in self._order:
            yield from self._lanes[priority]

    @property
    def transient_count(self) -> int:
        """The number of messages that the store does not have as rows."""
        in_memory = sum(not entry.is_stored for entry in self)
        written = (page for lane in self._lanes.values() for page in lane.pages if page.entries is None)
        return in_memory + sum(page.count - len(page.rows) - len(page.kept) for page in written)

    def push(self, entry: QueueEntry) -> None:
        lane, size = self._lane(entry.message.priority), entry.message.size
        self._count += 1
        self.bytes += size
        is_short = len(lane.front) < self.window and self.bytes - self.paged_bytes <= self.window_bytes
        if is_short and not (lane.pages or lane.newest):
            lane.push(entry)
            return
        page = lane.push_last(entry)
        if page is not None:
            self.paged_bytes += page.bytes
            self.on_full(page)
        self._prefetch(lane)

    def put_page(self, priority: int, page: QueuePage) -> None:
        """At a restart, append a page that is not in memory."""
        lane = self._lane(priority)
        if lane.newest:
            self.paged_bytes += lane.close_page().bytes
        lane.pages.append(page)
        self._count += page.count
        self.bytes += page.bytes
        self.paged_bytes += page.bytes

    def insert_page(self, lane: PriorityLane, page: QueuePage, entries: list[QueueEntry]) -> None:
        """Replace a lane's next page, which has been read, by its messages."""
        assert lane.pages[0] is page
        lane.pages.popleft()
        page.is_gone = True
        self._count += len(entries) - page.count  # the store may have lost some
        self.bytes += sum(entry.message.size for entry in entries) - page.bytes
        self.paged_bytes -= page.bytes
        lane.front.extend(entries)
        self._prefetch(lane)

    def put_back(self, entry: QueueEntry) -> None:
        self._lane(entry.message.priority).put_back(entry)
        self._count += 1
        self.bytes += entry.message.size

    def head(self) -> QueueEntry | None:
        """Return the message that leaves next; None if none waits, or if it is not in memory."""
        if not self._count:
            return None
        lane = self._first(self._order)
        return self._head(lane)

    def pop(self) -> QueueEntry | None:
        """Remove and return the message that leaves next; None if it is being read. Raises IndexError if none waits."""
        return self._pop(self._first(self._order))

    def pop_least(self) -> QueueEntry | None:
        """Do as ``pop`` for the oldest message of the lowest priority, which is dropped first (AMQP 0-9-1, 3.1.1)."""
        return self._pop(self._first(reversed(self._order)))

    def pop_expired(self, now: float, at_most: int) -> list[QueueEntry]:
        """Remove and return up to ``at_most`` expired messages at the heads of the lanes."""
        expired: list[QueueEntry] = []
        for lane in self._lanes.values():
            while len(expired) < at_most and (head := self._head(lane)) is not None:
                if head.expires_at is None or head.expires_at > now:
                    break
                expired.append(self._take(lane))
        return expired

    def next_expiry(self) -> float | None:
        """Return the earliest expiry of the heads of all lanes; None if none expires."""
        heads = (head.expires_at for lane in self._lanes.values() if lane and (head := self._head(lane)) is not None)
        return min((at for at in heads if at is not None), default=None)

    def clear(self) -> tuple[list[QueueEntry], list[QueuePage]]:
        """Remove everything. Return the messages in memory, and the pages that are not in memory."""
        entries = list(self)
        pages = [page for lane in self._lanes.values() for page in lane.pages]
        for page in pages:
            page.is_gone = True
        self._lanes, self._order = {0: PriorityLane()}, [0]
        self._count = self.bytes = self.paged_bytes = 0
        return entries, [page for page in pages if page.entries is None]

    def _lane(self, priority: int) -> PriorityLane:
        if not self._max_priority:
            return self._lanes[0]
        priority = min(priority, self._max_priority)
        lane = self._lanes.get(priority)
        if lane is None:
            lane = self._lanes[priority] = PriorityLane()
            self._order = sorted(self._lanes, reverse=True)
        return lane

    def _first(self, priorities: "Iterator[int] | list[int]") -> PriorityLane:
        for priority in priorities:
            lane = self._lanes[priority]
            if lane:
                return lane
        raise IndexError("no message is waiting")

    def _head(self, lane: PriorityLane) -> QueueEntry | None:
        if not lane.front:
            self._prefetch(lane)
        return lane.head()

    def _pop(self, lane: PriorityLane) -> QueueEntry | None:
        return self._take(lane) if lane.front or self._head(lane) is not None else None

    def _take(self, lane: PriorityLane) -> QueueEntry:
        entry = lane.pop()
        self._count -= 1
        self.bytes -= entry.message.size
        if lane.pages and len(lane.front) < PAGE:
            self._prefetch(lane)
        return entry

    def _prefetch(self, lane: PriorityLane) -> None:
        while lane.pages or lane.newest:
            is_enough = len(lane.front) >= PAGE or self.bytes - self.paged_bytes > self.window_bytes // 2
            if lane.front and is_enough:
                return
            if lane.pages and lane.pages[0].entries is None:
                self.on_low(lane, lane.pages[0])
                return
            self.paged_bytes -= lane.refill()
