"""The interface of a broker to its store: operations on rows, and the state that a restart loads.

Module ``store`` implements ``MessageStore`` on Postgres, ``semq.broker.durable.no_store`` in memory.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from msgspec import Struct, field


class DeclareExchange(Struct, frozen=True):
    """Add a durable exchange. ``arguments``: an encoded AMQP field table with its length."""

    vhost: str
    name: str
    type: str
    auto_delete: bool
    internal: bool
    arguments: bytes


class DeleteExchange(Struct, frozen=True):
    """Delete a durable exchange, after an ``Unbind`` for each binding."""

    vhost: str
    name: str


class DeclareQueue(Struct, frozen=True):
    """Add a durable queue. ``queue_id`` is never used for another queue."""

    queue_id: int
    vhost: str
    name: str
    auto_delete: bool
    arguments: bytes


class DeleteQueue(Struct, frozen=True):
    """Delete a durable queue, after an ``Unbind`` for each binding and before ``DropMessages`` for the messages.

    ``load`` deletes messages that remain.
    """

    queue_id: int


class Bind(Struct, frozen=True):
    """Add a binding between durable objects. ``to_exchange``: whether the destination is an exchange."""

    vhost: str
    source: str
    destination: str
    to_exchange: bool
    routing_key: str
    arguments: bytes


class Unbind(Struct, frozen=True):
    """Delete a binding, identified by all fields."""

    vhost: str
    source: str
    destination: str
    to_exchange: bool
    routing_key: str
    arguments: bytes


class AddMessage(Struct):
    """Add a message to a queue. The key is (``queue_id``, ``position``).

    ``header``: the payload of the content header frame as received. ``expires_at``: POSIX seconds. ``delivery_count``:
    the number of earlier deliveries. ``body_id``: the id of the chunks of a large body, which several messages may
    share; 0 if the body is in ``body``.
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


class DropMessages(Struct):
    """Remove messages from a queue.

    ``became``: the messages as which another queue has them; if the store refuses one of these, nothing is removed.
    """

    queue_id: int
    positions: Sequence[int]
    became: Sequence[AddMessage] = ()


class SetDeliveryCount(Struct):
    """Set the number of deliveries of a message that was returned to its queue more than once.

    The first return needs no operation: after a restart, ``MarkHandedOut`` counts as one delivery.
    """

    queue_id: int
    position: int
    delivery_count: int


class MarkHandedOut(Struct):
    """Let a restart mark messages up to ``position`` as redelivered. A lower position than before has no effect."""

    queue_id: int
    position: int


class AddBodyChunk(Struct):
    """Add a chunk of a large body, before the messages that refer to the body. ``index`` counts from 0."""

    body_id: int
    index: int
    data: bytes


class OrderlyEnd(Struct):
    """Note an orderly end of the broker. Otherwise a restart marks all messages as redelivered."""


class DropBody(Struct):
    """Delete a large body to which no message refers."""

    body_id: int


Definition: TypeAlias = DeclareExchange | DeleteExchange | DeclareQueue | DeleteQueue | Bind | Unbind
StoreOp: TypeAlias = (
    Definition | AddMessage | DropMessages | SetDeliveryCount | MarkHandedOut | AddBodyChunk | DropBody | OrderlyEnd
)
ReadDone: TypeAlias = Callable[[bytes | None, BaseException | None], None]
RowsDone: TypeAlias = "Callable[[Sequence[AddMessage] | None, BaseException | None], None]"
Done: TypeAlias = Callable[[BaseException | None], None]
SaveDone: TypeAlias = Callable[[Mapping[int, BaseException]], None]


class StoredBacklog:
    """Messages of one queue that stay in the store for now, in order of position."""

    __slots__ = ("positions", "priorities", "sizes")

    def __init__(self) -> None:
        self.positions: array[int] = array("q")
        self.priorities = bytearray()
        self.sizes: array[int] = array("q")  # bytes of the bodies

    def add(self, position: int, priority: int, size: int) -> None:
        self.positions.append(position)
        self.priorities.append(priority)
        self.sizes.append(size)


class StoredState(Struct):
    """The stored state of a broker, as the operations that create it.

    ``messages``: all messages with large bodies and a limited number of others, in order of queue and position.
    ``backlogs``: the remaining messages. ``next_queue_id``: above all ids ever used. ``next_body_id``: above the ids of
    stored bodies. ``handed_out``: positions of ``MarkHandedOut`` by queue. After a crash they cover all stored
    messages.
    """

    exchanges: list[DeclareExchange] = field(default_factory=list)
    queues: list[DeclareQueue] = field(default_factory=list)
    bindings: list[Bind] = field(default_factory=list)
    messages: list[AddMessage] = field(default_factory=list)
    backlogs: dict[int, StoredBacklog] = field(default_factory=dict)  # by queue
    handed_out: dict[int, int] = field(default_factory=dict)
    next_queue_id: int = 1
    next_body_id: int = 1


class MessageStore(Protocol):
    """The store of the durable part of a broker."""

    def save(self, ops: list[StoreOp], done: SaveDone) -> None:
        """Apply ``ops`` in order, without those that the store refuses, then call ``done`` in the broker's thread with
        the errors by index (0 also for an empty list).

        An operation with an error was not applied; after StoreUnavailable this is not certain. A message is refused
        with its queue. Lists are applied in the order of the calls. ``save`` must not block, and must not call ``done``
        before it returns.
        """

    def save_whole(self, ops: list[StoreOp], done: Done) -> None:
        """Do what ``save`` does, but apply all of ``ops`` or nothing, and call ``done(error)``."""

    def as_one(self) -> AbstractContextManager[None]:
        """Return a context in which lists, and other work posted to the same store, become one: all of it is applied,
        or nothing. If its block raises an error, nothing is.
        """

    def read_messages(self, queue_id: int, positions: Sequence[int], done: "RowsDone") -> None:
        """Read stored messages of a queue; missing ones are left out. Call ``done(messages, None)`` or
        ``done(None, error)`` later.
        """

    def read_body(self, body_id: int, index: int, done: ReadDone) -> None:
        """Read one stored chunk; call ``done(data, None)`` or ``done(None, error)`` later."""

    async def load(self) -> StoredState:
        """Delete rows that are no longer needed, and store the marks of a crash; return the state before the restart.
        Called before ``save``.
        """
