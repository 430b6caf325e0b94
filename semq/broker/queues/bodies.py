"""Bodies that are too large for memory, kept in the store in chunks.

``StoredBody`` replaces ``bytes`` in a message; each holder retains it, and the last release deletes the chunks.
"""

from collections.abc import Iterator
from itertools import count
from typing import TypeAlias

from semq.amqp.content import ContentHeader
from semq.broker.durable.journal import Journal
from semq.store.broker.operations import AddBodyChunk, DropBody, MessageStore, ReadDone

OVERHEAD = 512
"""Bytes that a message takes in addition to its content."""

CHUNK = 256 * 1024
"""Bytes of one chunk; all chunks of a body but the last have exactly this size."""


class LargeBody:
    """A body that is sent chunk by chunk. Holders are counted by some subclasses only."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def retain(self) -> None:
        """Add a holder."""

    def release(self) -> None:
        """Remove a holder."""

    @property
    def chunk_count(self) -> int:
        raise NotImplementedError

    def read(self, index: int, done: ReadDone) -> None:
        """Read one chunk; ``done`` gets the bytes, or None and the error."""
        raise NotImplementedError


class StoredBody(LargeBody):
    """A body in the store. Each holder calls ``retain`` and later ``release``; the creator is the first holder."""

    __slots__ = ("_bodies", "_holders", "body_id")

    def __init__(self, bodies: "Bodies", body_id: int, size: int) -> None:
        super().__init__(size)
        self._bodies = bodies
        self._holders = 1
        self.body_id = body_id

    def retain(self) -> None:
        self._holders += 1

    def release(self) -> None:
        self._holders -= 1
        if not self._holders:
            self._bodies.drop(self.body_id)

    @property
    def chunk_count(self) -> int:
        return -(-self.size // CHUNK)

    def read(self, index: int, done: ReadDone) -> None:
        self._bodies.store.read_body(self.body_id, index, done)


Body: TypeAlias = bytes | LargeBody


class Bodies:
    """The ids of the stored bodies of one broker, and the writing and deletion of their chunks."""

    def __init__(self, store: MessageStore, journal: Journal) -> None:
        self.store = store
        self.journal = journal
        self._ids: Iterator[int] = count(1)

    def begin_at(self, next_id: int) -> None:
        self._ids = count(next_id)

    def new_id(self) -> int:
        return next(self._ids)

    def add(self, body_id: int, index: int, data: bytes) -> None:
        self.journal.add(AddBodyChunk(body_id, index, data))

    def drop(self, body_id: int) -> None:
        self.journal.add(DropBody(body_id))


def weight(header: ContentHeader, body: Body) -> int:
    """Return the approximate size in memory, in bytes: header, objects, and the body unless it is a LargeBody."""
    size = OVERHEAD + len(header.raw)
    return size if isinstance(body, LargeBody) else size + len(body)


def retain(body: Body) -> None:
    """Add a holder of a body, if it is a LargeBody."""
    if isinstance(body, LargeBody):
        body.retain()


def release(body: Body) -> None:
    """Remove a holder of a body, if it is a LargeBody."""
    if isinstance(body, LargeBody):
        body.release()
