"""The operations of one turn, collected until its end and then passed to the store as one list.

If the store was unavailable, the failed list is kept (``unwritten``) and written before anything else, so that no
message is confirmed while its queue is not stored. A list that the store refused is repeated operation by operation, so
that only the operations at fault are missing.
"""

import logging
from collections.abc import Callable
from typing import Protocol, TypeAlias

from semq.broker.durable.unwritten import UnwrittenOps
from semq.errors import Unavailable
from semq.store.broker.operations import AddBodyChunk, AddMessage, DropMessages, MarkHandedOut, MessageStore, StoreOp

log = logging.getLogger(__name__)

Waiter: TypeAlias = Callable[[BaseException | None], None]


class Publisher(Protocol):
    """A publisher that is notified when a publish is safe, or has failed."""

    def saved(self, sequence: int, size: int, error: BaseException | None) -> None: ...


_Publish: TypeAlias = tuple[Publisher, int, int]  # publisher, number of the publish, size in bytes


class Journal:
    """The operations of this turn. ``pending_bytes`` counts the bytes of messages and chunks that the store has not
    answered yet.
    """

    def __init__(self, store: MessageStore, on_pending: Callable[[], None] = lambda: None) -> None:
        """``on_pending`` is called, perhaps repeatedly, when the operations of this turn need a ``flush``."""
        self._store = store
        self._ops: list[StoreOp] = []
        self._drops: dict[int, list[int]] = {}  # positions, keyed by queue
        self._handed_out: dict[int, int] = {}  # highest position, keyed by queue
        self._publishes: list[_Publish] = []
        self._waiters: list[Waiter] = []
        self._unwritten = UnwrittenOps()
        self.pending_bytes = 0
        self.refused: set[tuple[int, int]] = set()  # queue and position of messages that the store has refused
        self._unwritten_in_progress = 0  # number of lists of failed operations that are being written
        self._on_pending = on_pending

    @property
    def has_unwritten(self) -> bool:
        """Whether failed operations still have to be written."""
        return bool(self._unwritten) or self._unwritten_in_progress > 0

    def add(self, op: StoreOp) -> None:
        if not self._ops:
            self._on_pending()
        self._ops.append(op)
        self.pending_bytes += _size(op)

    def drop(self, queue_id: int, position: int) -> None:
        """Note that a message left its queue."""
        if not self._drops:
            self._on_pending()
        if self.refused:
            self.refused.discard((queue_id, position))
        positions = self._drops.get(queue_id)
        if positions is None:
            self._drops[queue_id] = [position]
        else:
            positions.append(position)

    def mark_handed_out(self, queue_id: int, position: int) -> None:
        """Note that messages of the queue up to this position may have been delivered."""
        if not self._handed_out:
            self._on_pending()
        if position > self._handed_out.get(queue_id, 0):
            self._handed_out[queue_id] = position

    def forget_queue(self, queue_id: int) -> None:
        """Note that a queue is deleted. Its drops are still written, because they remove its messages."""
        self._handed_out.pop(queue_id, None)

    def confirm_when_saved(self, publisher: Publisher, sequence: int, size: int) -> None:
        """Call ``publisher.saved`` with this number and size when all operations added so far are committed, or have
        failed.
        """
        self._publishes.append((publisher, sequence, size))

    def when_saved(self, waiter: Waiter) -> None:
        """Call ``waiter`` when all operations added so far are committed, or have failed."""
        if not (self._ops or self._drops or self._waiters):
            self._on_pending()
        self._waiters.append(waiter)

    def save_whole(self, post: Callable[[], list[StoreOp]], done: Waiter) -> None:
        """Save completely or not at all, after all operations added so far: the operations that ``post`` returns, and
        the work that it posts to the store. Then call ``done``. Failed operations are not repeated. If ``post`` raises,
        nothing is saved.
        """
        self.flush()
        with self._store.as_one():
            ops = post()
            size = sum(map(_size, ops))
            self.pending_bytes += size

            def answered(error: BaseException | None) -> None:
                self.pending_bytes -= size
                done(error)

            self._store.save(ops, answered)

    def flush(self) -> None:
        """Pass this turn's operations to the store as one list, after failed ones."""
        if self._unwritten:
            for unwritten in self._unwritten.take():
                self._save_unwritten(unwritten)
        ops = self._take_ops()
        publishes, waiters = self._publishes, self._waiters
        self._publishes, self._waiters = [], []
        if not (ops or publishes or waiters):
            return
        size = sum(map(_size, ops))

        def done(error: BaseException | None) -> None:
            self.pending_bytes -= size
            if isinstance(error, Unavailable):
                self._unwritten.keep(ops)
            elif error is not None:
                self._save_each(ops)
            for publisher, sequence, length in publishes:
                publisher.saved(sequence, length, error)
            for waiter in waiters:
                waiter(error)

        self._store.save(ops, done)

    def _save_unwritten(self, ops: list[StoreOp]) -> None:
        self._unwritten_in_progress += 1

        def done(error: BaseException | None) -> None:
            self._unwritten_in_progress -= 1
            if isinstance(error, Unavailable):
                self._unwritten.keep(ops)
            elif error is not None and len(ops) > 1:
                self._save_each(ops)
            elif error is not None:
                if isinstance(ops[0], AddMessage):
                    self.refused.add((ops[0].queue_id, ops[0].position))
                log.error("the store refused an operation: %s: %s", type(ops[0]).__name__, error)

        self._store.save(ops, done)

    def _save_each(self, ops: list[StoreOp]) -> None:
        for op in ops:
            self._save_unwritten([op])

    def _take_ops(self) -> list[StoreOp]:
        ops = self._ops
        ops.extend(MarkHandedOut(queue_id, position) for queue_id, position in self._handed_out.items())
        # All drops may be last: a drop only has to follow the add of its message.
        ops.extend(DropMessages(queue_id, positions) for queue_id, positions in self._drops.items())
        self._ops, self._drops, self._handed_out = [], {}, {}
        return ops


def _size(op: StoreOp) -> int:
    if type(op) is AddMessage:
        return len(op.body) + len(op.header)
    return len(op.data) if type(op) is AddBodyChunk else 0
