"""Operations that the store has not saved because it was unavailable: for each object, only the last one. Pure.

The broker continues without its store, and these operations are written when the store is available again. A client
that waited for the store has received an error (a publisher: basic.nack), although its change may still take effect.

The lists are written in this order: definitions, messages, marks of deliveries, drops, bodies that are no longer
needed. A crash between two lists repeats messages and loses none. A message that moved to other queues is removed in
the list that has the rows of these queues, because the store keeps it if it refuses one of them.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from typing import Any

from semq.store.broker.operations import (
    AddMessage,
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DropBody,
    DropMessages,
    MarkHandedOut,
    SetDeliveryCount,
    StoreOp,
    Unbind,
)

log = logging.getLogger(__name__)

LIST_BYTES = 8 * 1024 * 1024  # bytes of messages in one list
LIST_COUNT = 10_000  # operations, or dropped messages, in one list
DROPS_MAX = 1_000_000  # largest number of drops that are kept, of all queues together


class UnwrittenOps:
    """Operations that failed because the store was unavailable. ``take`` returns and removes them."""

    def __init__(self) -> None:
        self._defined: dict[Hashable, StoreOp] = {}
        self._added: dict[int, dict[int, AddMessage]] = {}  # keyed by queue, then by position
        self._dropped: dict[int, dict[int, object]] = {}  # by position
        self._moved: dict[int, dict[int, list[tuple[int, int]]]] = {}  # queues and positions to which a message moved
        self._marked: dict[int, dict[int, SetDeliveryCount]] = {}
        self._handed_out: dict[int, MarkHandedOut] = {}
        self._bodies: dict[int, DropBody] = {}
        self._drop_count = 0
        self._is_full = False  # whether a drop was not kept because of DROPS_MAX

    def __bool__(self) -> bool:
        kept = (self._defined, self._added, self._moved, self._dropped, self._marked, self._handed_out, self._bodies)
        return any(kept)

    def keep(self, ops: Iterable[StoreOp]) -> None:
        """Keep failed operations, in their order. Chunks of bodies are not kept: their sender has received an error."""
        for op in ops:
            keep = _KEEPERS.get(type(op))
            if keep is not None:
                keep(self, op)

    def take(self) -> Iterator[list[StoreOp]]:
        """Return and remove everything, as lists in the order in which they must be written."""
        taken = UnwrittenOps()
        taken.__dict__, self.__dict__ = self.__dict__, taken.__dict__
        return taken._lists()

    # Private methods.

    def _lists(self) -> Iterator[list[StoreOp]]:
        if self._defined:
            yield list(self._defined.values())
        yield from _bounded_lists(self._messages())
        marks = chain.from_iterable(marked.values() for marked in self._marked.values())
        yield from _bounded_lists(_each_alone(chain(marks, self._handed_out.values())))
        for queue_id, positions in self._dropped.items():
            in_order = list(positions)
            for first in range(0, len(in_order), LIST_COUNT):
                yield [DropMessages(queue_id, in_order[first : first + LIST_COUNT])]
        yield from _bounded_lists(_each_alone(self._bodies.values()))

    def _messages(self) -> Iterator[list[StoreOp]]:
        """Yield the operations that must stay in one list."""
        for queue_id, moved in self._moved.items():
            for position, places in moved.items():
                found = (self._added.get(queue, {}).pop(at, None) for queue, at in places)
                became = [op for op in found if op is not None]
                yield [*chain.from_iterable(map(_written_again, became)), DropMessages(queue_id, [position], became)]
        for added in self._added.values():
            yield from map(_written_again, added.values())

    def _define(self, op: StoreOp) -> None:
        key = object_key(op)
        self._defined.pop(key, None)
        self._defined[key] = op

    def _delete_queue(self, op: DeleteQueue) -> None:
        self._added.pop(op.queue_id, None)
        self._drop_count -= len(self._dropped.pop(op.queue_id, ())) + len(self._moved.pop(op.queue_id, ()))
        self._handed_out.pop(op.queue_id, None)
        self._marked.pop(op.queue_id, None)
        self._define(op)

    def _add(self, op: AddMessage) -> None:
        self._added.setdefault(op.queue_id, {})[op.position] = op
        dropped = self._dropped.get(op.queue_id)
        # A list of ``take`` that failed again has a drop before each message.
        if dropped is not None and op.position in dropped:
            del dropped[op.position]
            self._drop_count -= 1

    def _drop(self, op: DropMessages) -> None:
        added = self._added.get(op.queue_id, {})
        marked = self._marked.get(op.queue_id, {})
        kept: dict[int, Any] = (self._moved if op.became else self._dropped).setdefault(op.queue_id, {})
        for position in op.positions:
            added.pop(position, None)
            marked.pop(position, None)
            if self._drop_count < DROPS_MAX:
                self._drop_count += position not in kept
                kept[position] = [(each.queue_id, each.position) for each in op.became]
            elif not self._is_full:
                self._is_full = True
                log.warning(
                    "the store is unavailable, and %d settled messages must still be deleted from it; messages"
                    " settled from now on may be delivered again after a restart",
                    DROPS_MAX,
                )

    def _mark(self, op: SetDeliveryCount) -> None:
        self._marked.setdefault(op.queue_id, {})[op.position] = op

    def _hand_out(self, op: MarkHandedOut) -> None:
        previous = self._handed_out.get(op.queue_id)
        if previous is None or op.position > previous.position:
            self._handed_out[op.queue_id] = op

    def _drop_body(self, op: DropBody) -> None:
        self._bodies[op.body_id] = op


def _written_again(op: AddMessage) -> list[StoreOp]:
    # The unanswered commit may have succeeded, so the row may exist.
    return [DropMessages(op.queue_id, [op.position]), op]


def _each_alone(ops: Iterable[StoreOp]) -> Iterator[list[StoreOp]]:
    return ([op] for op in ops)


def _bounded_lists(groups: Iterable[list[StoreOp]]) -> Iterator[list[StoreOp]]:
    current: list[StoreOp] = []
    size = 0
    for group in groups:
        current += group
        size += sum(len(op.body) + len(op.header) for op in group if type(op) is AddMessage)
        if size >= LIST_BYTES or len(current) >= LIST_COUNT:
            yield current
            current, size = [], 0
    if current:
        yield current


def object_key(op: StoreOp) -> Hashable:
    """Return the key of the exchange, queue or binding that an operation declares or deletes."""
    if isinstance(op, DeclareQueue | DeleteQueue):
        return op.queue_id
    if isinstance(op, DeclareExchange | DeleteExchange):
        return op.vhost, op.name
    assert isinstance(op, Bind | Unbind)
    return op.vhost, op.source, op.destination, op.to_exchange, op.routing_key, op.arguments


_KEEPERS: dict[type[StoreOp], Callable[[UnwrittenOps, Any], None]] = {
    DeclareExchange: UnwrittenOps._define,
    DeleteExchange: UnwrittenOps._define,
    DeclareQueue: UnwrittenOps._define,
    DeleteQueue: UnwrittenOps._delete_queue,
    Bind: UnwrittenOps._define,
    Unbind: UnwrittenOps._define,
    AddMessage: UnwrittenOps._add,
    DropMessages: UnwrittenOps._drop,
    SetDeliveryCount: UnwrittenOps._mark,
    MarkHandedOut: UnwrittenOps._hand_out,
    DropBody: UnwrittenOps._drop_body,
}
