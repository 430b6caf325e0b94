"""Transactions over real sockets."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from semq.amqp import methods as m
from semq.amqp.errors import AmqpError, InternalError
from semq.amqp.events import Blocked
from semq.amqp.limits import ConnectionLimits
from semq.broker.channel.transaction import Commit, nack_error
from semq.broker.limits import BrokerLimits
from tests.broker.memory_store import MemoryBrokerStore
from tests.broker.served import run_broker
from tests.waiting import until_sync


@pytest.fixture
def queue(channel: BlockingChannel) -> str:
    return str(channel.queue_declare("", exclusive=True).method.queue)


def count(channel: BlockingChannel, queue: str) -> int:
    """Return the number of messages that wait in a queue."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def test_publishes_take_effect_at_the_commit(channel: BlockingChannel, queue: str) -> None:
    tx = channel.connection.channel()
    tx.tx_select()
    tx.tx_select()
    tx.basic_publish("", queue, b"1")
    tx.basic_publish("", queue, b"2")
    tx.basic_qos(prefetch_count=1)
    assert count(channel, queue) == 0
    tx.tx_commit()
    assert count(channel, queue) == 2
    tx.basic_publish("", queue, b"3")
    tx.tx_rollback()
    tx.tx_commit()
    assert count(channel, queue) == 2


def test_acknowledgements_take_effect_at_the_commit(channel: BlockingChannel, queue: str) -> None:
    for body in (b"1", b"2"):
        channel.basic_publish("", queue, body)
    tx = channel.connection.channel()
    tx.tx_select()
    tags = [tx.basic_get(queue)[0].delivery_tag for _ in range(2)]
    tx.basic_ack(tags[0])
    tx.basic_nack(tags[1], requeue=True)
    assert count(channel, queue) == 0
    tx.tx_rollback()
    tx.basic_ack(tags[0])
    tx.tx_commit()
    tx.close()
    method, _, body = channel.basic_get(queue)
    assert (body, method.redelivered) == (b"2", True)


def test_the_end_of_a_channel_undoes_uncommitted_publishes_and_settlements(
    channel: BlockingChannel, queue: str
) -> None:
    channel.basic_publish("", queue, b"1")
    tx = channel.connection.channel()
    tx.tx_select()
    tx.basic_ack(tx.basic_get(queue)[0].delivery_tag)
    tx.basic_publish("", queue, b"never")
    tx.close()
    assert channel.basic_get(queue)[2] == b"1"
    assert channel.basic_get(queue)[0] is None


def test_an_unroutable_mandatory_message_is_returned_before_the_answer_to_the_commit(channel: BlockingChannel) -> None:
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda _c, _m, _p, body: returned.append(body))
    channel.tx_select()
    channel.basic_publish("", "nowhere", b"1", mandatory=True)
    channel.tx_commit()
    channel.connection.process_data_events(time_limit=0)
    assert returned == [b"1"]


def test_if_a_full_queue_refuses_a_message_nothing_of_the_transaction_takes_effect(channel: BlockingChannel) -> None:
    source = str(channel.queue_declare("").method.queue)
    channel.basic_publish("", source, b"taken")
    full = str(channel.queue_declare("", arguments={"x-max-length": 1, "x-overflow": "reject-publish"}).method.queue)
    other = str(channel.queue_declare("").method.queue)
    tx = channel.connection.channel()
    tx.tx_select()
    tx.basic_ack(tx.basic_get(source)[0].delivery_tag)
    for queue in (other, full, full):
        tx.basic_publish("", queue, b"x")
    with pytest.raises(ChannelClosedByBroker, match=r"406.*refused a message"):
        tx.tx_commit()
    assert (count(channel, full), count(channel, other)) == (0, 0)
    assert channel.basic_get(source)[2] == b"taken"


def test_a_repeated_settlement_in_a_transaction_is_refused(channel: BlockingChannel, queue: str) -> None:
    channel.basic_publish("", queue, b"1")
    channel.tx_select()
    tag = channel.basic_get(queue)[0].delivery_tag
    channel.basic_ack(tag)
    channel.basic_ack(tag)
    with pytest.raises(ChannelClosedByBroker, match="406"):
        channel.tx_commit()


def test_a_commit_is_one_list_for_the_store_and_waits_for_it() -> None:
    store = MemoryBrokerStore()
    with run_broker(store) as broker:
        connection = broker.connect()
        channel = connection.channel()
        channel.queue_declare("a", durable=True)
        channel.queue_declare("b", durable=True)
        channel.tx_select()
        for number in range(10):
            channel.basic_publish("", "ab"[number % 2], b"%d" % number, BasicProperties(delivery_mode=2))
        channel.basic_qos(prefetch_count=1)
        batches_before = store.batches
        assert store.messages == {}
        channel.tx_commit()
        assert (len(store.messages), store.batches - batches_before) == (10, 1)
        channel.basic_ack(channel.basic_get("a")[0].delivery_tag)
        channel.tx_commit()
        assert len(store.messages) == 9
        channel.basic_publish("", "a", b"x", BasicProperties(delivery_mode=2))
        channel.basic_ack(channel.basic_get("b")[0].delivery_tag)
        store.failure = OSError("disk full")
        with pytest.raises(Exception, match="541"):
            channel.tx_commit()
        store.failure = None
        channel = broker.connect().channel()
        assert (count(channel, "a"), count(channel, "b"), len(store.messages)) == (4, 5, 9)


