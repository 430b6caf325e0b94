"""Faulty and greedy clients: errors close the channel or the connection that caused them, and limits hold."""

import random
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semq.amqp import methods as m
from semq.amqp.codec import encode_method
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import (
    ChannelClosed,
    ChannelOpened,
    ChannelReleased,
    Delivered,
    MethodReceived,
)
from semq.amqp.frames import frame
from semq.amqp.limits import ConnectionLimits
from semq.amqp.spec import FRAME_METHOD
from semq.broker.limits import BrokerLimits
from tests.broker.raw import RawClient
from tests.broker.served import RunningBroker, run_broker
from tests.transport.waiting_output import waiting_output


def test_a_soft_error_names_the_method_and_frees_the_channel_when_answered(broker: RunningBroker) -> None:
    with broker.raw().log_in(2) as client:
        client.send(m.QueueDeclare("none", passive=True), 1)
        event = client.until(ChannelClosed)
        assert event.error is not None
        assert (event.error.reply_code, event.error.class_id, event.error.method_id) == (404, 50, 10)
        client.request(m.BasicQos(), m.BasicQosOk, 2)
        client.machine.open_channel(1)
        client.flush()
        client.until(ChannelOpened, lambda opened: opened.channel == 1)
        client.request(m.BasicQos(), m.BasicQosOk, 1)


def test_methods_after_an_error_on_the_channel_are_ignored(broker: RunningBroker) -> None:
    with broker.raw().log_in(2) as client:
        client.machine.send(2, m.QueueDeclare(exclusive=True))
        client.machine.send(1, m.QueueDeclare("none", passive=True))
        client.machine.send(1, m.QueueDeclare("ignored"))
        client.machine.publish(1, "", "ignored", ContentHeader.build(1, Properties()), b"1")
        client.flush()
        client.until(ChannelClosed)
        client.send(m.QueueDeclare("ignored", passive=True), 2)
        assert client.until(ChannelClosed).channel == 2


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(FRAME_METHOD, 1, b"\0\x3c\0\x0a"), 501),  # basic.qos without its arguments
        (frame(FRAME_METHOD, 1, b"\0\x63\0\x01"), 540),  # no such class
        (frame(FRAME_METHOD, 9, b"\0\x3c\0\x6e\0"), 504),  # a channel that is not open
        (frame(FRAME_METHOD, 0, b"\0\x3c\0\x6e\0"), 504),
        (frame(FRAME_METHOD, 1, b"\0\x0a\0\x28\x01/\0\0"), 503),  # connection.open on a channel
        (frame(2, 1, b"\0\x3c\0\0" + bytes(10)), 505),  # a content header without a publish
        (frame(3, 1, b"body"), 505),
        (frame(8, 1, b""), 501),  # a heartbeat on a channel
    ],
)
def test_hard_errors_close_the_connection_with_their_code(broker: RunningBroker, data: bytes, code: int) -> None:
    with broker.raw().log_in() as neighbour, broker.raw().log_in() as client:
        client.socket.sendall(data)
        error = client.wait_closed().error
        assert error is not None
        assert error.reply_code == code
        neighbour.request(m.BasicQos(), m.BasicQosOk)


def test_a_malformed_table_is_reported_to_its_sender_only(broker: RunningBroker) -> None:
    with broker.raw().log_in() as consumer, broker.raw().log_in() as client:
        queue = consumer.request(m.QueueDeclare(exclusive=False, auto_delete=True), m.QueueDeclareOk).queue
        consumer.request(m.BasicConsume(queue), m.BasicConsumeOk)
        good = ContentHeader.build(1, Properties(headers={"a": 1}))
        bad = ContentHeader(good.raw.replace(b"\x01aI", b"\x01a!"), 1)
        client.machine.publish(1, "", queue, bad, b"1")
        client.flush()
        error = client.until(ChannelClosed).error
        assert error is not None
        assert error.reply_code == 406
        consumer.publish("", queue, b"fine")
        assert consumer.until(Delivered).body == b"fine"


