"""A consumer on a channel: its room for more deliveries, the delivery of messages, ``x-consumer-timeout``."""

from collections import deque
from collections.abc import Mapping

from semq.amqp.content import ContentHeader
from semq.broker import refusals
from semq.broker.channel.ports import ConnectedChannel
from semq.broker.definitions import AnyQueue
from semq.broker.queues.bodies import Body
from semq.broker.queues.message import QueueEntry
from semq.broker.queues.queue import Disposition, Queue
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
        arguments: Mapping[str, object],
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
        token: object,
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


_TIMEOUT_PARTS = 4
_PERIOD_S_MIN = 0.25
_CREDIT_MAX = 256  # largest credit of a consumer with no-ack or without a prefetch


def redelivery_header(entry: QueueEntry, payload_max: int) -> ContentHeader:
    """Return the header of a redelivered message with the number of earlier deliveries (x-delivery-count).

    It stays unchanged if it would be longer than ``payload_max`` bytes, because a header is never split.
    """
    header = entry.message.header
    with_count = header.amended(headers={"x-delivery-count": entry.deliveries})
    return with_count if len(with_count.raw) <= payload_max else header


class ConsumerTimeout:
    """The check of one queue's deliveries on one channel (``x-consumer-timeout``, RabbitMQ 4).

    Deliveries are not timed one by one. The next delivery tag is noted four times within the timeout, so the channel is
    closed when a delivery has been outstanding for the timeout and at most a quarter (or 0.25 s) more. The check ends
    when the channel has neither a delivery nor a consumer of the queue.
    """

    __slots__ = ("_channel", "_marks", "_period_s", "_source", "_timer")

    def __init__(self, channel: ConnectedChannel, source: Queue, timeout_ms: int) -> None:
        self._channel = channel
        self._source = source
        self._period_s = max(timeout_ms / 1000 / _TIMEOUT_PARTS, _PERIOD_S_MIN)
        self._marks: deque[int] = deque([channel.next_tag], _TIMEOUT_PARTS)
        self._wait()

    def cancel(self) -> None:
        self._timer.cancel()

    def _wait(self) -> None:
        env = self._source.env
        self._timer = env.timers.at(env.clock.monotonic() + self._period_s, self._check)

    def _check(self) -> None:
        channel, source = self._channel, self._source
        tags = [tag for tag, delivery in channel.unacked.items() if delivery.source is source]
        if not tags and all(consumer.source is not source for consumer in channel.consumers.values()):
            del channel.timeouts[source]
            return
        if len(self._marks) == _TIMEOUT_PARTS and tags and min(tags) < self._marks[0]:
            if not channel.is_stopped:
                error = refusals.not_acknowledged(channel.number, source.settings.consumer_timeout)
                channel.session.fail_channel(channel, error)
            return
        self._marks.append(channel.next_tag)
        self._wait()


def watch_timeout(channel: ConnectedChannel, source: Queue) -> None:
    """Begin to check deliveries of a queue on a channel, if the queue has a timeout."""
    timeout_ms = source.settings.consumer_timeout
    if timeout_ms is not None and source not in channel.timeouts:
        channel.timeouts[source] = ConsumerTimeout(channel, source, timeout_ms)
