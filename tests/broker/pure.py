"""A virtual host without a server."""

from collections.abc import Callable
from typing import Any

from semq.amqp.content import ContentHeader, Properties
from semq.broker.durable.journal import Journal
from semq.broker.environment import Environment
from semq.broker.memory_gauge import MemoryGauge
from semq.broker.queues.bodies import Bodies
from semq.broker.queues.message import Message, QueueEntry
from semq.broker.queues.pages import Pager
from semq.broker.queues.queue import Disposition, Queue
from semq.broker.timers import Timers
from semq.broker.vhost import VirtualHost
from tests.broker.memory_store import MemoryBrokerStore
from tests.clocks import ManualClock


class DelayedCalls:
    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def __call__(self, function: Callable[[], None]) -> None:
        self.waiting.append(function)

    def run(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


class Model:
    """A virtual host with its environment. ``later`` delays the answers of the store until ``flush``; ``window`` is the
    number of messages of a lane that stay in memory.
    """

    def __init__(
        self, store: MemoryBrokerStore | None = None, later: DelayedCalls | None = None, window: int = 1 << 30
    ) -> None:
        self.later = later or DelayedCalls()
        self.store = store or MemoryBrokerStore(self.later)
        self.clock = ManualClock()
        self.timers = Timers()
        self.journal = Journal(self.store)
        self.memory = MemoryGauge()
        self.bodies = Bodies(self.store, self.journal)
        pager = Pager(self.bodies, self.memory, self.timers, self.clock, window, 1 << 30)
        self.env = Environment(self.clock, self.timers, self.journal, self.memory, pager=pager)
        self._ids = 0
        self.vhost = VirtualHost("/", self.env, self._next_id)

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids

    def queue(self, name: str = "q", durable: bool = False, owner: Any = None, **arguments: Any) -> Queue:
        """Declare a queue; the names of ``arguments`` omit x- and have underscores instead of hyphens."""
        table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
        queue, _ = self.vhost.declare_queue(name, durable, False, owner, table, owner)
        assert isinstance(queue, Queue)
        return queue

    def publish(self, routing_key: str, body: bytes = b"", exchange: str = "", **properties: Any) -> int:
        """Publish a message and route dead letters; return the number of queues that received it."""
        message = message_of(body, exchange, routing_key, **properties)
        sent = self.vhost.send(message, self.vhost.route_message(self.vhost.find_exchange(exchange), message))
        self.vhost.route_dead_letters()
        return sent.queues

    def advance_time(self, seconds: float) -> None:
        self.clock.now += seconds
        self.timers.run(self.clock.now)
        self.vhost.route_dead_letters()

    def flush(self) -> None:
        """End a turn, with a store that answers immediately."""
        self.journal.flush()
        self.later.run()


def message_of(body: bytes = b"", exchange: str = "", routing_key: str = "", **properties: Any) -> Message:
    header = ContentHeader.build(len(body), Properties(**properties))
    return Message(exchange, routing_key, header, body)


class RecordingConsumer:
    """A consumer that records its deliveries and takes ``room`` messages."""

    def __init__(self, room: int = 1_000_000, no_ack: bool = False, priority: int = 0) -> None:
        self.room = room
        self.no_ack = no_ack
        self.priority = priority
        self.is_set_aside = False
        self.is_cancelled = False
        self.unacked: list[QueueEntry] = []
        self.bodies: list[bytes] = []

    def has_room(self) -> bool:
        return self.room > 0

    def deliver_entry(self, entry: QueueEntry) -> None:
        self.room -= 1
        self.bodies.append(bytes_of(entry))
        if not self.no_ack:
            self.unacked.append(entry)

    def note_cancelled(self) -> None:
        self.is_cancelled = True

    def settle(self, queue: Queue, count: int, disposition: Disposition) -> None:
        """Settle the oldest ``count`` deliveries, which makes room for as many."""
        settled, self.unacked = self.unacked[:count], self.unacked[count:]
        queue.settle(settled, disposition)
        self.room += len(settled)
        queue.resume(self)


def bodies(queue: Queue) -> list[bytes]:
    """Return the bodies of the waiting messages, in order."""
    return [bytes_of(entry) for entry in queue.ready]


def bytes_of(entry: QueueEntry) -> bytes:
    assert isinstance(entry.message.body, bytes)
    return entry.message.body
