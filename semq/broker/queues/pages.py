"""Pages of a long queue: the messages between those at its head and the newest ones. Pages leave memory and return.

For a message that the store has as a row, only the position is kept. Transient messages have no rows: those of one page
are written to the store as one body, which is deleted when they have been read, or at the next start. Messages with
large bodies stay in memory. A page leaves memory only when the store has confirmed all of it, and no failed operation
waits to be written.
"""

import logging
from array import array
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Protocol

from semq.amqp.content import ContentHeader
from semq.broker.memory_gauge import MemoryGauge
from semq.broker.queues.bodies import Bodies, StoredBody
from semq.broker.queues.message import Message, QueueEntry
from semq.broker.timers import Timers
from semq.clock import Clock
from semq.store.broker.operations import AddMessage, StoredBacklog

log = logging.getLogger(__name__)

PAGE = 512
"""The number of messages in one page."""
PAGE_BYTES = 1 << 20
"""Bytes of bodies after which a page is full even if it has fewer messages."""
RETRY_S = 1.0  # pause before a failed read is repeated

_ROW = Struct(">qdIBBII")  # position, expiry (NaN for none), deliveries, length of exchange, key, header and body


class QueuePage:
    """Neighbouring messages of one lane (``ready``), in order. ``entries`` is None while only the messages in ``kept``
    are in memory.
    """

    __slots__ = ("body_id", "bytes", "count", "entries", "first", "is_gone", "is_reading", "kept", "last", "rows")

    def __init__(self, first: int, last: int, count: int, size: int) -> None:
        self.first = first
        self.last = last
        self.count = count
        self.bytes = size  # total size of the bodies
        self.entries: list[QueueEntry] | None = None
        self.rows: array[int] = array("q")  # positions of the messages that are rows of the store
        self.kept: list[QueueEntry] = []  # messages that stay in memory
        self.body_id = 0  # body with the transient messages; 0 if there are none, or if the page is in memory
        self.is_reading = False
        self.is_gone = False  # its messages are back in memory, or dropped

    @classmethod
    def of(cls, entries: list[QueueEntry]) -> "QueuePage":
        page = cls(entries[0].position, entries[-1].position, len(entries), sum(e.message.size for e in entries))
        page.entries = entries
        return page


def pages_of(backlog: StoredBacklog, max_priority: int) -> Iterator[tuple[int, QueuePage]]:
    """Yield the pages of a backlog in the store, with the priority of their lanes."""
    open_pages: dict[int, QueuePage] = {}
    for position, priority, size in zip(backlog.positions, backlog.priorities, backlog.sizes, strict=True):
        lane = min(priority, max_priority)
        page = open_pages.get(lane)
        if page is None or page.count >= PAGE or page.bytes >= PAGE_BYTES:
            if page is not None:
                yield lane, page
            page = open_pages[lane] = QueuePage(position, position, 0, 0)
        page.rows.append(position)
        page.last, page.count, page.bytes = position, page.count + 1, page.bytes + size
    yield from open_pages.items()


class PagedQueue(Protocol):
    """The part of a queue that its pages use."""

    queue_id: int
    name: str

    def entry_of_row(self, row: AddMessage) -> QueueEntry: ...


