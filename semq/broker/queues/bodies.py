"""Bodies that are too large for memory: kept in the store in chunks, from the first octet on.

``StoredBody`` stands in a message where small ones have ``bytes``; whoever needs it retains it, and with the last
release the chunks are dropped. ``Bodies`` gives out the ids, writes and reads. Used by ``arrival`` (in), ``feeder``
(out), ``queue``.
"""

from collections.abc import Iterator
from itertools import count
from typing import TypeAlias

from semq.amqp.content import ContentHeader
from semq.broker.durable.journal import Journal
from semq.store.broker.operations import AddBodyChunk, DropBody, MessageStore, ReadDone

OVERHEAD = 512
"""Octets that a message costs beside what it carries."""

CHUNK = 256 * 1024
"""Octets of one chunk; all but the last of a body have exactly so many."""


class StoredBody:
    """A body in the store. ``retain`` and ``release`` go in pairs; whoever makes it holds it once."""

    __slots__ = ("_bodies", "_holders", "body_id", "size")

    def __init__(self, bodies: "Bodies", body_id: int, size: int) -> None:
        self._bodies = bodies
        self._holders = 1
        self.body_id = body_id
        self.size = size

    def __len__(self) -> int:
        return self.size

    def retain(self) -> None:
        """One more needs it."""
        self._holders += 1

    def release(self) -> None:
        """One needs it no more; the last one lets it go."""
        self._holders -= 1
        if not self._holders:
            self._bodies.drop(self.body_id)

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return -(-self.size // CHUNK)

    def read(self, index: int, done: ReadDone) -> None:
        """Read one chunk."""
        self._bodies.store.read_body(self.body_id, index, done)


Body: TypeAlias = bytes | StoredBody


class Bodies:
    """All large bodies of one broker."""

    def __init__(self, store: MessageStore, journal: Journal) -> None:
        self.store = store
        self.journal = journal
        self._ids: Iterator[int] = count(1)

    def begin_at(self, next_id: int) -> None:
        """Ids below this one were given out in an earlier life."""
        self._ids = count(next_id)

    def new_id(self) -> int:
        """An id that was never used."""
        return next(self._ids)

    def add(self, body_id: int, index: int, data: bytes) -> None:
        """Write a chunk."""
        self.journal.add(AddBodyChunk(body_id, index, data))

    def drop(self, body_id: int) -> None:
        """Delete a body."""
        self.journal.add(DropBody(body_id))


def weight(header: ContentHeader, body: Body) -> int:
    """What a message takes in memory, roughly: its header, its body unless that is in the store, and the objects."""
    octets = OVERHEAD + len(header.raw)
    return octets if isinstance(body, StoredBody) else octets + len(body)


def retain(body: Body) -> None:
    """Hold a body, if it is one that is held."""
    if isinstance(body, StoredBody):
        body.retain()


def release(body: Body) -> None:
    """Let a body go, if it is one that was held."""
    if isinstance(body, StoredBody):
        body.release()
