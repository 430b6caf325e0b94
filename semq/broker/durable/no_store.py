"""A store without a disk, for a node whose durable queues are kept in memory only.

Like every store it answers in a later turn of the event loop.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from semq.store.broker.operations import (
    AddBodyChunk,
    Done,
    DropBody,
    ReadDone,
    RowsDone,
    SaveDone,
    StoredState,
    StoreOp,
)

CallLater = Callable[[Callable[[], None]], object]


def in_the_next_turn(callback: Callable[[], None]) -> None:
    """Call a function in the next turn of the event loop."""
    asyncio.get_running_loop().call_soon(callback)


class BodiesInMemory:
    """Chunks of large bodies, in memory; each list of operations is one. ``later`` calls a function in a later turn."""

    def __init__(self, later: CallLater = in_the_next_turn) -> None:
        self._later = later
        self.bodies: dict[int, dict[int, bytes]] = {}

    def add_chunk(self, op: AddBodyChunk) -> None:
        self.bodies.setdefault(op.body_id, {})[op.index] = op.data

    def drop_body(self, op: DropBody) -> None:
        self.bodies.pop(op.body_id, None)

    def as_one(self) -> AbstractContextManager[None]:
        return nullcontext()

    def read_body(self, body_id: int, index: int, done: ReadDone) -> None:
        data = self.bodies.get(body_id, {}).get(index)
        error = None if data is not None else KeyError((body_id, index))
        self._later(lambda: done(data, error))


class NoStore(BodiesInMemory):
    """A store that keeps only large bodies and confirms everything."""

    def read_messages(self, queue_id: int, positions: Sequence[int], done: RowsDone) -> None:
        self._later(lambda: done((), None))

    def save(self, ops: list[StoreOp], done: SaveDone) -> None:
        self.save_whole(ops, lambda error: done({}))

    def save_whole(self, ops: list[StoreOp], done: Done) -> None:
        for op in ops:
            if isinstance(op, AddBodyChunk):
                self.add_chunk(op)
            elif isinstance(op, DropBody):
                self.drop_body(op)
        self._later(lambda: done(None))

    async def load(self) -> StoredState:
        return StoredState()