class Pager:
    """Writing and reading of pages. ``window`` is the number of messages of a lane that stay in memory,
    ``window_bytes`` the size of the bodies in memory of all lanes of a queue.
    """

    def __init__(
        self, bodies: Bodies, memory: MemoryGauge, timers: Timers, clock: Clock, window: int, window_bytes: int
    ) -> None:
        self.window = window
        self.window_bytes = window_bytes
        self.bodies = bodies
        self.memory = memory
        self._timers = timers
        self._clock = clock

    def write_out(self, queue: PagedQueue, page: QueuePage) -> None:
        """Let a page leave memory as soon as the store has all of it."""
        journal, body_id = self.bodies.journal, 0
        assert page.entries is not None
        transient = [
            entry for entry in page.entries if not (entry.is_stored or isinstance(entry.message.body, StoredBody))
        ]
        if transient:
            body_id = self.bodies.new_id()
            self.bodies.add(body_id, 0, b"".join(map(_encode, transient)))

        def saved(error: BaseException | None) -> None:
            if error is None and not (page.is_gone or journal.has_unwritten):
                self._remove_from_memory(queue, page, body_id)
            elif body_id and error is None:
                self.bodies.drop(body_id)

        journal.when_saved(saved)

    def _remove_from_memory(self, queue: PagedQueue, page: QueuePage, body_id: int) -> None:
        assert page.entries is not None
        freed, refused = 0, self.bodies.journal.refused
        for entry in page.entries:
            if isinstance(entry.message.body, StoredBody) or (queue.queue_id, entry.position) in refused:
                page.kept.append(entry)
                continue
            freed += entry.message.weight
            if entry.is_stored:
                page.rows.append(entry.position)
        if len(page.kept) == page.count:
            page.kept.clear()  # nothing can leave memory: the page stays as it is
            return
        page.body_id, page.entries = body_id, None
        self.memory.add(-freed)

    def read_in(self, queue: PagedQueue, page: QueuePage, then: Callable[[list[QueueEntry]], None]) -> None:
        """Read a page; ``then`` gets its messages in order, unless the page was dropped meanwhile."""
        if page.is_reading:
            return
        page.is_reading = True
        _PageReading(self, queue, page, then).begin()

    def retry_later(self, then: Callable[[], None]) -> None:
        self._timers.at(self._clock.monotonic() + RETRY_S, then)


class _PageReading:
    def __init__(
        self, pager: Pager, queue: PagedQueue, page: QueuePage, then: Callable[[list[QueueEntry]], None]
    ) -> None:
        self._pager = pager
        self._bodies = pager.bodies
        self._queue = queue
        self._page = page
        self._then = then
        self._entries: list[QueueEntry] = []

    def begin(self) -> None:
        self._entries = list(self._page.kept)
        if self._page.rows:
            self._bodies.store.read_messages(self._queue.queue_id, self._page.rows, self._read_rows)
        else:
            self._read_transient()

    def _read_rows(self, rows: Sequence[AddMessage] | None, error: BaseException | None) -> None:
        if self._page.is_gone:
            return
        if rows is None:
            self._repeat_later(error)
            return
        self._entries += map(self._queue.entry_of_row, rows)
        self._read_transient()

    def _read_transient(self) -> None:
        if self._page.body_id:
            self._bodies.store.read_body(self._page.body_id, 0, self._read_body)
        else:
            self._finish()

    def _read_body(self, data: bytes | None, error: BaseException | None) -> None:
        if self._page.is_gone:
            return
        if data is None:
            self._repeat_later(error)
            return
        self._entries += _decode(data)
        self._bodies.drop(self._page.body_id)
        self._finish()

    def _repeat_later(self, error: BaseException | None) -> None:
        log.warning("queue %s: a page could not be read; the read will be repeated: %s", self._queue.name, error)
        self._pager.retry_later(self._retry)

    def _retry(self) -> None:
        if not self._page.is_gone:
            self.begin()

    def _finish(self) -> None:
        kept = set(map(id, self._page.kept))
        self._pager.memory.add(sum(e.message.weight for e in self._entries if id(e) not in kept))
        self._entries.sort(key=lambda entry: entry.position)
        self._then(self._entries)


def _encode(entry: QueueEntry) -> bytes:
    message, expires_at = entry.message, entry.expires_at
    exchange, key = message.exchange.encode(), message.routing_key.encode()
    header, body = message.header_bytes, message.body
    assert isinstance(body, bytes)
    sizes = len(exchange), len(key), len(header), len(body)
    expiry = float("nan") if expires_at is None else expires_at
    return b"".join((_ROW.pack(entry.position, expiry, entry.deliveries, *sizes), exchange, key, header, body))


def _decode(data: bytes) -> Iterator[QueueEntry]:
    at = 0
    while at < len(data):
        position, expiry, deliveries, *sizes = _ROW.unpack_from(data, at)
        at += _ROW.size
        parts = []
        for size in sizes:
            parts.append(data[at : at + size])
            at += size
        exchange, key, header, body = parts
        message = Message(exchange.decode(), key.decode(), ContentHeader.parse(header), body)
        entry = QueueEntry(message, position, None if expiry != expiry else expiry)
        entry.deliveries = deliveries
        yield entry