def test_a_publish_directly_before_a_close_is_processed(broker: RunningBroker) -> None:
    with broker.raw().log_in(2) as client:
        queue = client.request(m.QueueDeclare(exclusive=True), m.QueueDeclareOk).queue
        client.request(m.BasicConsume(queue, no_ack=True), m.BasicConsumeOk, 2)
        client.request(m.ConfirmSelect(), m.ConfirmSelectOk)
        header = ContentHeader.build(1, Properties())
        client.machine.publish(1, "", queue, header, b"1", mandatory=True)
        client.machine.publish(1, "", "nowhere", header, b"2", mandatory=True)
        client.machine.send(1, m.BasicGet(queue))
        client.machine.close_channel(1)
        client.flush()
        assert client.until(Delivered).body == b"1"
        client.until(ChannelReleased)
        client.request(m.BasicQos(), m.BasicQosOk, 2)


def test_a_header_larger_than_the_frames_of_a_consumer_ends_its_connection(broker: RunningBroker) -> None:
    with broker.raw(limits=ConnectionLimits(frame_max=4096)).log_in() as small, broker.raw().log_in() as client:
        queue = client.request(m.QueueDeclare(auto_delete=True), m.QueueDeclareOk).queue
        small.request(m.BasicConsume(queue), m.BasicConsumeOk)
        client.request(m.ConfirmSelect(), m.ConfirmSelectOk)
        client.publish("", queue, b"1", headers={"long": "x" * 5000})
        error = small.wait_closed().error
        assert error is not None
        assert error.reply_code == 506
        client.request(m.BasicQos(), m.BasicQosOk)


def test_a_body_beyond_the_limit_is_a_soft_error() -> None:
    with run_broker(connection=ConnectionLimits(body_max=1000)) as broker, broker.raw().log_in(2) as client:
        client.publish("", "q", bytes(1000))
        client.publish("", "q", bytes(1001))
        error = client.until(ChannelClosed).error
        assert error is not None
        assert error.reply_code == 311
        client.request(m.BasicQos(), m.BasicQosOk, 2)


def test_the_number_of_consumers_of_a_channel_is_limited() -> None:
    with run_broker(limits=BrokerLimits(consumers_per_channel=2)) as broker, broker.raw().log_in() as client:
        client.request(m.QueueDeclare(exclusive=True), m.QueueDeclareOk)
        for _ in range(2):
            client.request(m.BasicConsume(), m.BasicConsumeOk)
        client.send(m.BasicConsume())
        error = client.wait_closed().error
        assert error is not None
        assert (error.reply_code, error.text) == (530, "NOT_ALLOWED - consumer limit (2) is reached")


def test_large_arguments_of_a_consumer_are_refused(broker: RunningBroker) -> None:
    with broker.raw().log_in() as client:
        client.request(m.QueueDeclare(exclusive=True), m.QueueDeclareOk)
        client.send(m.BasicConsume(arguments={"text": "x" * 9000}))
        error = client.until(ChannelClosed).error
        assert error is not None
        assert error.reply_code == 406


def test_answers_wait_for_a_client_that_does_not_read() -> None:
    with run_broker(limits=BrokerLimits(output_bytes=100_000, held_events=1000)) as broker:
        with broker.raw().log_in(2) as greedy, broker.raw().log_in() as neighbour:
            greedy.request(m.QueueDeclare("q"), m.QueueDeclareOk)
            greedy.publish("", "q", bytes(50_000))
            requests = b"".join(
                frame(FRAME_METHOD, 1 + number % 2, encode_method(method))
                for number in range(20_000)
                for method in (m.BasicGet("q", False), m.BasicRecoverAsync(True))
            )
            fill(greedy, lambda: greedy.socket.sendall(requests))
            neighbour.request(m.BasicQos(), m.BasicQosOk)
            assert waiting_bytes(broker) < 3_000_000


