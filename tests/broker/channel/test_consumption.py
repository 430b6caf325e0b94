"""Consuming over real sockets; the modes confirm and tx."""

from typing import Any

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from semq.amqp import methods as m
from semq.amqp.events import ChannelClosed, Delivered, MethodReceived
from semq.broker.channel.channel import BrokerChannel
from tests.broker.memory_store import MemoryBrokerStore
from tests.broker.served import RunningBroker, run_broker


@pytest.fixture
def queue(channel: BlockingChannel) -> str:
    return str(channel.queue_declare("", exclusive=True).method.queue)


def publish(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body)


class PikaConsumer:
    """A consumer of pika that records of each delivery the body, whether it is redelivered, and its delivery count."""

    def __init__(self, channel: BlockingChannel, queue: str, **settings: object) -> None:
        self.channel = channel
        self.deliveries: list[tuple[bytes, bool, int]] = []
        self.tags: list[int] = []
        self.consumer_tag = channel.basic_consume(queue, self._on_delivery, **settings)

    def _on_delivery(self, _: object, method: object, properties: BasicProperties, body: bytes) -> None:
        delivery_count = (properties.headers or {}).get("x-delivery-count", 0)
        self.deliveries.append((body, method.redelivered, delivery_count))  # type: ignore[attr-defined]
        self.tags.append(method.delivery_tag)  # type: ignore[attr-defined]

    def await_deliveries(self, count: int) -> "PikaConsumer":
        while len(self.deliveries) < count:
            self.channel.connection.process_data_events(time_limit=5)
        return self

    def await_transit(self) -> "PikaConsumer":
        """Wait until all deliveries that the server has sent have arrived."""
        self.channel.queue_declare("amq.rabbitmq.reply-to")  # its answer follows all deliveries
        self.channel.connection.process_data_events(time_limit=0)
        return self

    @property
    def bodies(self) -> list[bytes]:
        return [body for body, _, _ in self.deliveries]