def test_the_size_of_a_transaction_is_limited() -> None:
    with run_broker(limits=BrokerLimits(transaction_count=10, transaction_bytes=1000)) as broker:
        connection = broker.connect()
        for size in (1, 400):
            with pytest.raises(ChannelClosedByBroker, match=r"406.*transaction exceeds"):
                exceed_limit(connection.channel(), size)
        connection.close()


def exceed_limit(channel: BlockingChannel, size: int) -> None:
    channel.tx_select()
    for _ in range(11):
        channel.basic_publish("", "q", b"x" * size)
    channel.tx_commit()


@pytest.mark.parametrize("wrong", [{"expiration": "soon"}, {"delivery_mode": 7}, {"headers": {"CC": "text"}}])
def test_an_invalid_message_is_refused_before_the_commit_without_effects(
    channel: BlockingChannel, queue: str, wrong: dict[str, Any]
) -> None:
    tx = channel.connection.channel()
    tx.tx_select()
    tx.basic_publish("", queue, b"1")
    tx.basic_publish("", queue, b"2", BasicProperties(**wrong))
    with pytest.raises(ChannelClosedByBroker, match="406"):
        tx.basic_qos(prefetch_count=1)  # its answer would follow the processing of both messages
    assert count(channel, queue) == 0


def test_the_size_of_all_open_transactions_together_is_limited() -> None:
    with run_broker(limits=BrokerLimits(transactions_bytes=10_000)) as broker:
        connection = broker.connect()
        channels = [connection.channel() for _ in range(4)]
        queue = str(channels[0].queue_declare("", exclusive=True).method.queue)
        for channel in channels[:3]:
            channel.tx_select()
            channel.basic_publish("", queue, b"x" * 2_500)
            channel.tx_rollback()
            channel.basic_publish("", queue, b"x" * 2_500)
        channels[3].tx_select()
        channels[3].basic_publish("", queue, b"x" * 2_500)
        with pytest.raises(ChannelClosedByBroker, match="all open transactions together"):
            channels[3].tx_commit()
        channels[0].tx_commit()
        channels[1].close()
        channels[2].basic_publish("", queue, b"x" * 2_500)
        channels[2].tx_commit()
        assert count(channels[0], queue) == 3
        assert broker.call(lambda: broker.server.in_transactions.bytes) == 0


def test_open_transactions_count_for_the_memory_of_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    limits = BrokerLimits(memory_high=3_000_000, memory_low=2_000_000)
    # Only missing heartbeats show that a blocked publisher has ended.
    with run_broker(limits=limits, connection=ConnectionLimits(heartbeat=1)) as broker:
        with broker.raw() as client:
            client.log_in()
            client.request(m.TxSelect(), m.TxSelectOk)
            client.publish("", "nowhere", b"x" * 4_000_000)
            client.until(Blocked)
        [held_bytes] = re.findall(r"low on memory; (\d+) bytes of messages are held", caplog.text)
        assert int(held_bytes) > 4_000_000
        until_sync(lambda: broker.call(lambda: not broker.server.in_transactions.bytes))
        assert broker.call(lambda: broker.server.alarm) is None


def test_after_a_rollback_the_same_multiple_acknowledgement_settles_the_deliveries(
    channel: BlockingChannel, queue: str
) -> None:
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", queue, body)
    tx = channel.connection.channel()
    tx.tx_select()
    tags = [tx.basic_get(queue)[0].delivery_tag for _ in range(3)]
    tx.basic_ack(tags[1], multiple=True)
    tx.tx_rollback()
    tx.basic_ack(tags[1], multiple=True)
    tx.tx_commit()
    tx.close()
    method, _, body = channel.basic_get(queue)
    assert (body, method.message_count) == (b"3", 0)


def test_a_commit_waits_for_every_answer_and_reports_the_first_failure() -> None:
    failed: list[AmqpError] = []
    session = SimpleNamespace(fail_channel=lambda channel, error: failed.append(error))
    commit, done = Commit(SimpleNamespace(is_open=True, session=session)), []
    commit.on_done = lambda: done.append(True)
    commit.expect()
    commit.note_answer(None)
    assert not done
    commit.note_saved(None)
    assert (done, failed) == ([True], [])
    other = Commit(SimpleNamespace(is_open=True, session=session))
    other.expect()
    other.note_answer(nack_error())
    assert not failed
    other.note_saved(None)
    assert [type(error) for error in failed] == [InternalError]
