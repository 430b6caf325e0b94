"""A consumer on a channel: whether it has room for more deliveries, and the delivery of messages."""

from collections.abc import Mapping
from typing import Any

from semq.amqp.content import ContentHeader
from semq.broker.channel.ports import ConnectedChannel
from semq.broker.definitions import AnyQueue
from semq.broker.queues.bodies import Body
from semq.broker.queues.message import QueueEntry
from semq.broker.queues.queue import Disposition
from semq.broker.services import ServiceQueue, SessionInfo


class Consumer:
    """A consumer on a channel. A queue delivers to it by ``deliver_entry``, a service by ``deliver``."""

    __slots__ = (
        "arguments",
        "channel",
        "exclusive",
        "is_set_aside",
        "no_ack",
        "prefetch",
        "priority",
        "source",
        "tag",
        "unacked",
    )

    def __init__(
        self,
        channel: ConnectedChannel,
        source: AnyQueue,
        tag: str,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        arguments: Mapping[str, Any],
    ) -> None:
        self.channel = channel
        self.source = source
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.arguments = arguments
        self.prefetch = channel.prefetch
        self.unacked = 0
        self.is_set_aside = False

    @property
    def session(self) -> SessionInfo:
        return self.channel.session.info

    @property
    def is_attached(self) -> bool:
        """Whether the consumer was not cancelled and its channel is open."""
        return self.channel.consumers.get(self.tag) is self

    def resume(self) -> None:
        """Notify the source that there may be room again, if there was none before."""
        if self.is_set_aside:
            if isinstance(self.source, ServiceQueue):
                self.is_set_aside = False
            self.source.resume(self)

    # Interface for queues.

    def has_room(self) -> bool:
        channel = self.channel
        if not (channel.is_flowing and channel.session.is_writable and channel.feeder is None):
            return False
        if self.no_ack:
            return True
        if (self.prefetch and self.unacked >= self.prefetch) or channel.is_full:
            return False
        return channel.session.allowance.has_room()

    def deliver_entry(self, entry: QueueEntry) -> None:
        message = entry.message
        header = message.header
        if entry.deliveries:
            header = redelivery_header(entry, self.channel.session.machine.payload_max)
        self.channel.deliver(
            self, entry, message.exchange, message.routing_key, header, message.body, entry.deliveries > 0
        )

    def note_cancelled(self) -> None:
        """Remove the consumer, whose queue was deleted or whose service has ended it; notify the client."""
        self.channel.consumers.pop(self.tag, None)
        self.channel.session.remove_consumer(self)
        self.channel.session.cancel_consumer(self.channel.number, self.tag)

    # Interface for services.

    @property
    def credit(self) -> int:
        """The number of messages that may be delivered now. Reading 0 notes that the consumer waits for ``resume``."""
        if not self.has_room():
            self.is_set_aside = True
            return 0
        channel = self.channel
        if self.no_ack:
            return _CREDIT_MAX
        room = self.prefetch - self.unacked if self.prefetch else _CREDIT_MAX
        if channel.prefetch_global:
            room = min(room, channel.prefetch_global - channel.consumer_unacked)
        return room

    def fits(self, header: ContentHeader) -> bool:
        return len(header.raw) <= self.channel.session.machine.payload_max

    def deliver(
        self,
        exchange: str,
        routing_key: str,
        header: ContentHeader,
        body: Body,
        redelivered: bool,
        token: Any,
    ) -> None:
        assert isinstance(self.source, ServiceQueue)
        if not self.is_attached:
            self.channel.session.settlements.add(self.source, self, token, Disposition.LOST)
            return
        self.channel.deliver(self, token, exchange, routing_key, header, body, redelivered)
        if self.no_ack:
            self.channel.session.settlements.add(self.source, self, token, Disposition.ACK)

    def cancel(self) -> None:
        if self.is_attached:
            self.channel.drop_consumer(self)
            self.note_cancelled()
            self.channel.requeue_unacked(self)


_CREDIT_MAX = 256  # largest credit of a consumer with no-ack or without a prefetch


def redelivery_header(entry: QueueEntry, payload_max: int) -> ContentHeader:
    """Return the header of a redelivered message with the number of earlier deliveries (x-delivery-count).

    It stays unchanged if it would be longer than ``payload_max`` bytes, because a header is never split.
    """
    header = entry.message.header
    with_count = header.amended(headers={"x-delivery-count": entry.deliveries})
    return with_count if len(with_count.raw) <= payload_max else header
