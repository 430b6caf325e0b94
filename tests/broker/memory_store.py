"""A broker's store in dictionaries, on which tests restart a broker."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from semq.broker.durable.no_store import BodiesInMemory, CallLater, in_the_next_turn
from semq.errors import BadInput
from semq.store.broker.operations import (
    AddBodyChunk,
    AddMessage,
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Done,
    DropBody,
    DropMessages,
    MarkHandedOut,
    OrderlyEnd,
    RowsDone,
    SaveDone,
    SetDeliveryCount,
    StoredBacklog,
    StoredState,
    StoreOp,
    Unbind,
)


class MemoryBrokerStore(BodiesInMemory):
    def __init__(self, later: CallLater = in_the_next_turn) -> None:
        super().__init__(later)
        self.exchanges: dict[tuple[str, str], DeclareExchange] = {}
        self.queues: dict[int, DeclareQueue] = {}
        self.bindings: dict[Bind, None] = {}
        self.messages: dict[tuple[int, int], AddMessage] = {}
        self.handed_out: dict[int, int] = {}
        self.next_queue_id = 1
        self.ended = False  # whether the last broker stopped in an orderly way
        self.eager = 1 << 60  # number of messages that ``load`` returns; the later ones are in the backlogs
        self.batches = 0
        self.failure: BaseException | None = None  # error with which the store answers, None for success
        self.refuses: Callable[[StoreOp], bool] = lambda op: False
        self._refused_queues: set[int] = set()

    def save(self, ops: list[StoreOp], done: SaveDone) -> None:
        errors: dict[int, BaseException] = {}
        if self.failure is not None:
            errors = dict.fromkeys(range(max(1, len(ops))), self.failure)
        else:
            self.batches += 1
            errors = {index: BadInput("no") for index, op in enumerate(ops) if self._is_refused(op)}
            refused = [ops[index] for index in errors]
            for index, op in enumerate(ops):
                became = op.became if isinstance(op, DropMessages) else ()
                if index not in errors and not any(message is each for message in became for each in refused):
                    _APPLY[type(op)](self, op)
        self._later(lambda: done(errors))

    def save_whole(self, ops: list[StoreOp], done: Done) -> None:
        if any(map(self._is_refused, ops)):
            self._later(lambda: done(BadInput("no")))
        else:
            self.save(ops, lambda errors: done(errors.get(0)))

    def _is_refused(self, op: StoreOp) -> bool:
        is_refused = self.refuses(op)
        if isinstance(op, DeclareQueue | DeleteQueue):
            (self._refused_queues.add if is_refused else self._refused_queues.discard)(op.queue_id)
        return is_refused or (isinstance(op, AddMessage) and op.queue_id in self._refused_queues)

    async def load(self) -> StoredState:
        self.messages = {key: row for key, row in self.messages.items() if key[0] in self.queues}
        used = {message.body_id for message in self.messages.values()}
        self.bodies = {body_id: chunks for body_id, chunks in self.bodies.items() if body_id in used}
        if not self.ended:
            for queue_id, position in self.messages:
                self.mark_handed_out(MarkHandedOut(queue_id, position))
        self.ended = False
        return StoredState(
            exchanges=list(self.exchanges.values()),
            queues=list(self.queues.values()),
            bindings=list(self.bindings),
            messages=[self.messages[key] for key in sorted(self.messages)[: self.eager]],
            backlogs=self._backlogs(sorted(self.messages)[self.eager :]),
            handed_out=dict(self.handed_out),
            next_queue_id=self.next_queue_id,
            next_body_id=max(self.bodies, default=0) + 1,
        )

    def _backlogs(self, keys: list[tuple[int, int]]) -> dict[int, StoredBacklog]:
        backlogs: dict[int, StoredBacklog] = {}
        for key in keys:
            row = self.messages[key]
            backlogs.setdefault(key[0], StoredBacklog()).add(row.position, row.priority, len(row.body))
        return backlogs

    def read_messages(self, queue_id: int, positions: Sequence[int], done: RowsDone) -> None:
        error = self.failure
        keys = [(queue_id, position) for position in positions]
        rows = [self.messages[key] for key in keys if key in self.messages]
        self._later(lambda: done(rows if error is None else None, error))

    def orderly_end(self, op: OrderlyEnd) -> None:
        self.ended = True

    def declare_exchange(self, op: DeclareExchange) -> None:
        self.exchanges[op.vhost, op.name] = op

    def delete_exchange(self, op: DeleteExchange) -> None:
        self.exchanges.pop((op.vhost, op.name), None)

    def declare_queue(self, op: DeclareQueue) -> None:
        self.queues[op.queue_id] = op
        self.next_queue_id = max(self.next_queue_id, op.queue_id + 1)

    def delete_queue(self, op: DeleteQueue) -> None:
        self.queues.pop(op.queue_id, None)
        self.handed_out.pop(op.queue_id, None)

    def bind(self, op: Bind) -> None:
        self.bindings[op] = None

    def unbind(self, op: Unbind) -> None:
        key = (op.vhost, op.source, op.destination, op.to_exchange, op.routing_key, op.arguments)
        self.bindings.pop(Bind(*key), None)

    def add_message(self, op: AddMessage) -> None:
        self.messages[op.queue_id, op.position] = op

    def drop_messages(self, op: DropMessages) -> None:
        for position in op.positions:
            self.messages.pop((op.queue_id, position), None)

    def set_delivery_count(self, op: SetDeliveryCount) -> None:
        row = self.messages.get((op.queue_id, op.position))
        if row is not None:
            self.messages[op.queue_id, op.position] = replace(row, delivery_count=op.delivery_count)

    def mark_handed_out(self, op: MarkHandedOut) -> None:
        self.handed_out[op.queue_id] = max(op.position, self.handed_out.get(op.queue_id, 0))


_APPLY: dict[type, Callable[[MemoryBrokerStore, Any], None]] = {
    DeclareExchange: MemoryBrokerStore.declare_exchange,
    DeleteExchange: MemoryBrokerStore.delete_exchange,
    DeclareQueue: MemoryBrokerStore.declare_queue,
    DeleteQueue: MemoryBrokerStore.delete_queue,
    Bind: MemoryBrokerStore.bind,
    Unbind: MemoryBrokerStore.unbind,
    AddMessage: MemoryBrokerStore.add_message,
    DropMessages: MemoryBrokerStore.drop_messages,
    SetDeliveryCount: MemoryBrokerStore.set_delivery_count,
    MarkHandedOut: MemoryBrokerStore.mark_handed_out,
    AddBodyChunk: MemoryBrokerStore.add_chunk,
    DropBody: MemoryBrokerStore.drop_body,
    OrderlyEnd: MemoryBrokerStore.orderly_end,
}
