"""The operations of one turn, collected until its end and then passed to the store as one list.

If the store was unavailable, the failed list is kept (``unwritten``) and written before anything else, so that no
message is confirmed while its queue is not stored. A list that the store refused is repeated operation by operation, so
that only the operations at fault are missing, and only those who wait for them get the error.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

from semq.broker.durable.unwritten import UnwrittenOps
from semq.errors import Unavailable
from semq.store.broker.operations import (
    AddBodyChunk,
    AddMessage,
    DeclareQueue,
    DropMessages,
    MarkHandedOut,
    MessageStore,
    StoreOp,
)

log = logging.getLogger(__name__)

Waiter: TypeAlias = Callable[[BaseException | None], None]


class Publisher(Protocol):
    """A publisher that is notified when a publish is safe, or has failed."""

    def saved(self, sequence: int, size: int, error: BaseException | None) -> None: ...


class _WriteAnswer(NamedTuple):
    """An answer about the operations of this turn up to ``end``; its own ones begin at ``start``."""

    start: int
    end: int
    give: Waiter
    is_about_drops: bool  #: whether it may be the answer to a purge

    def error(self, ops: list[StoreOp], errors: Mapping[int, BaseException]) -> BaseException | None:
        """Return the error of an own operation, or of one before on which they depend. ``errors``: by index."""
        needed = {each for op in ops[self.start : self.end] for each in _needs(op)}
        for index, error in sorted(errors.items()):
            op = ops[index]
            if self.start <= index < self.end or (index < self.start and _makes(op) in needed):
                return error
            if self.is_about_drops and type(op) is DropMessages:
                return error
        return None


def _makes(op: StoreOp) -> tuple[str, int] | None:
    """Return what messages need."""
    if type(op) is DeclareQueue:
        return "queue", op.queue_id
    return ("body", op.body_id) if type(op) is AddBodyChunk else None


def _needs(op: StoreOp) -> tuple[tuple[str, int], ...]:
    return (("queue", op.queue_id), ("body", op.body_id)) if type(op) is AddMessage else ()


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
        self._answers: list[_WriteAnswer] = []
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
        failed. Its error is one of those added since the last call of this method or ``when_saved``, or of an earlier
        one on which they depend.
        """
        self._answer(partial(publisher.saved, sequence, size), is_about_drops=False)

    def when_saved(self, waiter: Waiter) -> None:
        """Call ``waiter`` as ``confirm_when_saved`` calls a publisher."""
        self._answer(waiter, is_about_drops=True)

    def _answer(self, give: Waiter, *, is_about_drops: bool) -> None:
        if not (self._ops or self._drops or self._answers):
            self._on_pending()
        start = self._answers[-1].end if self._answers else 0
        self._answers.append(_WriteAnswer(start, len(self._ops), give, is_about_drops))

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
        answers, self._answers = self._answers, []
        if not (ops or answers):
            return
        size = sum(map(_size, ops))

        def saved_each(errors: Mapping[int, BaseException]) -> None:
            self.pending_bytes -= size
            for answer in answers:
                answer.give(answer.error(ops, errors))

        def done(error: BaseException | None) -> None:
            if error is not None and ops and not isinstance(error, Unavailable):
                self._save_each(ops, saved_each)
                return
            self.pending_bytes -= size
            if error is not None:
                self._unwritten.keep(ops)
            for answer in answers:
                answer.give(error)

        self._store.save(ops, done)

    def _save_unwritten(self, ops: list[StoreOp], answer: Waiter = lambda error: None) -> None:
        self._unwritten_in_progress += 1

        def done(error: BaseException | None) -> None:
            self._unwritten_in_progress -= 1
            self._note_saved(ops, error)
            answer(error)

        self._store.save(ops, done)

    def _note_saved(self, ops: list[StoreOp], error: BaseException | None) -> None:
        if isinstance(error, Unavailable):
            self._unwritten.keep(ops)
        elif error is not None and len(ops) > 1:
            self._save_each(ops)
        elif error is not None:
            if isinstance(ops[0], AddMessage):
                self.refused.add((ops[0].queue_id, ops[0].position))
            log.error("the store refused an operation: %s: %s", type(ops[0]).__name__, error)

    def _save_each(
        self, ops: list[StoreOp], answer: Callable[[Mapping[int, BaseException]], None] = lambda errors: None
    ) -> None:
        """Save operations one by one. After the last one, ``answer`` gets the errors, by index in ``ops``."""
        errors: dict[int, BaseException] = {}
        left = set(range(len(ops)))

        def note(index: int, error: BaseException | None) -> None:
            if error is not None:
                errors[index] = error
            left.discard(index)
            if not left:
                answer(errors)

        for index, op in enumerate(ops):
            self._save_unwritten([op], partial(note, index))

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
