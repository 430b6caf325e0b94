"""The interface of a broker to its store: operations on rows, and the state that a restart loads.

The server model (``semq.broker``) passes lists of operations in the order in which they must take effect, and a
callback, which the store calls when the list is committed. An implementation of ``MessageStore`` decides how many lists
share one transaction; each list is applied completely or not at all. The operations are about durable exchanges and
queues, bindings between them, persistent messages in durable queues, and chunks of bodies. Implemented by ``store`` on
Postgres, and by ``semq.broker.durable.no_store`` for a broker that keeps its queues in memory.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias


@dataclass(slots=True, frozen=True)
class DeclareExchange:
    """Add a durable exchange. ``arguments`` is an encoded AMQP field table, including its length."""

    vhost: str
    name: str
    type: str
    auto_delete: bool
    internal: bool
    arguments: bytes


@dataclass(slots=True, frozen=True)
class DeleteExchange:
    """Delete a durable exchange; an ``Unbind`` for each of its bindings precedes it."""

    vhost: str
    name: str


@dataclass(slots=True, frozen=True)
class DeclareQueue:
    """Add a durable queue. ``queue_id`` is never used for another queue, even after the queue is deleted."""

    queue_id: int
    vhost: str
    name: str
    auto_delete: bool
    arguments: bytes


@dataclass(slots=True, frozen=True)
class DeleteQueue:
    """Delete a durable queue. An ``Unbind`` for each of its bindings precedes it.

    ``DropMessages`` for its messages follow in slices. If the broker ends before the last slice, ``load`` deletes the
    remaining messages.
    """

    queue_id: int


@dataclass(slots=True, frozen=True)
class Bind:
    """Add a binding between durable objects. ``to_exchange``: the destination is an exchange, otherwise a queue."""

    vhost: str
    source: str
    destination: str
    to_exchange: bool
    routing_key: str
    arguments: bytes


@dataclass(slots=True, frozen=True)
class Unbind:
    """Delete a binding, identified by all fields."""

    vhost: str
    source: str
    destination: str
    to_exchange: bool
    routing_key: str
    arguments: bytes


@dataclass(slots=True)  # not frozen, for speed: one is made for each message in each queue
class AddMessage:
    """Add a message to a queue. (``queue_id``, ``position``) is its key, and ``position`` its place in the queue.

    ``body_id`` is 0 if the body is in ``body``; otherwise ``body`` is empty and the bytes are in the chunks of that id,
    which several messages may share. ``header`` is the payload of the content header frame as received, ``expires_at``
    POSIX seconds or None, and ``delivery_count`` the number of earlier deliveries.
    """

    queue_id: int
    position: int
    exchange: str
    routing_key: str
    priority: int
    expires_at: float | None
    delivery_count: int
    header: bytes
    body: bytes
    body_id: int = 0


@dataclass(slots=True)  # not frozen, for speed: one is made for each queue and turn with settlements
class DropMessages:
    """Remove messages from a queue: acknowledged, expired, dead-lettered or purged."""

    queue_id: int
    positions: Sequence[int]


@dataclass(slots=True)  # not frozen, for speed: one is made for each message that returns a second time
class SetDeliveryCount:
    """Set the number of deliveries of a message that has returned to its queue more than once.

    After a restart the message is marked as redelivered. For the first return, ``MarkHandedOut`` suffices.
    """

    queue_id: int
    position: int
    delivery_count: int


@dataclass(slots=True)  # not frozen, for speed: one is made for each queue and turn with deliveries
class MarkHandedOut:
    """Note that messages of the queue up to ``position`` may have been delivered.

    After a restart these messages are marked as redelivered. A lower position than in an earlier ``MarkHandedOut`` has
    no effect. The store has one row for each queue, not for each message, so a delivery needs no write of its own.
    """

    queue_id: int
    position: int


@dataclass(slots=True)
class AddBodyChunk:
    """Add the next bytes of a large body; ``index`` counts from 0.

    The chunks of a body are stored before the messages that refer to it. Transient messages that leave memory are also
    stored in this way, several in one body.
    """

    body_id: int
    index: int
    data: bytes


@dataclass(slots=True)
class OrderlyEnd:
    """Note an orderly end of the broker: every delivery has been settled.

    Without this note, all messages are marked as redelivered after the restart, because the last deliveries may not
    have been recorded.
    """


@dataclass(slots=True)
class DropBody:
    """Delete a body that no message refers to any more."""

    body_id: int


StoreOp: TypeAlias = (
    DeclareExchange
    | DeleteExchange
    | DeclareQueue
    | DeleteQueue
    | Bind
    | Unbind
    | AddMessage
    | DropMessages
    | SetDeliveryCount
    | MarkHandedOut
    | AddBodyChunk
    | DropBody
    | OrderlyEnd
)
ReadDone: TypeAlias = Callable[[bytes | None, BaseException | None], None]
RowsDone: TypeAlias = "Callable[[Sequence[AddMessage] | None, BaseException | None], None]"
Done: TypeAlias = Callable[[BaseException | None], None]


class StoredBacklog:
    """Messages of one queue that stay in the store until shortly before their delivery, in order of position.

    Only three values of each message are in memory.
    """

    __slots__ = ("positions", "priorities", "sizes")

    def __init__(self) -> None:
        self.positions: array[int] = array("q")
        self.priorities = bytearray()
        self.sizes: array[int] = array("q")  # bytes of the bodies

    def add(self, position: int, priority: int, size: int) -> None:
        """Add a message after the others."""
        self.positions.append(position)
        self.priorities.append(priority)
        self.sizes.append(size)


@dataclass(slots=True)
class StoredState:
    """The stored state of a broker, as the operations that create it; messages in order of queue and position.

    For a long queue, ``messages`` has the first messages and all messages with large bodies, and ``backlogs`` has the
    others. ``next_queue_id`` is above every id that a queue ever had; ``next_body_id`` is above the ids of all stored
    bodies. ``handed_out`` has the highest position of ``MarkHandedOut`` for each queue. The ``delivery_count`` of a
    message includes ``SetDeliveryCount``. ``ended``: the last operation was ``OrderlyEnd``.
    """

    exchanges: list[DeclareExchange] = field(default_factory=list)
    queues: list[DeclareQueue] = field(default_factory=list)
    bindings: list[Bind] = field(default_factory=list)
    messages: list[AddMessage] = field(default_factory=list)
    backlogs: dict[int, StoredBacklog] = field(default_factory=dict)  # by queue; contains no messages with large bodies
    handed_out: dict[int, int] = field(default_factory=dict)
    next_queue_id: int = 1
    next_body_id: int = 1
    ended: bool = False


class MessageStore(Protocol):
    """The store of the durable part of a broker."""

    def save(self, ops: list[StoreOp], done: Done) -> None:
        """Apply ``ops`` in order, completely or not at all, then call ``done(None)`` once, in the broker's thread.

        ``done(error)`` means that no operation of the list has been or will be applied. Lists are applied in the order
        of the calls. ``save`` never blocks, and never calls ``done`` before it returns.
        """

    def read_messages(self, queue_id: int, positions: Sequence[int], done: "RowsDone") -> None:
        """Read stored messages of a queue; call ``done(messages, None)`` or ``done(None, error)`` later.

        Missing messages are left out.
        """

    def read_body(self, body_id: int, index: int, done: ReadDone) -> None:
        """Read one stored chunk; call ``done(data, None)`` or ``done(None, error)`` later."""

    async def load(self) -> StoredState:
        """Return the state before the restart; called once, before the first ``save``.

        Delete messages of deleted queues, and bodies to which no message refers.
        """
