"""Stores that need no disk: one that remembers what it was given, one that does not.

``MemoryStore`` is the second implementation of ``persist.MessageStore``: tests restart a broker on it. ``NoStore`` is
for a node whose durable queues live in memory only. Both answer in the next turn, as a store with a disk would.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from semq.broker.persist import (
    AddMessage,
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Done,
    DropMessages,
    MarkDelivered,
    MarkHandedOut,
    StoredState,
    StoreOp,
    Unbind,
)

Later = Callable[[Callable[[], None]], Any]


def _soon(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(callback)


class NoStore:
    """Keeps nothing and says that all is well."""

    def __init__(self, later: Later = _soon) -> None:
        self._later = later

    def save(self, ops: list[StoreOp], done: Done) -> None:
        self._later(lambda: done(None))

    async def load(self) -> StoredState:
        return StoredState()


class MemoryStore:
    """Keeps everything in dictionaries. ``later`` calls a function soon; the default is the next turn of the loop."""

    def __init__(self, later: Later = _soon) -> None:
        self._later = later
        self.exchanges: dict[tuple[str, str], DeclareExchange] = {}
        self.queues: dict[int, DeclareQueue] = {}
        self.bindings: dict[Bind, None] = {}
        self.messages: dict[tuple[int, int], AddMessage] = {}
        self.handed_out: dict[int, int] = {}
        self.next_queue_id = 1
        self.batches = 0
        self.failure: BaseException | None = None

    def save(self, ops: list[StoreOp], done: Done) -> None:
        error = self.failure
        if error is None:
            self.batches += 1
            for op in ops:
                _APPLY[type(op)](self, op)
        self._later(lambda: done(error))

    async def load(self) -> StoredState:
        return StoredState(
            exchanges=list(self.exchanges.values()),
            queues=list(self.queues.values()),
            bindings=list(self.bindings),
            messages=[self.messages[key] for key in sorted(self.messages)],
            handed_out=dict(self.handed_out),
            next_queue_id=self.next_queue_id,
        )

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
        for key in [key for key in self.messages if key[0] == op.queue_id]:
            del self.messages[key]

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

    def mark_delivered(self, op: MarkDelivered) -> None:
        found = self.messages.get((op.queue_id, op.position))
        if found is not None:
            self.messages[op.queue_id, op.position] = replace(found, delivery_count=op.delivery_count)

    def mark_handed_out(self, op: MarkHandedOut) -> None:
        self.handed_out[op.queue_id] = op.position


_APPLY: dict[type, Callable[[MemoryStore, Any], None]] = {
    DeclareExchange: MemoryStore.declare_exchange,
    DeleteExchange: MemoryStore.delete_exchange,
    DeclareQueue: MemoryStore.declare_queue,
    DeleteQueue: MemoryStore.delete_queue,
    Bind: MemoryStore.bind,
    Unbind: MemoryStore.unbind,
    AddMessage: MemoryStore.add_message,
    DropMessages: MemoryStore.drop_messages,
    MarkDelivered: MemoryStore.mark_delivered,
    MarkHandedOut: MemoryStore.mark_handed_out,
}
