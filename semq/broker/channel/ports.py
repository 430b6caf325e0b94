"""Protocols of the parts of a channel, its connection and its server, and the record of an unsettled delivery.

The protocols let the modules refer to each other without a circular import.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from semq.amqp.connection.server import ServerConnection
from semq.amqp.content import ContentHeader
from semq.amqp.errors import AmqpError
from semq.amqp.events import ConnectionEvent, Published
from semq.broker.allowance import Allowance
from semq.broker.channel.settlements import Settlements
from semq.broker.definitions import AnyQueue
from semq.broker.durable.journal import Journal
from semq.broker.limits import BrokerLimits
from semq.broker.memory_gauge import MemoryGauge
from semq.broker.queues.bodies import Bodies, Body
from semq.broker.queues.consumers import QueueConsumer
from semq.broker.queues.queue import Queue
from semq.broker.services import Publications, ServiceConsumer, SessionInfo
from semq.broker.users import Right
from semq.broker.vhost import VirtualHost
from semq.clock import Clock
from semq.transport.turn import Turn


class ChannelConsumer(ServiceConsumer, QueueConsumer, Protocol):
    """A consumer, as its channel and its connection use it."""

    source: AnyQueue
    prefetch: int  #: 0: no limit
    unacked: int

    @property
    def channel(self) -> "ConnectedChannel": ...

    @property
    def is_attached(self) -> bool: ...

    def resume(self) -> None: ...


class LargeBodyFeeder(Protocol):
    """A large body being sent, as its channel and its connection use it."""

    def end_with(self, then: Callable[[], None]) -> None: ...

    def continue_sending(self) -> None: ...

    def cancel(self) -> None: ...


class LargeBodyArrival(Protocol):
    """A large body being received, as its channel and its connection use it."""

    def add(self, data: bytes) -> None: ...

    def finish(self) -> None: ...

    def abandon(self) -> None: ...


class DeliveryTimeout(Protocol):
    """The check of one queue's deliveries, as their channel uses it."""

    def cancel(self) -> None: ...


class ConnectedChannel(Protocol):
    """A channel, as its consumers, large bodies, commits and its connection use it."""

    number: int
    is_open: bool
    is_stopped: bool
    failure: AmqpError | None
    unanswered: int
    publications: Publications
    is_flowing: bool
    prefetch: int
    prefetch_global: int
    consumer_unacked: int
    next_tag: int
    unacked: dict[int, "UnsettledDelivery"]
    timeouts: dict[Queue, "DeliveryTimeout"]
    consumers: dict[str, ChannelConsumer]
    reply_consumer: ChannelConsumer | None
    held: deque[ConnectionEvent] | None
    feeder: LargeBodyFeeder | None
    arrival: LargeBodyArrival | None

    @property
    def session(self) -> "ChannelConnection": ...

    @property
    def is_full(self) -> bool: ...

    def deliver(
        self,
        consumer: ChannelConsumer,
        item: object,
        exchange: str,
        routing_key: str,
        header: ContentHeader,
        body: Body,
        redelivered: bool,
    ) -> None: ...

    def drop_consumer(self, consumer: ChannelConsumer) -> None: ...

    def requeue_unacked(self, consumer: ChannelConsumer | None = None) -> None: ...

    def finish_feeding(self, then: Callable[[], None]) -> None: ...

    def release(self) -> None: ...

    def write_confirms(self) -> None: ...

    def stop(self) -> None: ...

    def end(self) -> None: ...


class ReplyAddresses(Protocol):
    """The channels that wait for direct replies."""

    def add(self, channel: ConnectedChannel) -> None: ...

    def remove(self, channel: ConnectedChannel) -> None: ...

    def address(self, channel: ConnectedChannel) -> str | None: ...

    def find(self, vhost: VirtualHost, address: str) -> ConnectedChannel | None: ...


class SharedByChannels(Protocol):
    """The parts of a server that all channels share."""

    turn: Turn
    bodies: Bodies
    in_transactions: MemoryGauge
    message_max: int

    @property
    def reply_targets(self) -> ReplyAddresses: ...


class ChannelConnection(Protocol):
    """A connection, as its channels use it."""

    info: SessionInfo
    vhost: VirtualHost
    machine: ServerConnection
    journal: Journal
    limits: BrokerLimits
    clock: Clock
    allowance: Allowance
    settlements: Settlements
    user: str
    is_writable: bool
    published: int
    delivered: int
    exclusive_queues: dict[Queue, None]
    feeding: dict[ConnectedChannel, None]

    @property
    def server(self) -> SharedByChannels: ...

    def request_write(self) -> None: ...

    def content_queued(self) -> None: ...

    def require(self, right: Right, kind: str, name: str) -> None: ...

    def close(self, error: AmqpError) -> None: ...

    def fail_channel(self, channel: ConnectedChannel, error: AmqpError) -> None: ...

    def end_if_answered(self, channel: ConnectedChannel) -> None: ...

    def publish_arrived(self, channel: ConnectedChannel, event: Published) -> None: ...

    def resume_events(self, channel: ConnectedChannel, waiting: "deque[ConnectionEvent]") -> None: ...

    def note_confirms(self, channel: ConnectedChannel, *, may_wait: bool) -> None: ...

    def note_published(self) -> None: ...

    def add_consumer(self, consumer: ChannelConsumer) -> None: ...

    def remove_consumer(self, consumer: ChannelConsumer) -> None: ...

    def cancel_consumer(self, number: int, tag: str) -> None: ...

    def resume_consumers(self) -> None: ...

    def delay_notices(self) -> None: ...

    def send_notices(self) -> None: ...

    def find_reply_target(self, address: str) -> ConnectedChannel | None: ...


class UnsettledDelivery:
    """A delivery that its client has not settled; ``consumer`` is None for basic.get.

    ``item`` is the entry of a queue, or the token of a service; ``size`` is the number of bytes of the body.
    """

    __slots__ = ("consumer", "item", "size", "source")

    def __init__(self, source: AnyQueue, consumer: ChannelConsumer | None, item: Any, size: int) -> None:
        self.source = source
        self.consumer = consumer
        self.item = item
        self.size = size
