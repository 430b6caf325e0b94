"""The operations of one turn, collected until its end and then passed to the store as one list.

If the store was unavailable, the failed list is kept (``unwritten``) and written before anything else, so that no
message is confirmed while its queue is not stored. Of a list that the store refuses in part, only the operations at
fault are missing, and only those who wait for them get the error. Refused definitions are taken back in memory, too.
"""

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

from semq.broker.durable.unwritten import UnwrittenOps, object_key
from semq.errors import Unavailable
from semq.store.broker.operations import (
    AddBodyChunk,
    AddMessage,
    Definition,
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
        """Return the error of an own operation, of the body of an own message, or that the store is unavailable.
        ``errors``: by index.
        """
        if not errors:
            return None
        bodies = {op.body_id for op in ops[self.start : self.end] if isinstance(op, AddMessage)}
        for index, error in sorted(errors.items()):
            if isinstance(error, Unavailable):
                return error
            if not ops:
                continue
            op = ops[index]
            if self.start <= index < self.end or (isinstance(op, AddBodyChunk) and op.body_id in bodies):
                return error
            if self.is_about_drops and type(op) is DropMessages:
                return error
        return None


def _nothing() -> None:
    pass


class _Defined(NamedTuple):
    """The newest operation on an exchange, queue or binding, until the store has answered."""

    op: Definition
    take_back: Callable[[], object]


class Journal:
    """The operations of this turn. ``pending_bytes`` counts the bytes of messages and chunks that the store has not
    answered yet.
    """

    def __init__(self, store: MessageStore, on_pending: Callable[[], None] = lambda: None) -> None:
        """``on_pending`` is called, perhaps repeatedly, when the operations of this turn need a ``flush``."""
        self._store = store
        self._ops: list[StoreOp] = []
        self._drops: dict[int, list[int]] = {}  # positions, keyed by queue
        self._moves: list[DropMessages] = []
        self._handed_out: dict[int, int] = {}  # highest position, keyed by queue
        self._answers: list[_WriteAnswer] = []
        self._unwritten = UnwrittenOps()
        self.pending_bytes = 0
        self.refused: set[tuple[int, int]] = set()  # queue and position of messages that the store has refused
        self._defined: dict[Hashable, _Defined] = {}  # by object
        self._is_taking_back = False
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

    def define(self, op: Definition, take_back: Callable[[], object]) -> None:
        """Add a definition, which memory has already. ``take_back`` undoes it if the store refuses it."""
        self._defined[object_key(op)] = _Defined(op, _nothing if self._is_taking_back else take_back)
        self.add(op)

    def repeat(self, op: Definition) -> bool:
        """Add a definition once more if the store has not answered the first one; return whether it was added."""
        defined = self._defined.get(object_key(op))
        if defined is None or type(defined.op) is not type(op):
            return False
        self.define(op, defined.take_back)
        return True

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

    def move(self, queue_id: int, position: int, became: Sequence[AddMessage]) -> None:
        """Note that a message left its queue, and other queues have it as ``became``, which were added this turn."""
        self._moves.append(DropMessages(queue_id, [position], became))

    @property
    def added_count(self) -> int:
        """The number of operations added this turn, for ``messages_since``."""
        return len(self._ops)

    def messages_since(self, count: int) -> list[AddMessage]:
        """Return the messages added this turn after the first ``count`` operations."""
        return [op for op in self._ops[count:] if isinstance(op, AddMessage)]

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

            self._store.save_whole(ops, answered)

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

        def done(errors: Mapping[int, BaseException]) -> None:
            self.pending_bytes -= size
            self._note_saved(ops, errors)
            for answer in answers:
                answer.give(answer.error(ops, errors))

        self._store.save(ops, done)

    def _save_unwritten(self, ops: list[StoreOp]) -> None:
        self._unwritten_in_progress += 1

        def done(errors: Mapping[int, BaseException]) -> None:
            self._unwritten_in_progress -= 1
            self._note_saved(ops, errors)

        self._store.save(ops, done)

    def _note_saved(self, ops: list[StoreOp], errors: Mapping[int, BaseException]) -> None:
        """Keep what the store could not write, and take back the definitions that it refused, the last one first."""
        for index in sorted(errors) if ops else ():
            op, error = ops[index], errors[index]
            if isinstance(error, Unavailable):
                self._unwritten.keep([op])
                continue
            if isinstance(op, AddMessage):
                self.refused.add((op.queue_id, op.position))
            log.error("the store refused an operation: %s: %s", type(op).__name__, error)
        if self._defined:
            self._take_back(ops, errors)

    def _take_back(self, ops: list[StoreOp], errors: Mapping[int, BaseException]) -> None:
        refused = []
        for index, op in enumerate(ops):
            error = errors.get(index)
            if isinstance(error, Unavailable) or not isinstance(op, Definition):
                continue
            defined = self._defined.get(object_key(op))
            # If a later operation on the object is under way, that one decides.
            if defined is not None and defined.op is op:
                del self._defined[object_key(op)]
                refused += [] if error is None else [defined.take_back]
        self._is_taking_back = True
        try:
            for take_back in reversed(refused):
                take_back()
        finally:
            self._is_taking_back = False

    def _take_ops(self) -> list[StoreOp]:
        ops = self._ops
        ops.extend(MarkHandedOut(queue_id, position) for queue_id, position in self._handed_out.items())
        # All drops may be last: a drop only has to follow the add of its message.
        ops.extend(DropMessages(queue_id, positions) for queue_id, positions in self._drops.items())
        ops.extend(self._moves)
        self._ops, self._drops, self._handed_out, self._moves = [], {}, {}, []
        return ops


def _size(op: StoreOp) -> int:
    if type(op) is AddMessage:
        return len(op.body) + len(op.header)
    return len(op.data) if type(op) is AddBodyChunk else 0
