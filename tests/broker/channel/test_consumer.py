"""A consumer as a service sees it; channels whose client does not acknowledge within ``x-consumer-timeout``."""

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from semq.amqp import methods as m
from semq.amqp.events import Delivered
from semq.broker.channel.consumer import ConsumerTimeout
from tests.broker.served import RunningBroker
from tests.broker.test_services import RegisteredServices
from tests.transport.pair import pair
from tests.waiting import until

TIMED_OUT = "delivery acknowledgement on channel 1 timed out. Timeout value used: 1000 ms"


async def test_the_credit_of_a_consumer_is_the_unused_prefetch_of_its_channel() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        await channel.call(m.BasicQos(0, 3, True), m.BasicQosOk)
        deliveries: list[Delivered] = []
        await channel.consume("inbox", deliveries.extend)
        (consumer,) = services.inbox.consumers
        assert consumer.credit == 3
        services.inbox.put(b"1")
        assert consumer.credit == 2
        services.inbox.put(b"2", b"3", b"4")
        assert consumer.credit == 0
        await until(lambda: len(deliveries) == 3)


@pytest.fixture
def queue(broker: RunningBroker) -> str:
    channel = broker.connect().channel()
    queue = str(channel.queue_declare("slow", arguments={"x-consumer-timeout": 1000}).method.queue)
    channel.basic_publish("", queue, b"1")
    return queue


def expect_close(channel: BlockingChannel) -> None:
    while channel.is_open:
        channel.connection.process_data_events(time_limit=5)
    reason = channel._closing_reason
    assert isinstance(reason, ChannelClosedByBroker)
    assert (reason.reply_code, TIMED_OUT in reason.reply_text) == (406, True)


def test_a_consumer_that_does_not_acknowledge_loses_its_channel_and_the_message_returns(
    broker: RunningBroker, channel: BlockingChannel, queue: str
) -> None:
    channel.basic_consume(queue, lambda *_: None)
    expect_close(channel)
    method, _, body = broker.connect().channel().basic_get(queue)
    assert (method.redelivered, body) == (True, b"1")


def test_a_message_of_get_times_out_too(channel: BlockingChannel, queue: str) -> None:
    assert channel.basic_get(queue)[2] == b"1"
    expect_close(channel)


def test_messages_of_a_cancelled_consumer_and_in_a_transaction_time_out_too(
    channel: BlockingChannel, queue: str
) -> None:
    channel.tx_select()
    tag = channel.basic_consume(queue, lambda *_: None)
    channel.connection.process_data_events(time_limit=0.1)
    channel._impl.basic_cancel(tag)  # unlike the method of the channel itself, it returns no messages
    expect_close(channel)


def test_a_recovered_message_begins_anew_and_an_acknowledgement_of_a_transaction_counts(
    channel: BlockingChannel, queue: str
) -> None:
    channel.tx_select()
    channel.basic_qos(prefetch_count=1)
    deliveries: list[int] = []
    channel.basic_consume(queue, lambda _, method, *__: deliveries.append(method.delivery_tag))
    for _ in range(3):
        channel.connection.sleep(0.5)
        deliveries.clear()
        channel.basic_recover(requeue=True)
    while not deliveries:
        channel.connection.process_data_events(time_limit=0.5)
    channel.basic_ack(deliveries[-1])
    channel.connection.sleep(1.5)
    assert channel.is_open


def checks(broker: RunningBroker) -> int:
    """Return how many timers of the broker belong to timeouts."""
    return broker.call(
        lambda: sum(
            isinstance(getattr(timer.callback, "__self__", None), ConsumerTimeout)
            for _, _, timer in broker.server.timers._heap
        )
    )


def test_a_channel_in_use_has_one_timer_for_all_deliveries_of_a_queue(
    broker: RunningBroker, channel: BlockingChannel, queue: str
) -> None:
    for number in range(50):
        channel.basic_publish("", queue, b"%d" % number)
    for _ in range(50):
        channel.basic_get(queue)
    channel.basic_consume(queue, lambda *_: None)
    channel.basic_consume(queue, lambda *_: None, auto_ack=True)
    assert checks(broker) == 1
    channel.close()
    assert checks(broker) == 0


def test_the_timer_ends_when_nothing_is_outstanding(
    broker: RunningBroker, channel: BlockingChannel, queue: str
) -> None:
    method, _, _ = channel.basic_get(queue)
    channel.basic_ack(method.delivery_tag)
    while checks(broker):
        channel.connection.process_data_events(time_limit=0.05)
    assert channel.is_open
