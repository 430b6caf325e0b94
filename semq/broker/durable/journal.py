"""What the model wants written, gathered until the driver says that the turn is over, then handed to the store as one
list.

``Journal`` keeps three things in step: the operations, the publishes that may be confirmed when those are true, and
whoever else waits for that moment. Used by ``queue``, ``vhost`` and ``channel``; flushed by ``server`` once per turn
of the event loop. Bodies on their way to the store are counted, so that reading from publishers can stop when the
store falls behind.

A list that failed because the store was away is true in the model all the same: its queues are there, its messages are
handed out, what was acknowledged is gone. It is owed to the store (``unwritten``) and goes ahead of whatever is written
next, so that no message is confirmed whose queue is not stored, and what was acknowledged does not come again. A list
that the store refused is offered again piece by piece, for the same reason.
"""

import logging
from collections.abc import Callable
from typing import Protocol, TypeAlias

from semq.broker.durable.unwritten import Owed
from semq.errors import Unavailable
from semq.store.broker.operations import AddBodyChunk, AddMessage, DropMessages, MarkHandedOut, MessageStore, StoreOp

log = logging.getLogger(__name__)

Waiter: TypeAlias = Callable[[BaseException | None], None]


class Confirmable(Protocol):
    """What can be told that one of its publishes is safe, or is not."""

    def saved(self, sequence: int, size: int, error: BaseException | None) -> None:
        """The publish with this number is in the store, or failed to get there."""


_Publish: TypeAlias = tuple[Confirmable, int, int]


class Journal:
    """Operations of this turn. ``pending_bytes`` counts bodies handed to the store and not yet known to be safe."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._ops: list[StoreOp] = []
        self._drops: dict[int, list[int]] = {}
        self._handed_out: dict[int, int] = {}
        self._publishes: list[_Publish] = []
        self._waiters: list[Waiter] = []
        self._owed = Owed()
        self.pending_bytes = 0
        self.batches_under_way = 0
        self.refused: set[tuple[int, int]] = set()  # queue and position of messages that the store will not have
        self._owed_under_way = 0
        self.on_pending: Callable[[], None] = lambda: None

    @property
    def is_behind(self) -> bool:
        """Whether something is owed to the store."""
        return bool(self._owed) or self._owed_under_way > 0

    def add(self, op: StoreOp) -> None:
        """Write this."""
        if not self._ops:
            self.on_pending()
        self._ops.append(op)
        self.pending_bytes += _octets(op)

    def drop(self, queue_id: int, position: int) -> None:
        """Write that a message left its queue; gathered per queue."""
        if not self._drops:
            self.on_pending()
        if self.refused:
            self.refused.discard((queue_id, position))
        found = self._drops.get(queue_id)
        if found is None:
            self._drops[queue_id] = [position]
        else:
            found.append(position)

    def handed_out(self, queue_id: int, position: int) -> None:
        """Write that everything in the queue up to this position may have been handed out; only the highest counts:
        messages with priority, and those that came back, do not leave in order of position."""
        if not self._handed_out:
            self.on_pending()
        if position > self._handed_out.get(queue_id, 0):
            self._handed_out[queue_id] = position

    def forget_queue(self, queue_id: int) -> None:
        """A queue is deleted: what this turn wanted to say about its messages no longer matters."""
        self._drops.pop(queue_id, None)
        self._handed_out.pop(queue_id, None)

    def confirm(self, publisher: Confirmable, sequence: int, size: int) -> None:
        """Tell ``publisher`` when everything added so far is true."""
        self._publishes.append((publisher, sequence, size))

    def when_saved(self, waiter: Waiter) -> None:
        """Call ``waiter`` when everything added so far is true, or has failed."""
        if not (self._ops or self._drops or self._waiters):
            self.on_pending()
        self._waiters.append(waiter)

    def flush(self) -> None:
        """Hand this turn's operations over as one list, behind what is owed to the store."""
        if self._owed:
            for owed in self._owed.take():
                self._save_owed(owed)
        ops = self._take_ops()
        publishes, waiters = self._publishes, self._waiters
        self._publishes, self._waiters = [], []
        if not (ops or publishes or waiters):
            return
        size = sum(map(_octets, ops))
        self.batches_under_way += 1

        def done(error: BaseException | None) -> None:
            self.batches_under_way -= 1
            self.pending_bytes -= size
            if isinstance(error, Unavailable):
                self._owed.owe(ops)
            elif error is not None:
                self._save_each(ops)
            for publisher, sequence, length in publishes:
                publisher.saved(sequence, length, error)
            for waiter in waiters:
                waiter(error)

        self._store.save(ops, done)

    def _save_owed(self, owed: list[StoreOp]) -> None:
        """As one list; if that is refused, each by itself, so that one bad operation harms no other."""
        self.batches_under_way += 1
        self._owed_under_way += 1

        def done(error: BaseException | None) -> None:
            self.batches_under_way -= 1
            self._owed_under_way -= 1
            if isinstance(error, Unavailable):
                self._owed.owe(owed)
            elif error is not None and len(owed) > 1:
                self._save_each(owed)
            elif error is not None:
                if isinstance(owed[0], AddMessage):
                    self.refused.add((owed[0].queue_id, owed[0].position))
                log.error("an operation is refused by the store: %s: %s", type(owed[0]).__name__, error)

        self._store.save(owed, done)

    def _save_each(self, ops: list[StoreOp]) -> None:
        """The store refused a list for the sake of one of them: the others must not be missing there."""
        for op in ops:
            self._save_owed([op])

    def _take_ops(self) -> list[StoreOp]:
        ops = self._ops
        ops.extend(MarkHandedOut(queue_id, position) for queue_id, position in self._handed_out.items())
        # A drop is true whenever the add before it is, so drops may wait for the end of the turn.
        ops.extend(DropMessages(queue_id, positions) for queue_id, positions in self._drops.items())
        self._ops, self._drops, self._handed_out = [], {}, {}
        return ops


def _octets(op: StoreOp) -> int:
    """How much of a message an operation carries."""
    if type(op) is AddMessage:
        return len(op.body) + len(op.header)
    return len(op.data) if type(op) is AddBodyChunk else 0
