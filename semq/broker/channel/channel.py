"""One channel of one client: its consumers, its unsettled deliveries, its confirms, its transaction.

``commands`` (definitions), ``consumption`` and ``publication`` process the methods of clients.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from semq.amqp.content import ContentHeader
from semq.amqp.errors import AmqpError, LocalMisuse, ResourceError
from semq.amqp.events import ConnectionEvent
from semq.amqp.methods import BasicDeliver, BasicGetOk, BasicReturn, Method
from semq.broker import refusals
from semq.broker.channel.confirms import Confirms
from semq.broker.channel.consumer import redelivery_header
from semq.broker.channel.feeder import Feeder
from semq.broker.channel.ports import (
    ChannelConnection,
    ChannelConsumer,
    DeliveryTimeout,
    LargeBodyArrival,
    LargeBodyFeeder,
    UnsettledDelivery,
)
from semq.broker.channel.transaction import Transaction
from semq.broker.definitions import AnyQueue
from semq.broker.long_tasks import SLICE
from semq.broker.queues.bodies import Body, LargeBody
from semq.broker.queues.message import QueueEntry
from semq.broker.queues.queue import Disposition, Queue
from semq.broker.services import Publications, ServiceQueue

WaitingContent: TypeAlias = tuple[BasicReturn | BasicGetOk | BasicDeliver, ContentHeader, LargeBody]


class BrokerChannel:
    """One channel. ``held``: the events that wait from ``hold`` to ``release``; None if the channel does not wait."""

    __slots__ = (
        "_holds",
        "arrival",
        "confirms",
        "consumer_unacked",
        "consumers",
        "failure",
        "feeder",
        "held",
        "is_flowing",
        "is_open",
        "is_stopped",
        "last_queue",
        "lowest_tag",
        "next_tag",
        "number",
        "prefetch",
        "prefetch_global",
        "publications",
        "reply_consumer",
        "session",
        "timeouts",
        "transaction",
        "unacked",
        "unanswered",
        "waiting_contents",
    )

    def __init__(self, session: ChannelConnection, number: int) -> None:
        self.session = session
        self.number = number
        self.is_open = True
        self.is_stopped = False  # True: no event is processed any more; the end waits for ``unanswered``
        self.failure: AmqpError | None = None  # the error that ends the channel
        self.unanswered = 0  # number of publishes whose outcome is not known
        self.is_flowing = True  # False: the client has stopped deliveries by channel.flow
        self.last_queue = ""  # name of the queue declared last
        self.prefetch = 0  # for consumers started from now on; 0: no limit
        self.prefetch_global = 0  # for all consumers of the channel together; 0: no limit
        self.consumers: dict[str, ChannelConsumer] = {}
        self.unacked: dict[int, UnsettledDelivery] = {}
        self.consumer_unacked = 0  # unacknowledged deliveries to consumers, without basic.get
        self.next_tag = 1
        self.lowest_tag = 1  # no lower tag is outstanding
        self.publications = Publications()
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.reply_consumer: ChannelConsumer | None = None
        self.timeouts: dict[Queue, DeliveryTimeout] = {}
        self.held: deque[ConnectionEvent] | None = None
        self._holds = 0  # calls of ``hold`` without their ``release``
        self.arrival: LargeBodyArrival | None = None
        self.feeder: LargeBodyFeeder | None = None
        self.waiting_contents: deque[WaitingContent] = deque()  # large bodies to be sent after the one of ``feeder``

    # Output.

    def send(self, method: Method) -> None:
        try:
            self.session.machine.send(self.number, method)
        except LocalMisuse:
            return  # the peer has closed the channel, and that event is not processed yet
        self.session.request_write()

    def send_content(self, method: BasicReturn | BasicGetOk | BasicDeliver, header: ContentHeader, body: Body) -> None:
        """Queue a method with its content. A large body is sent in parts, as the client reads it."""
        if not self._fits(header):
            return
        if isinstance(body, LargeBody):
            self._send_large(method, header, body)
            return
        try:
            self.session.machine.send_content(self.number, method, header, body)
        except LocalMisuse:
            return
        self.session.content_queued()

    def _send_large(
        self, method: BasicReturn | BasicGetOk | BasicDeliver, header: ContentHeader, body: LargeBody
    ) -> None:
        if self.feeder is not None:  # a channel sends one body at a time
            body.retain()
            self.waiting_contents.append((method, header, body))
            return
        try:
            self.session.machine.start_content(self.number, method, header)
        except LocalMisuse:
            return
        self.feeder = Feeder(self, body)
        self.session.content_queued()
        self.hold()
        self.session.feeding[self] = None
        self.feeder.continue_sending()

    def finish_feeding(self, then: Callable[[], None]) -> None:
        """Continue after a large body has been sent. First call ``then``."""
        self.feeder = None
        self.session.feeding.pop(self, None)
        then()
        if self.waiting_contents:
            method, header, body = self.waiting_contents.popleft()
            self._send_large(method, header, body)
            body.release()
        self.release()
        self.resume(self.consumers.values())

    def _deliver(
        self,
        consumer_tag: str,
        delivery_tag: int,
        redelivered: bool,
        exchange: str,
        routing_key: str,
        header: ContentHeader,
        body: Body,
    ) -> None:
        session = self.session
        if isinstance(body, LargeBody):
            method = BasicDeliver(consumer_tag, delivery_tag, redelivered, exchange, routing_key)
            self.send_content(method, header, body)
            return
        if not self._fits(header):
            return
        try:
            session.machine.deliver(
                self.number, consumer_tag, delivery_tag, redelivered, exchange, routing_key, header, body
            )
        except LocalMisuse:
            return
        session.content_queued()

    def _fits(self, header: ContentHeader) -> bool:
        """Return whether a header fits into one frame. If not, close the connection: headers cannot be split."""
        session = self.session
        if len(header.raw) <= session.machine.payload_max:
            return True
        error = ResourceError(f"a content header of {len(header.raw)} bytes exceeds the negotiated frame-max")
        session.is_writable = False
        session.server.turn.before_flush(lambda: session.close(error))
        return False

    def reply(self, method: Method, no_wait: bool) -> None:
        """Reply to a request, unless it asked for no reply."""
        if not no_wait:
            self.send(method)

    def reply_when_saved(
        self, method: Method, no_wait: bool, must_wait: bool, then: Callable[[], None] = lambda: None
    ) -> None:
        """Reply to a request at once, or, if ``must_wait``, when the store has saved its changes. Then call ``then``.

        The channel processes no event while it waits. If the store fails, the channel is closed instead of the reply.
        """
        if not must_wait:
            self.reply(method, no_wait)
            then()
            return
        self.hold()
        self.session.journal.when_saved(lambda error: self._saved(method, no_wait, then, error))

    def _saved(self, method: Method, no_wait: bool, then: Callable[[], None], error: BaseException | None) -> None:
        if self.is_open and error is not None:
            self.session.fail_channel(self, refusals.not_stored(error))
        elif self.is_open:
            self.reply(method, no_wait)
        then()
        self.release()

    def hold(self) -> None:
        """Delay the events of this channel until ``release`` has been called as often as ``hold``."""
        self._holds += 1
        if self.held is None:
            self.held = deque()

    def release(self) -> None:
        """End one ``hold``. After the last one, process the waiting events."""
        self._holds -= 1
        if self._holds or not self.is_open:
            return
        waiting, self.held = self.held, None
        if waiting:
            self.session.resume_events(self, waiting)

    # Deliveries.

    @property
    def is_full(self) -> bool:
        """Whether the prefetch for the whole channel is used up; False if there is none."""
        return bool(self.prefetch_global) and self.consumer_unacked >= self.prefetch_global

    def deliver(
        self,
        consumer: ChannelConsumer,
        item: object,
        exchange: str,
        routing_key: str,
        header: ContentHeader,
        body: Body,
        redelivered: bool,
    ) -> None:
        """Send a message to a consumer. ``item``: entry of a queue, or token of a service."""
        tag = self.next_tag
        self.next_tag = tag + 1
        session = self.session
        if not consumer.no_ack:
            size = len(body)
            self.unacked[tag] = UnsettledDelivery(consumer.source, consumer, item, size)
            consumer.unacked += 1
            self.consumer_unacked += 1
            session.allowance.deliver(size)
        session.delivered += 1
        self._deliver(consumer.tag, tag, redelivered, exchange, routing_key, header, body)

    def assign_tag(self, source: AnyQueue, item: object, size: int, no_ack: bool) -> int:
        """Return a delivery tag for a message of basic.get, which becomes outstanding unless ``no_ack``."""
        tag = self.next_tag
        self.next_tag = tag + 1
        if not no_ack:
            self.unacked[tag] = UnsettledDelivery(source, None, item, size)
            self.session.allowance.deliver(size)
        self.session.delivered += 1
        return tag

    # Settlement.

    def settle(self, tag: int, multiple: bool, disposition: Disposition) -> None:
        """Process basic.ack, nack and reject. Raises PreconditionFailed for a tag that is not outstanding."""
        if not multiple:
            delivery = self.unacked.pop(tag, None)
            if delivery is None:
                raise refusals.unknown_tag(tag)
            if self.transaction is None:
                self._apply_one(delivery, disposition)
            else:
                self.transaction.settle([(tag, delivery)], disposition)
        else:
            self._settle(self._take_up_to(tag), disposition)

    def _take_up_to(self, tag: int) -> list[tuple[int, UnsettledDelivery]]:
        if tag and tag not in self.unacked:
            raise refusals.unknown_tag(tag)
        last_tag = tag or self.next_tag - 1
        # If single settlements have settled most tags of the range, sorting the outstanding tags is faster.
        tags: Iterable[int] = range(self.lowest_tag, last_tag + 1)
        if last_tag - self.lowest_tag > 2 * len(self.unacked):
            tags = sorted(number for number in self.unacked if number <= last_tag)
        settled = [(number, self.unacked.pop(number)) for number in tags if number in self.unacked]
        self.lowest_tag = max(self.lowest_tag, last_tag + 1)
        return settled

    def _settle(self, settled: list[tuple[int, UnsettledDelivery]], disposition: Disposition) -> None:
        if self.transaction is not None:
            self.transaction.settle(settled, disposition)
        else:
            self.apply_in_slices([delivery for _, delivery in settled], disposition)

    def restore_unacked(self, settled: Iterable[tuple[int, UnsettledDelivery]]) -> None:
        """Make settled deliveries outstanding again (tx.rollback)."""
        for tag, delivery in settled:
            self.unacked[tag] = delivery
            self.lowest_tag = min(self.lowest_tag, tag)

    def _apply_one(self, delivery: UnsettledDelivery, disposition: Disposition) -> None:
        """Do what ``apply`` does, for one delivery."""
        consumer, source, session = delivery.consumer, delivery.source, self.session
        session.allowance.settle(delivery.size)
        if consumer is not None:
            consumer.unacked -= 1
            self.consumer_unacked -= 1
        if isinstance(source, ServiceQueue):
            session.settlements.add(source, consumer, delivery.item, disposition)
        else:
            source.settle((delivery.item,), disposition)
        self._resume_after_settlement((consumer,) if consumer is not None else ())

    def apply_in_slices(self, deliveries: list[UnsettledDelivery], disposition: Disposition) -> None:
        """Settle deliveries. If there are many, the channel waits while other connections are served between slices."""
        if len(deliveries) <= SLICE:
            self.apply(deliveries, disposition)
            return
        self.hold()
        self.session.vhost.env.long_tasks.do(self._slices(deliveries, disposition))

    def _slices(self, deliveries: list[UnsettledDelivery], disposition: Disposition) -> Iterator[None]:
        for start in range(0, len(deliveries), SLICE):
            self.apply(deliveries[start : start + SLICE], disposition)
            yield
        self.release()

    def apply(self, deliveries: list[UnsettledDelivery], disposition: Disposition | None) -> None:
        """Settle deliveries with their queues and services (None: they know it), then resume the consumers."""
        session = self.session
        consumers: dict[ChannelConsumer, None] = {}
        for delivery in deliveries:
            consumer = delivery.consumer
            session.allowance.settle(delivery.size)
            if consumer is not None:
                consumer.unacked -= 1
                self.consumer_unacked -= 1
                consumers[consumer] = None
        for source, consumer, items in runs(deliveries):
            if disposition is None:
                continue
            if isinstance(source, ServiceQueue):
                for item in items:
                    session.settlements.add(source, consumer, item, disposition)
            else:
                source.settle(items, disposition)
        self._resume_after_settlement(consumers)

    def _resume_after_settlement(self, consumers: Iterable[ChannelConsumer]) -> None:
        if self.prefetch_global or self.session.allowance.was_full:
            self.session.resume_consumers()
        else:
            self.resume(consumers)

    def resume(self, consumers: Iterable[ChannelConsumer]) -> None:
        for consumer in list(consumers):
            if consumer.is_set_aside:
                consumer.resume()

    def recover(self, requeue: bool) -> None:
        """Process basic.recover: requeue all unacknowledged messages, or without ``requeue`` deliver them again to
        their consumers under new tags.

        Even without ``requeue``, messages of basic.get, of ended consumers and of services are requeued; so are
        messages with large bodies while the channel sends a large body.
        """
        outstanding = sorted(self.unacked.items())
        self.unacked.clear()
        requeued: list[UnsettledDelivery] = []
        for _, delivery in outstanding:
            if requeue or not self._can_redeliver(delivery):
                requeued.append(delivery)
            else:
                self._redeliver(delivery)
        self.apply_in_slices(requeued, Disposition.REQUEUE)

    def _can_redeliver(self, delivery: UnsettledDelivery) -> bool:
        consumer, item = delivery.consumer, delivery.item
        if consumer is None or not consumer.is_attached or not isinstance(item, QueueEntry):
            return False
        return self.feeder is None or not isinstance(item.message.body, LargeBody)  # only one large body at a time

    def _redeliver(self, delivery: UnsettledDelivery) -> None:
        consumer, entry = delivery.consumer, delivery.item
        assert consumer is not None
        entry.deliveries += 1
        tag = self.next_tag
        self.next_tag = tag + 1
        self.unacked[tag] = delivery
        message = entry.message
        header = redelivery_header(entry, self.session.machine.payload_max)
        self._deliver(consumer.tag, tag, True, message.exchange, message.routing_key, header, message.body)

    # Consumers.

    def drop_consumer(self, consumer: ChannelConsumer) -> None:
        """End a consumer. Its unacknowledged deliveries stay outstanding."""
        self.consumers.pop(consumer.tag, None)
        self.session.remove_consumer(consumer)
        if self.reply_consumer is consumer:
            self.reply_consumer = None
            self.session.server.reply_targets.remove(self)
            return
        source = consumer.source
        if isinstance(source, ServiceQueue):
            source.detach(consumer)
        elif source.unsubscribe(consumer):
            self.session.vhost.remove_queue(source)

    def requeue_unacked(self, consumer: ChannelConsumer | None = None) -> None:
        """Requeue the unacknowledged deliveries of one consumer. None: roll back the open transaction, then requeue all
        deliveries of the channel.
        """
        if self.transaction is not None and consumer is None:
            self.restore_unacked(self.transaction.roll_back())
        lost = [(tag, d) for tag, d in sorted(self.unacked.items()) if consumer is None or d.consumer is consumer]
        for tag, _ in lost:
            del self.unacked[tag]
        self.apply_in_slices([delivery for _, delivery in lost], Disposition.LOST)

    def stop_feeding(self) -> None:
        """Stop sending a large body, whose rest the client would ignore; process the events that wait for its end."""
        if self.feeder is not None:
            self._drop_feeder()
            self.release()

    def _drop_feeder(self) -> None:
        if self.feeder is not None:
            self.session.feeding.pop(self, None)
            self.feeder.cancel()
            self.feeder = None
        for _, _, body in self.waiting_contents:
            body.release()
        self.waiting_contents.clear()

    def stop(self) -> None:
        """Process no further event, and deliver nothing more."""
        self.is_stopped = True
        for consumer in list(self.consumers.values()):
            self.drop_consumer(consumer)

    def end(self) -> None:
        """End the channel. Consumers are removed before the requeue, so that nothing is redelivered to them."""
        self.is_open, self.held = False, None
        for timeout in self.timeouts.values():
            timeout.cancel()
        if self.arrival is not None:
            self.arrival.abandon()
        self._drop_feeder()
        self.stop()
        self.requeue_unacked()

    # Confirms.

    def saved(self, sequence: int, size: int, error: BaseException | None) -> None:
        """Note that the store has saved publish number ``sequence``, or has failed (``error``). 0: no confirm.

        ``size``: as for ``begin_publish``.
        """
        self.session.allowance.end_publish(size)
        self.confirm(sequence, error is None)
        self.note_outcome()

    def note_outcome(self) -> None:
        """Note that the outcome of one more publish is known."""
        self.unanswered -= 1
        if self.is_stopped:
            self.session.end_if_answered(self)

    def confirm(self, sequence: int, is_safe: bool, *, may_wait: bool = False) -> None:
        """Note the outcome of one publish. The confirm is sent at the end of the turn, or may wait for other output."""
        if sequence and self.confirms is not None:
            self.confirms.settle(sequence, is_safe)
            self.session.note_confirms(self, may_wait=may_wait)

    def write_confirms(self) -> None:
        if not self.is_open or self.confirms is None:
            return
        machine = self.session.machine
        try:
            for number, multiple, is_safe in self.confirms.take_frames():
                (machine.ack if is_safe else machine.nack)(self.number, number, multiple)
        except LocalMisuse:
            return
        self.session.request_write()


def runs(deliveries: list[UnsettledDelivery]) -> Iterable[tuple[AnyQueue, ChannelConsumer | None, list[Any]]]:
    """Yield runs of deliveries of one source and consumer."""
    start = 0
    for at in range(1, len(deliveries) + 1):
        first = deliveries[start]
        if (
            at == len(deliveries)
            or deliveries[at].source is not first.source
            or deliveries[at].consumer is not first.consumer
        ):
            yield first.source, first.consumer, [delivery.item for delivery in deliveries[start:at]]
            start = at