def test_a_prefetch_per_consumer_limits_deliveries_until_acknowledgements(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1", b"2", b"3", b"4")
    channel.basic_qos(prefetch_count=2)
    consumer = PikaConsumer(channel, queue).await_deliveries(2).await_transit()
    assert consumer.bodies == [b"1", b"2"]
    channel.basic_ack(consumer.tags[1], multiple=True)
    assert consumer.await_deliveries(4).bodies == [b"1", b"2", b"3", b"4"]


def test_prefetch_per_channel_is_shared_and_does_not_count_get(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1", b"2", b"3", b"4", b"5")
    assert channel.basic_get(queue)[2] == b"1"
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, second = PikaConsumer(channel, queue), PikaConsumer(channel, queue)
    first.await_transit()
    assert len(first.deliveries) + len(second.deliveries) == 3
    channel.basic_qos(prefetch_count=4, global_qos=True)
    first.await_transit()
    assert sorted(first.bodies + second.bodies) == [b"2", b"3", b"4", b"5"]


def test_a_nack_returns_messages_to_their_positions_and_counts_the_deliveries(
    channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, b"1", b"2", b"3", b"4")
    channel.basic_qos(prefetch_count=3)
    consumer = PikaConsumer(channel, queue).await_deliveries(3)
    channel.basic_nack(consumer.tags[1], multiple=True, requeue=True)
    consumer.await_deliveries(5)
    channel.basic_nack(consumer.tags[3], requeue=True)
    assert consumer.await_deliveries(6).deliveries[3:] == [(b"1", True, 1), (b"2", True, 1), (b"1", True, 2)]
    channel.basic_cancel(consumer.consumer_tag)


def test_a_reject_requeues_or_drops_a_message(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1", b"2")
    for requeue, remaining in ((True, 2), (False, 1)):
        method, _, body = channel.basic_get(queue)
        assert body == b"1"
        channel.basic_reject(method.delivery_tag, requeue=requeue)
        assert channel.queue_declare(queue, passive=True).method.message_count == remaining


def test_get_returns_the_number_of_remaining_messages_or_get_empty(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    counts = []
    while (answer := channel.basic_get(queue, auto_ack=True))[0] is not None:
        counts.append(answer[0].message_count)
    assert counts == [2, 1, 0]
    assert answer == (None, None, None)


@pytest.mark.parametrize("end", ["channel", "connection", "abrupt", "error"])
def test_unacknowledged_messages_return_when_their_channel_or_connection_ends(
    broker: RunningBroker, channel: BlockingChannel, end: str
) -> None:
    channel.queue_declare("lost")
    publish(channel, "lost", b"1", b"2")
    with broker.raw().log_in() as other:
        other.send(m.BasicConsume("lost"))
        other.until(Delivered)
        other.until(Delivered)
        if end == "channel":
            other.machine.close_channel(1)
        elif end == "connection":
            other.machine.close()
        elif end == "abrupt":
            other.socket.close()
        else:
            other.send(m.QueueDeclare("none", passive=True))
        if end != "abrupt":
            other.flush()
        consumer = PikaConsumer(channel, "lost").await_deliveries(2)
        assert consumer.deliveries == [(b"1", True, 1), (b"2", True, 1)]
    channel.queue_delete("lost")


def test_recover_redelivers_all_unacknowledged_messages(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1", b"2")
    consumer = PikaConsumer(channel, queue).await_deliveries(2)
    channel.basic_recover(requeue=True)
    assert consumer.await_deliveries(4).deliveries[2:] == [(b"1", True, 1), (b"2", True, 1)]
    channel.basic_recover(requeue=False)
    assert consumer.await_deliveries(6).deliveries[4:] == [(b"1", True, 2), (b"2", True, 2)]
    channel.basic_ack(consumer.tags[-1], multiple=True)
    assert channel.queue_delete(queue).method.message_count == 0


def test_recover_without_requeue_returns_messages_of_basic_get(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1")
    channel.basic_get(queue)
    channel.basic_recover(requeue=False)
    assert channel.basic_get(queue)[0].redelivered


@pytest.mark.parametrize("act", ["ack", "nack", "reject", "again", "multiple"])
def test_an_unknown_tag_ends_the_channel(channel: BlockingChannel, queue: str, act: str) -> None:
    publish(channel, queue, b"1")
    tag = channel.basic_get(queue)[0].delivery_tag
    if act == "again":
        channel.basic_ack(tag)
        channel.basic_ack(tag)
    elif act == "multiple":
        channel.basic_ack(99, multiple=True)
    else:
        {"ack": channel.basic_ack, "nack": channel.basic_nack, "reject": channel.basic_reject}[act](99)
    with pytest.raises(ChannelClosedByBroker, match=r"406.*unknown delivery tag") as caught:
        channel.queue_declare(queue, passive=True)
    assert caught.value.reply_text.startswith("PRECONDITION_FAILED")


def test_a_tag_of_another_channel_is_unknown(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1")
    other = channel.connection.channel()
    other.basic_ack(channel.basic_get(queue)[0].delivery_tag)
    with pytest.raises(ChannelClosedByBroker, match="406"):
        other.basic_qos(prefetch_count=1)


def test_delivery_tag_zero_with_multiple_settles_all_deliveries(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1", b"2")
    channel.basic_get(queue)
    channel.basic_get(queue)
    channel.basic_ack(0, multiple=True)
    channel.basic_ack(0, multiple=True)
    channel.basic_recover(requeue=True)
    assert channel.basic_get(queue)[0] is None


def test_an_exclusive_consumer_excludes_others(broker: RunningBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("alone")
    tag = channel.basic_consume("alone", lambda *_: None, exclusive=True)
    other = broker.connect()
    with pytest.raises(ChannelClosedByBroker, match="queue 'alone' in vhost '/' in exclusive use"):
        other.channel().basic_consume("alone", lambda *_: None)
    channel.basic_cancel(tag)
    shared = other.channel().basic_consume("alone", lambda *_: None)
    with pytest.raises(ChannelClosedByBroker, match="403"):
        channel.connection.channel().basic_consume("alone", lambda *_: None, exclusive=True)
    assert shared
    channel.queue_delete("alone")
    other.close()


def test_a_repeated_consumer_tag_is_a_hard_error(broker: RunningBroker) -> None:
    with broker.raw().log_in() as client:
        client.request(m.QueueDeclare(exclusive=True), m.QueueDeclareOk)
        client.request(m.BasicConsume(consumer_tag="mine"), m.BasicConsumeOk)
        client.send(m.BasicConsume(consumer_tag="mine"))
        error = client.wait_closed().error
    assert error is not None
    assert (error.reply_code, error.class_id, error.method_id) == (530, 60, 20)


def test_a_consumer_of_higher_priority_gets_messages_first(channel: BlockingChannel, queue: str) -> None:
    low = PikaConsumer(channel, queue, arguments={"x-priority": -1})
    channel.basic_qos(prefetch_count=1)
    high = PikaConsumer(channel, queue, arguments={"x-priority": 5})
    publish(channel, queue, b"1", b"2")
    low.await_deliveries(1)
    assert (high.bodies, low.bodies) == ([b"1"], [b"2"])
    with pytest.raises(ChannelClosedByBroker, match="x-priority"):
        channel.connection.channel().basic_consume(queue, lambda *_: None, arguments={"x-priority": "high"})


def test_the_client_is_notified_that_its_queue_is_deleted(broker: RunningBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("going")
    consumer = PikaConsumer(channel, "going")
    cancelled: list[object] = []
    channel.add_on_cancel_callback(cancelled.append)
    other = broker.connect()
    other.channel().queue_delete("going")
    other.close()
    while not cancelled:
        channel.connection.process_data_events(time_limit=5)
    assert cancelled[0].method.consumer_tag == consumer.consumer_tag  # type: ignore[attr-defined]


@pytest.mark.parametrize("durable", [False, True])
def test_the_answer_to_a_deletion_precedes_the_cancellation_of_own_consumers(durable: bool) -> None:
    with run_broker(MemoryBrokerStore()) as broker, broker.raw().log_in(2) as client:
        client.request(m.QueueDeclare(queue="mine", durable=durable), m.QueueDeclareOk)
        client.request(m.BasicConsume(queue="mine", consumer_tag="t"), m.BasicConsumeOk)
        client.send(m.QueueDelete(queue="mine", if_unused=True), 2)
        # Notices wait while a deletion is decided. This deletion is refused: notices after it must not wait.
        assert client.until(ChannelClosed).error is not None
        client.send(m.QueueDelete(queue="mine"))
        first, second = client.until(MethodReceived).method, client.until(MethodReceived).method
        assert (first, second) == (m.QueueDeleteOk(0), m.BasicCancel("t", no_wait=True))


def test_consumers_without_acknowledgements_get_all_messages_and_leave_none(
    channel: BlockingChannel, queue: str
) -> None:
    channel.basic_qos(prefetch_count=1)
    consumer = PikaConsumer(channel, queue, auto_ack=True)
    publish(channel, queue, b"1", b"2", b"3")
    consumer.await_deliveries(3)
    assert channel.queue_delete(queue).method.message_count == 0


def test_a_cancel_of_an_unknown_consumer_is_answered(channel: BlockingChannel) -> None:
    assert channel.basic_cancel("nobody") == []


def test_a_prefetch_in_bytes_is_not_implemented(broker: RunningBroker) -> None:
    connection = broker.connect()
    with pytest.raises(ConnectionClosedByBroker, match=r"540.*prefetch_size"):
        connection.channel().basic_qos(prefetch_size=10)


def test_a_channel_cannot_switch_between_confirms_and_transactions(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker, match="cannot switch from confirm to tx mode"):
        channel.tx_select()
    other = channel.connection.channel()
    other.tx_select()
    with pytest.raises(ChannelClosedByBroker, match="cannot switch from tx to confirm mode"):
        other.confirm_delivery()
    for act in ("tx_commit", "tx_rollback"):
        with pytest.raises(ChannelClosedByBroker, match=r"406.*channel is not transactional"):
            getattr(channel.connection.channel(), act)()


def test_a_client_observes_expiry_priority_and_dead_letters(channel: BlockingChannel, queue: str) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, "x-max-priority": 9}
    source = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
    for body, priority in ((b"low", 1), (b"high", 9)):
        channel.basic_publish("", source, body, BasicProperties(priority=priority))
    method, _, body = channel.basic_get(source)
    assert body == b"high"
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.basic_publish("", source, b"brief", BasicProperties(expiration="0", priority=9))
    consumer = PikaConsumer(channel, queue).await_deliveries(2)
    assert consumer.bodies == [b"high", b"brief"]


@pytest.mark.parametrize("expiration", ["", "soon", "-1", "1.5", "999999999999"])
def test_an_invalid_expiration_is_refused(channel: BlockingChannel, queue: str, expiration: str) -> None:
    channel.basic_publish("", queue, b"", BasicProperties(expiration=expiration))
    with pytest.raises(ChannelClosedByBroker, match=r"406.*invalid expiration"):
        channel.queue_declare(queue, passive=True)


def test_flow_stops_and_starts_deliveries(channel: BlockingChannel, queue: str) -> None:
    consumer = PikaConsumer(channel, queue)
    channel.flow(False)
    publish(channel, queue, b"1")
    consumer.await_transit()
    assert consumer.bodies == []
    channel.flow(True)
    assert consumer.await_deliveries(1).bodies == [b"1"]


def test_a_multiple_acknowledgement_after_many_single_ones_visits_only_unacknowledged_deliveries(
    broker: RunningBroker, channel: BlockingChannel, queue: str
) -> None:
    channel.basic_qos(prefetch_count=3)
    publish(channel, queue, b"1", b"2", b"3", b"4")
    consumer = PikaConsumer(channel, queue).await_deliveries(1)
    channel.basic_ack(consumer.tags[0])
    consumer.await_deliveries(4)

    def raise_tags() -> None:
        consuming = channel_with_deliveries(broker)
        settled = 10**15
        consuming.unacked = {tag + settled: delivery for tag, delivery in consuming.unacked.items()}
        consuming.next_tag += settled

    broker.call(raise_tags)
    channel.basic_ack(10**15 + consumer.tags[2], multiple=True)
    channel.basic_nack(10**15 + consumer.tags[3], requeue=True)
    assert consumer.await_deliveries(5).deliveries[4:] == [(b"4", True, 1)]
    channel.basic_ack(0, multiple=True)
    assert channel.queue_declare(queue, passive=True).method.message_count == 0


def channel_with_deliveries(broker: RunningBroker) -> BrokerChannel:
    """Return the only channel that has unacknowledged deliveries."""
    channels = [channel for session in broker.server.sessions for channel in session.channels.values()]
    (consuming,) = (channel for channel in channels if channel.unacked)
    return consuming


class CountingDict(dict[int, Any]):
    """A dictionary that counts its membership tests."""

    membership_tests = 0

    def __contains__(self, key: object) -> bool:
        self.membership_tests += 1
        return super().__contains__(key)


def test_successive_multiple_acknowledgements_visit_each_delivery_once(
    broker: RunningBroker, channel: BlockingChannel
) -> None:
    queue = str(channel.queue_declare("", exclusive=True).method.queue)
    publish(channel, queue, *(b"%d" % number for number in range(50)))
    consumer = PikaConsumer(channel, queue).await_deliveries(50)
    watched: list[BrokerChannel] = []

    def watch() -> None:
        consuming = channel_with_deliveries(broker)
        consuming.unacked = CountingDict(consuming.unacked)
        watched.append(consuming)

    broker.call(watch)
    for tag in consumer.tags:
        channel.basic_ack(tag, multiple=True)
    consumer.await_transit()
    unacked = watched[0].unacked
    assert isinstance(unacked, CountingDict)
    # one for each acknowledgement and each settled tag
    assert (len(unacked), unacked.membership_tests) == (0, 100)


def test_a_header_that_just_fits_a_frame_is_redelivered_without_a_delivery_count(broker: RunningBroker) -> None:
    channel = broker.connect(frame_max=4096).channel()
    queue = str(channel.queue_declare("", exclusive=True).method.queue)
    # 8 bytes of the frame, 14 of the content header, 4 of the table, 7 of the field's name, type and length.
    channel.basic_publish("", queue, b"1", BasicProperties(headers={"x": "y" * (4096 - 8 - 14 - 4 - 7)}))
    channel.basic_nack(channel.basic_get(queue)[0].delivery_tag)
    consumer = PikaConsumer(channel, queue).await_deliveries(1)
    assert consumer.deliveries == [(b"1", True, 0)]
    channel.basic_recover(requeue=False)
    assert consumer.await_deliveries(2).deliveries[1:] == [(b"1", True, 0)]
    channel.basic_recover(requeue=True)
    assert consumer.await_deliveries(3).deliveries[2:] == [(b"1", True, 0)]
