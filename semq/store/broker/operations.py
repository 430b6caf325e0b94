"""The port behind which a broker's durable half lives: row operations out, the state of the last life in.

The model hands over lists of operations in the order in which they must become true, with a callback for the moment
when they are. Whoever implements ``MessageStore`` decides how many lists share one transaction; within one list all or
nothing. Only what must survive is handed over: durable exchanges and queues, bindings between them, persistent
messages on durable queues. Used by the server model (``semq.broker``); implemented by ``store`` here, and in memory
by ``semq.broker.durable.memory_store``.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias


@dataclass(slots=True, frozen=True)
class DeclareExchange:
    """A durable exchange exists. ``arguments`` is an encoded AMQP field table, length included."""

    vhost: str
    name: str
    type: str
    auto_delete: bool
    internal: bool
    arguments: bytes


@dataclass(slots=True, frozen=True)
class DeleteExchange:
    """A durable exchange is gone; the model sends an ``Unbind`` for each of its bindings before."""

    vhost: str
    name: str


@dataclass(slots=True, frozen=True)
class DeclareQueue:
    """A durable queue exists. ``queue_id`` is unique in the store for ever, also after the queue is deleted."""

    queue_id: int
    vhost: str
    name: str
    auto_delete: bool
    arguments: bytes


@dataclass(slots=True, frozen=True)
class DeleteQueue:
    """A durable queue is gone; the model sends an ``Unbind`` for each of its bindings before, and ``DropMessages`` for
    its messages after it, in slices. ``load`` drops those of queues that are gone."""

    queue_id: int


@dataclass(slots=True, frozen=True)
class Bind:
    """A binding between two durable things. ``to_exchange`` tells a destination exchange from a destination queue."""

    vhost: str
    source: str
    destination: str
    to_exchange: bool
    routing_key: str
    arguments: bytes


@dataclass(slots=True, frozen=True)
class Unbind:
    """That binding is gone; all fields identify it."""

    vhost: str
    source: str
    destination: str
    to_exchange: bool
    routing_key: str
    arguments: bytes


@dataclass(slots=True)  # not frozen: one is made for each message
class AddMessage:
    """A message lies in a queue. (``queue_id``, ``position``) is its key, and ``position`` its place in the queue.

    ``body_id`` is 0 if the body is in ``body``; else ``body`` is empty and the octets are in the chunks of that id,
    which several messages may share. ``header`` is the payload of the content header frame as received, ``expires_at``
    POSIX seconds or None, and ``delivery_count`` how often it was handed out before.
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


@dataclass(slots=True)  # not frozen: one is made for each message
class DropMessages:
    """These messages are no longer in the queue: acknowledged, expired, dead-lettered, purged."""

    queue_id: int
    positions: Sequence[int]


@dataclass(slots=True)  # not frozen: one is made for each message
class MarkDelivered:
    """A message came back to its queue after ``delivery_count`` hand-overs; after a restart it is flagged
    redelivered."""

    queue_id: int
    position: int
    delivery_count: int


@dataclass(slots=True)  # not frozen: one is made for each message
class MarkHandedOut:
    """Every message of the queue up to ``position`` may have been handed out; after a restart they are flagged
    redelivered. A lower position than one said before takes nothing back.

    One row per queue, not per message: the flag survives a crash without a write for each delivery.
    """

    queue_id: int
    position: int


@dataclass(slots=True)
class AddBodyChunk:
    """The next octets of a large body; ``index`` counts from 0. Chunks come before any message that refers to them.

    Bodies of transient messages come here too, to be out of memory.
    """

    body_id: int
    index: int
    data: bytes


@dataclass(slots=True)
class EndLife:
    """The broker ends in order: nobody has a message that is not settled. Without it the next life flags all messages
    as redelivered, because those that were handed out last may not have been marked."""


@dataclass(slots=True)
class DropBody:
    """No message refers to this body any more."""

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
    | MarkDelivered
    | MarkHandedOut
    | AddBodyChunk
    | DropBody
    | EndLife
)
ReadDone: TypeAlias = Callable[[bytes | None, BaseException | None], None]
RowsDone: TypeAlias = "Callable[[Sequence[AddMessage] | None, BaseException | None], None]"
Done: TypeAlias = Callable[[BaseException | None], None]


class StoredBacklog:
    """Messages of one queue that stay in the store until their turn is near: three columns, in order of position."""

    __slots__ = ("positions", "priorities", "sizes")

    def __init__(self) -> None:
        self.positions: array[int] = array("q")
        self.priorities = bytearray()
        self.sizes: array[int] = array("q")  # octets of the bodies

    def add(self, position: int, priority: int, size: int) -> None:
        """One more, behind the others."""
        self.positions.append(position)
        self.priorities.append(priority)
        self.sizes.append(size)


@dataclass(slots=True)
class StoredState:
    """All that survived, as the operations that would make it again; messages in order of queue and position. Of long
    queues only the first messages are in ``messages``, and the others in ``backlogs``.

    ``next_queue_id`` and ``next_body_id`` are above every id that was ever given out; ``handed_out`` holds the highest
    ``MarkHandedOut`` of each queue. ``delivery_count`` of the messages already has what ``MarkDelivered`` said.
    ``ended``: the last word of the last life was ``EndLife``.
    """

    exchanges: list[DeclareExchange] = field(default_factory=list)
    queues: list[DeclareQueue] = field(default_factory=list)
    bindings: list[Bind] = field(default_factory=list)
    messages: list[AddMessage] = field(default_factory=list)
    backlogs: dict[int, StoredBacklog] = field(
        default_factory=dict
    )  # by queue; none has a body of its own in the store
    handed_out: dict[int, int] = field(default_factory=dict)
    next_queue_id: int = 1
    next_body_id: int = 1
    ended: bool = False


class MessageStore(Protocol):
    """Where the durable half of a broker is kept."""

    def save(self, ops: list[StoreOp], done: Done) -> None:
        """Make ``ops`` true, in order and all or nothing, then call ``done(None)`` once, in the broker's thread.

        ``done(error)`` says that none of them is true nor ever will be. Lists are made true in the order of the calls.
        The call itself never blocks and never calls ``done`` before it returns.
        """

    def read_messages(self, queue_id: int, positions: Sequence[int], done: "RowsDone") -> None:
        """Read these messages of a queue, which ``save`` has made true; call ``done(messages, None)`` or
        ``done(None, error)`` later. Those that are not there are left out."""

    def read_body(self, body_id: int, index: int, done: ReadDone) -> None:
        """Read one chunk that ``save`` has made true; call ``done(octets, None)`` or ``done(None, error)`` later."""

    async def load(self) -> StoredState:
        """What the last life of the broker left behind; called once, before the first ``save``.

        Chunks of bodies that no message refers to are of no use any more: they are deleted here.
        """
