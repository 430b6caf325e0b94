"""pika: remote calls between two threads, confirms, returns and nacks, dead letters, a closed channel."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pika
import pika.data
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError

from semq.amqp.wire import encode_table


def test_pika_reads_a_fraction_as_an_integer_as_the_documents_warn() -> None:
    """If this fails, correct docs/applications/values.md."""
    assert pika.data.decode_table(encode_table({"weight": 2.75}), 0)[0] == {"weight": 2}


@contextmanager
def channel_of(url: str) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    try:
        yield connection.channel()
    finally:
        connection.close()


def test_pika_makes_a_remote_call_with_direct_replies(url: str) -> None:
    served = threading.Event()

    def serve() -> None:
        with channel_of(url) as channel:
            channel.queue_declare("pika.calls")
            served.set()
            method, properties, body = next(channel.consume("pika.calls", inactivity_timeout=30))
            answer = pika.BasicProperties(correlation_id=properties.correlation_id)
            channel.basic_publish("", properties.reply_to, body.upper(), answer)
            channel.basic_ack(method.delivery_tag)
            channel.queue_delete("pika.calls")

    server = threading.Thread(target=serve)
    server.start()
    assert served.wait(30)
    with channel_of(url) as channel:
        received: list[tuple[str, bytes]] = []
        channel.basic_consume(
            "amq.rabbitmq.reply-to",
            lambda *message: received.append((message[2].correlation_id, message[3])),
            auto_ack=True,
        )
        properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="7")
        channel.basic_publish("", "pika.calls", b"hello", properties)
        while not received:
            channel.connection.process_data_events(time_limit=30)
    server.join(30)
    assert received == [("7", b"HELLO")]


def test_pika_gets_confirms_returns_and_nacks(url: str) -> None:
    with channel_of(url) as channel:
        channel.confirm_delivery()
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
        channel.basic_publish("", queue, b"1", mandatory=True)
        with pytest.raises(NackError):
            channel.basic_publish("", queue, b"2")
        with pytest.raises(UnroutableError):
            channel.basic_publish("", "nowhere", b"3", mandatory=True)


def test_dead_letters_have_their_history(url: str) -> None:
    with channel_of(url) as channel:
        channel.queue_declare("pika.dead")
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "pika.dead"}
        queue = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
        channel.basic_publish("", queue, b"x")
        method, _, _ = next(channel.consume(queue, inactivity_timeout=30))
        channel.basic_reject(method.delivery_tag, requeue=False)
        channel.cancel()
        _, properties, body = next(channel.consume("pika.dead", inactivity_timeout=30, auto_ack=True))
        (death,) = properties.headers["x-death"]
        assert (body, death["queue"], death["reason"], death["count"]) == (b"x", queue, "rejected", 1)
        channel.cancel()
        channel.queue_delete("pika.dead")


def test_a_closed_channel_leaves_its_connection_open(url: str) -> None:
    with channel_of(url) as channel:
        with pytest.raises(ChannelClosedByBroker, match=r"no queue 'pika\.none'"):
            channel.queue_declare("pika.none", passive=True)
        assert channel.connection.channel().queue_declare("", exclusive=True).method.message_count == 0
