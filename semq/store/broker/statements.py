"""Statements for the durable part of the broker: all row operations of a unit (``Unit.broker``), combined."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from semq.store.broker.operations import (
    AddBodyChunk,
    AddMessage,
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DropBody,
    DropMessages,
    MarkHandedOut,
    OrderlyEnd,
    SetDeliveryCount,
    StoreOp,
    Unbind,
)
from semq.store.postgres.conversion.binary import Param, boolean, int4, int8, int8s

Batch = list[tuple[str, Sequence[Param]]]

# Name | SQL
BROKER: dict[str, str] = {
    "DeclareExchange": """
        INSERT INTO broker_exchange (vhost, name, type, auto_delete, internal, arguments) VALUES ($1, $2, $3, $4, $5,
        $6) ON CONFLICT (vhost, name) DO UPDATE SET type = excluded.type, auto_delete = excluded.auto_delete,
            internal = excluded.internal, arguments = excluded.arguments""",
    "DeleteExchange": "DELETE FROM broker_exchange WHERE vhost = $1 AND name = $2",
    "DeclareQueue": """
        INSERT INTO broker_queue (queue_id, vhost, name, auto_delete, arguments) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (queue_id) DO UPDATE SET auto_delete = excluded.auto_delete, arguments = excluded.arguments""",
    # Memory has one queue of a name, so another row is one whose deletion was refused.
    "replace_queue": "DELETE FROM broker_queue WHERE vhost = $1 AND name = $2 AND queue_id <> $3",
    "raise_next_queue_id": "UPDATE semq_meta SET next_queue_id = greatest(next_queue_id, $1::bigint + 1)",
    "DeleteQueue": "DELETE FROM broker_queue WHERE queue_id = $1",
    "OrderlyEnd": "UPDATE semq_meta SET broker_ended = true",
    "Bind": """
        INSERT INTO broker_binding (identity, vhost, source, destination, to_exchange, routing_key, arguments)
        VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (identity) DO NOTHING""",
    "Unbind": "DELETE FROM broker_binding WHERE identity = $1",
    "drop_handed_out": "DELETE FROM broker_handed_out WHERE queue_id = $1",
    "drop_messages": "DELETE FROM broker_message WHERE queue_id = $1 AND position = ANY($2::bigint[])",
    "set_delivery_count": """
        UPDATE broker_message SET delivery_count = $2 WHERE queue_id = $1 AND position = ANY($3::bigint[])""",
    "mark_handed_out": """
        INSERT INTO broker_handed_out (queue_id, position) VALUES ($1, $2)
        ON CONFLICT (queue_id) DO UPDATE SET position = greatest(broker_handed_out.position, excluded.position)""",
    "drop_bodies": "DELETE FROM broker_body WHERE body_id = ANY($1::bigint[])",
}


class NetEffect:
    """The combined effect of a list of operations: a message that is added and dropped in one unit is never written."""

    def __init__(self, ops: Iterable[StoreOp]) -> None:
        self.declared: Batch = []
        self.added: dict[int, dict[int, AddMessage]] = defaultdict(dict)
        self.dropped: dict[int, set[int]] = defaultdict(set)
        self.delivery_counts: dict[int, dict[int, int]] = defaultdict(dict)
        self.handed_out: dict[int, int] = {}
        self.chunks: dict[int, dict[int, bytes]] = defaultdict(dict)
        self.bodies_dropped: set[int] = set()
        for op in ops:
            _APPLY[type(op)](self, op)

    def add(self, op: AddMessage) -> None:
        """Apply AddMessage. An earlier delivery count at this position was for a message that no longer exists."""
        self.delivery_counts[op.queue_id].pop(op.position, None)
        self.added[op.queue_id][op.position] = op

    def drop(self, op: DropMessages) -> None:
        added = self.added[op.queue_id]
        for position in op.positions:
            self.delivery_counts[op.queue_id].pop(position, None)
            if added.pop(position, None) is None:
                self.dropped[op.queue_id].add(position)

    def set_delivery_count(self, op: SetDeliveryCount) -> None:
        self.delivery_counts[op.queue_id][op.position] = op.delivery_count

    def hand_out(self, op: MarkHandedOut) -> None:
        self.handed_out[op.queue_id] = max(op.position, self.handed_out.get(op.queue_id, 0))

    def add_chunk(self, op: AddBodyChunk) -> None:
        self.chunks[op.body_id][op.index] = op.data

    def drop_body(self, op: DropBody) -> None:
        """Apply DropBody, to chunks of this unit and to stored chunks."""
        self.chunks.pop(op.body_id, None)
        self.bodies_dropped.add(op.body_id)

    def delete_queue(self, op: DeleteQueue) -> None:
        for by_queue in (self.added, self.delivery_counts, self.handed_out):
            by_queue.pop(op.queue_id, None)
        queue = [int8(op.queue_id)]
        self.declared += [("DeleteQueue", queue), ("drop_handed_out", queue)]

    def orderly_end(self, _op: OrderlyEnd) -> None:
        self.declared.append(("OrderlyEnd", []))

    def declare_queue(self, op: DeclareQueue) -> None:
        values = [int8(op.queue_id), op.vhost.encode(), op.name.encode(), boolean(op.auto_delete), bytes(op.arguments)]
        self.declared += [("replace_queue", [values[1], values[2], values[0]])]
        self.declared += [("DeclareQueue", values), ("raise_next_queue_id", [int8(op.queue_id)])]

    def declare_exchange(self, op: DeclareExchange) -> None:
        flags = (boolean(op.auto_delete), boolean(op.internal))
        values = [op.vhost.encode(), op.name.encode(), op.type.encode(), *flags, bytes(op.arguments)]
        self.declared.append(("DeclareExchange", values))

    def delete_exchange(self, op: DeleteExchange) -> None:
        self.declared.append(("DeleteExchange", [op.vhost.encode(), op.name.encode()]))

    def bind(self, op: Bind) -> None:
        texts = (op.vhost.encode(), op.source.encode(), op.destination.encode())
        values = (boolean(op.to_exchange), op.routing_key.encode(), bytes(op.arguments))
        self.declared.append(("Bind", [_identity(op), *texts, *values]))

    def unbind(self, op: Unbind) -> None:
        self.declared.append(("Unbind", [_identity(op)]))

    def batch(self) -> Batch:
        """Return the statements for everything except new messages and chunks."""
        batch = list(self.declared)
        batch += [
            ("drop_messages", [int8(queue), int8s(positions)]) for queue, positions in self.dropped.items() if positions
        ]
        for queue, delivery_counts in self.delivery_counts.items():
            by_count: dict[int, list[int]] = defaultdict(list)
            for position, times in delivery_counts.items():
                if position not in self.added[queue]:
                    by_count[times].append(position)
            batch += [
                ("set_delivery_count", [int8(queue), int4(times), int8s(positions)])
                for times, positions in by_count.items()
            ]
        batch += [("mark_handed_out", [int8(queue), int8(position)]) for queue, position in self.handed_out.items()]
        if self.bodies_dropped:
            batch.append(("drop_bodies", [int8s(self.bodies_dropped)]))
        return batch

    def rows(self) -> dict[str, list[Sequence[object]]]:
        """Return the new messages and chunks by table, as values in the order of the columns."""
        chunks: list[Sequence[object]] = [
            (body_id, index, data) for body_id, chunks in self.chunks.items() for index, data in chunks.items()
        ]
        return {"broker_message": self._messages(), "broker_body": chunks}

    def _messages(self) -> list[Sequence[object]]:
        return [
            _values(op, self.delivery_counts[queue].get(position, op.delivery_count))
            for queue, messages in self.added.items()
            for position, op in messages.items()
        ]


_APPLY: dict[type, Callable[[NetEffect, Any], None]] = {
    DeclareExchange: NetEffect.declare_exchange,
    DeleteExchange: NetEffect.delete_exchange,
    DeclareQueue: NetEffect.declare_queue,
    DeleteQueue: NetEffect.delete_queue,
    Bind: NetEffect.bind,
    Unbind: NetEffect.unbind,
    AddMessage: NetEffect.add,
    DropMessages: NetEffect.drop,
    SetDeliveryCount: NetEffect.set_delivery_count,
    MarkHandedOut: NetEffect.hand_out,
    AddBodyChunk: NetEffect.add_chunk,
    DropBody: NetEffect.drop_body,
    OrderlyEnd: NetEffect.orderly_end,
}


def _identity(op: Bind | Unbind) -> bytes:
    parts = (op.vhost, op.source, op.destination, "x" if op.to_exchange else "q", op.routing_key)
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(int4(len(encoded)) + encoded)
    digest.update(bytes(op.arguments))
    return digest.digest()


def _values(op: AddMessage, delivery_count: int) -> Sequence[object]:
    return (
        op.queue_id,
        op.position,
        op.exchange,
        op.routing_key,
        op.priority,
        op.expires_at,
        delivery_count,
        op.header,
        op.body,
        op.body_id,
    )
