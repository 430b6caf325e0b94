"""Operations that the store has not saved because it was unavailable: the last state of each object. Pure.

The model continues without its store: queues are declared; messages are accepted, acknowledged and dead-lettered. All
of that is written when the store is available again, so that after a restart no acknowledged message is delivered again
and no moved message is lost. A client that waited for the store at that time has received an error (a publisher gets
basic.nack), although its change may still take effect. Used by ``journal``.

The lists have bounded size and this order: definitions, messages, drops, bodies that are no longer needed. A crash
between two lists repeats messages and loses none.
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
    MarkDelivered,
    MarkHandedOut,
    StoreOp,
    Unbind,
)

log = logging.getLogger(__name__)

LIST_BYTES = 8 * 1024 * 1024  # bytes of messages in one list
LIST_COUNT = 10_000  # messages, or drops, in one list
DROPS_MAX = 1_000_000


class Owed:
    """Operations that failed because the store was unavailable. ``take`` empties it."""

    def __init__(self) -> None:
        self._defined: dict[Hashable, StoreOp] = {}
        self._added: dict[int, dict[int, AddMessage]] = {}  # by queue and position
        self._dropped: dict[int, dict[int, None]] = {}
        self._marked: dict[int, dict[int, MarkDelivered]] = {}
        self._handed_out: dict[int, MarkHandedOut] = {}
        self._bodies: dict[int, DropBody] = {}
        self._drops = 0
        self._is_full = False

    def __bool__(self) -> bool:
        return any((self._defined, self._added, self._dropped, self._marked, self._handed_out, self._bodies))

    def owe(self, ops: Iterable[StoreOp]) -> None:
        """Keep failed operations, in this order. Chunks of bodies are not kept: their sender has received an error."""
        for op in ops:
            note = _NOTES.get(type(op))
            if note is not None:
                note(self, op)

    def take(self) -> Iterator[list[StoreOp]]:
        """Return and remove everything, as lists in the order in which they must be written."""
        found = Owed()
        found.__dict__, self.__dict__ = self.__dict__, found.__dict__
        return found._lists()

    # Inside.

    def _lists(self) -> Iterator[list[StoreOp]]:
        if self._defined:
            yield list(self._defined.values())
        yield from _bounded(self._messages())
        marks = (mark for marked in self._marked.values() for mark in marked.values())
        yield from _bounded(chain(marks, self._handed_out.values()))
        for queue_id, positions in self._dropped.items():
            places = list(positions)
            for first in range(0, len(places), LIST_COUNT):
                yield [DropMessages(queue_id, places[first : first + LIST_COUNT])]
        yield from _bounded(self._bodies.values())

    def _messages(self) -> Iterator[StoreOp]:
        for queue_id, added in self._added.items():
            for position, op in added.items():
                # The unanswered commit may have succeeded, so the row may exist.
                yield DropMessages(queue_id, [position])
                yield op

    def _define(self, op: Any) -> None:
        defined = _defined(op)
        self._defined.pop(defined, None)
        self._defined[defined] = op

    def _delete_queue(self, op: DeleteQueue) -> None:
        self._added.pop(op.queue_id, None)
        self._drops -= len(self._dropped.pop(op.queue_id, ()))
        self._handed_out.pop(op.queue_id, None)
        self._marked.pop(op.queue_id, None)
        self._define(op)

    def _add(self, op: AddMessage) -> None:
        self._added.setdefault(op.queue_id, {})[op.position] = op
        dropped = self._dropped.get(op.queue_id)
        if dropped is not None and op.position in dropped:  # by a list of this object, which failed again
            del dropped[op.position]
            self._drops -= 1

    def _drop(self, op: DropMessages) -> None:
        added = self._added.get(op.queue_id, {})
        marked = self._marked.get(op.queue_id, {})
        dropped = self._dropped.setdefault(op.queue_id, {})
        for position in op.positions:
            added.pop(position, None)
            marked.pop(position, None)
            if self._drops < DROPS_MAX:
                self._drops += position not in dropped
                dropped[position] = None
            elif not self._is_full:
                self._is_full = True
                log.warning(
                    "%d messages were settled without a store; of later ones, some will be delivered again",
                    DROPS_MAX,
                )

    def _mark(self, op: MarkDelivered) -> None:
        self._marked.setdefault(op.queue_id, {})[op.position] = op

    def _hand_out(self, op: MarkHandedOut) -> None:
        known = self._handed_out.get(op.queue_id)
        if known is None or op.position > known.position:
            self._handed_out[op.queue_id] = op

    def _drop_body(self, op: DropBody) -> None:
        self._bodies[op.body_id] = op


def _bounded(ops: Iterable[StoreOp]) -> Iterator[list[StoreOp]]:
    gathered: list[StoreOp] = []
    size = 0
    for op in ops:
        gathered.append(op)
        if type(op) is DropMessages:
            continue  # never end a list here: this drop must precede the message added at the same position
        if type(op) is AddMessage:
            size += len(op.body) + len(op.header)
        if size >= LIST_BYTES or len(gathered) >= LIST_COUNT:
            yield gathered
            gathered, size = [], 0
    if gathered:
        yield gathered


def _defined(op: StoreOp) -> Hashable:
    """Return the key of the object that an operation defines or deletes."""
    if isinstance(op, DeclareQueue | DeleteQueue):
        return op.queue_id
    if isinstance(op, DeclareExchange | DeleteExchange):
        return op.vhost, op.name
    assert isinstance(op, Bind | Unbind)
    return op.vhost, op.source, op.destination, op.to_exchange, op.routing_key, op.arguments


_NOTES: dict[type[StoreOp], Callable[[Owed, Any], None]] = {
    DeclareExchange: Owed._define,
    DeleteExchange: Owed._define,
    DeclareQueue: Owed._define,
    DeleteQueue: Owed._delete_queue,
    Bind: Owed._define,
    Unbind: Owed._define,
    AddMessage: Owed._add,
    DropMessages: Owed._drop,
    MarkDelivered: Owed._mark,
    MarkHandedOut: Owed._hand_out,
    DropBody: Owed._drop_body,
}