def test_returns_wait_for_a_client_that_does_not_read() -> None:
    with run_broker(limits=BrokerLimits(output_bytes=100_000, held_events=1000)) as broker:
        with broker.raw().log_in() as flooding, broker.raw().log_in() as neighbour:
            fill(flooding, lambda: flooding.publish("", "nowhere", bytes(50_000), mandatory=True))
            neighbour.request(m.BasicQos(), m.BasicQosOk)
            assert waiting_bytes(broker) < 3_000_000


def fill(client: RawClient, send: Callable[[], None]) -> None:
    """Send until the server stops reading."""
    client.socket.settimeout(0.2)
    try:
        while True:
            send()
    except TimeoutError:
        pass


def waiting_bytes(broker: RunningBroker) -> int:
    """Return the number of bytes that wait for the slowest client."""
    return broker.call(lambda: max(waiting_output(session.link) for session in broker.server.sessions))


def test_events_wait_in_order_while_the_store_works(broker: RunningBroker) -> None:
    with broker.raw().log_in() as client:
        for number in range(50):
            client.machine.send(1, m.QueueDeclare(f"pipelined.{number}", durable=True))
        client.machine.send(1, m.BasicQos())
        for number in range(50):
            client.machine.send(1, m.QueueDelete(f"pipelined.{number}"))
        client.flush()
        received: list[m.Method] = []
        while len(received) < 101:
            received.append(client.until(MethodReceived).method)
        names = [method.queue for method in received if isinstance(method, m.QueueDeclareOk)]
        assert names == [f"pipelined.{number}" for number in range(50)]
        assert isinstance(received[50], m.BasicQosOk)


def test_all_requests_are_answered_although_reading_pauses_while_too_many_wait() -> None:
    with run_broker(limits=BrokerLimits(held_events=5)) as broker, broker.raw().log_in() as client:
        for number in range(40):
            client.machine.send(1, m.QueueDeclare(f"q{number}", durable=True))
        client.flush()
        for _ in range(40):
            client.until(MethodReceived)


def test_a_channel_can_be_closed_while_its_methods_wait(broker: RunningBroker) -> None:
    with broker.raw().log_in(2) as client:
        client.machine.send(1, m.QueueDeclare("once", durable=True))
        client.machine.send(1, m.QueueDeclare("once", passive=True))
        client.machine.close_channel(1)
        client.flush()
        client.until(ChannelReleased)
        client.request(m.QueueDelete("once"), m.QueueDeleteOk, 2)


CONVERSATION = [
    m.QueueDeclare("fuzz", exclusive=True),
    m.BasicConsume("fuzz", "tag"),
    m.BasicQos(0, 1),
    m.ConfirmSelect(),
    m.QueueBind("fuzz", "amq.topic", "a.*"),
    m.BasicGet("fuzz"),
    m.BasicCancel("tag"),
    m.QueueDelete("fuzz"),
]


def conversation_bytes() -> bytes:
    return b"".join(frame(FRAME_METHOD, 1, encode_method(method)) for method in CONVERSATION)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_changed_bytes_in_a_conversation_disturb_no_other_connection(
    broker: RunningBroker, seed: int, changes: int
) -> None:
    generator = random.Random(seed)
    data = bytearray(conversation_bytes())
    for _ in range(changes):
        data[generator.randrange(len(data))] = generator.randrange(256)
    with broker.raw().log_in() as neighbour:
        with broker.raw().log_in() as client:
            client.socket.sendall(bytes(data))
        neighbour.request(m.BasicQos(), m.BasicQosOk)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_garbage_after_the_protocol_header_ends_that_connection_only(broker: RunningBroker, garbage: bytes) -> None:
    with broker.raw().log_in() as neighbour:
        with broker.raw() as client:
            client.socket.sendall(garbage)
        neighbour.request(m.BasicQos(), m.BasicQosOk)


def test_the_connections_of_earlier_tests_leave_no_state(broker: RunningBroker) -> None:
    counts = broker.call(broker.server.figures)
    for _ in range(1000):
        counts = broker.call(broker.server.figures)
        if not counts.connections:
            break
        time.sleep(0.01)
    assert counts.connections == counts.channels == counts.messages_unacked == 0
