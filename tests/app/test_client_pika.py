"""A node and pika, an AMQP client without any code for SEMQ."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError

from tests.app.network import DOCUMENT_MAX, STRANGER, Network


@contextmanager
def channel_to(url: str) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(url + "/%2F"))
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


def publish(channel: BlockingChannel, target: str, body: bytes, **headers: Any) -> None:
    """Publish a document; return when it is confirmed, and thus committed."""
    properties = pika.BasicProperties(headers={"@" + name: value for name, value in headers.items()})
    channel.basic_publish("semq", target, body, properties)


def await_document(channel: BlockingChannel, queue: str, body: bytes) -> Any:
    """Return the properties of the document with this body; acknowledge it and all documents before it."""
    for method, properties, received_body in channel.consume(queue, inactivity_timeout=30):
        assert method is not None, "nothing came"
        channel.basic_ack(method.delivery_tag)
        if received_body == body:
            channel.cancel()
            return properties
    raise AssertionError("the consumer was cancelled")


def test_a_document_can_be_sent_and_received_with_pika(network: Network) -> None:
    body = f"<Order>{uuid4()}</Order>".encode()
    with channel_to(network.sender.url) as sender, channel_to(network.receiver.url) as receiver:
        sender.confirm_delivery()
        publish(sender, "56001", body, AppKey="trade/order/standard/P1", SaveFwd=3, Ack2=1)
        properties = await_document(receiver, "semq.inbox", body)
    assert properties.headers["@AppKey"] == "trade/order/standard/P1"
    assert properties.headers["@Source"] == "1.10008"
    assert properties.headers["@Digest"] == sha256(body).hexdigest()
    assert properties.message_id.startswith("1.10008.")


def test_a_document_to_a_user_arrives_in_the_queue_of_the_user(network: Network) -> None:
    body = str(uuid4()).encode()
    with channel_to(network.receiver.url) as at_b, channel_to(network.sender.url) as at_a:
        at_b.confirm_delivery()
        publish(at_b, "1.10008/pika", body)
        assert await_document(at_a, "semq.inbox.pika", body).headers["@Source"] == "1.56001"


def test_events_are_published_to_a_topic_exchange(network: Network) -> None:
    with channel_to(network.sender.url) as channel:
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "semq.events", "delivered.56001.receipt-test")
        channel.confirm_delivery()
        publish(channel, "56001", b"x", AppKey="trade/receipt-test//E1")
        method, properties, body = next(channel.consume(queue, inactivity_timeout=30))
        assert method is not None, "no event came"
        channel.basic_ack(method.delivery_tag)
        content = json.loads(body)
    assert (content["event"], content["outcome"], content["app_key"]) == (
        "delivered",
        "DELIVERED",
        "trade/receipt-test//E1",
    )
    assert properties.headers["@LK0"] == content["lk0"]


def test_unacknowledged_documents_are_delivered_again(network: Network) -> None:
    body = str(uuid4()).encode()
    with channel_to(network.sender.url) as sender:
        sender.confirm_delivery()
        publish(sender, "56001/again", body)
    with channel_to(network.receiver.url) as receiver:
        method, _, received_body = next(receiver.consume("semq.inbox.again", inactivity_timeout=30))
        assert (received_body, method.redelivered) == (body, False)
    with channel_to(network.receiver.url) as receiver:
        method, properties, received_body = next(receiver.consume("semq.inbox.again", inactivity_timeout=30))
        assert (received_body, method.redelivered, properties.headers["@Deliveries"]) == (body, True, 2)
        receiver.basic_ack(method.delivery_tag)


@pytest.mark.parametrize(
    ("target", "headers", "reply_code", "code"),
    [
        ("99999", {}, 404, "SEMQ-1201"),
        (STRANGER, {}, 403, "SEMQ-1202"),
        ("5 6", {}, 406, "SEMQ-1101"),
        ("56001", {"SaveFwd": 7}, 406, "SEMQ-1102"),
        ("56001", {"SaveFdw": 3}, 406, "SEMQ-1102"),
        ("56001", {"Ack2": "perhaps"}, 406, "SEMQ-1102"),
        ("56001", {"AppKey": "order"}, 406, "SEMQ-1103"),
        ("56001", {"Reliable": 0}, 406, "SEMQ-1104"),
    ],
)
def test_bad_input_closes_the_channel_with_an_error_code_and_leaves_the_connection_open(
    network: Network, target: str, headers: dict[str, Any], reply_code: int, code: str
) -> None:
    with channel_to(network.sender.url) as channel:
        channel.confirm_delivery()
        with pytest.raises(ChannelClosedByBroker) as caught:
            publish(channel, target, b"x", **headers)
        assert caught.value.reply_code == reply_code
        assert code in caught.value.reply_text
        # The connection still works.
        new_channel = channel.connection.channel()
        new_channel.confirm_delivery()
        publish(new_channel, "56001", b"good")


# The second size is a byte more than ``amqp.max_message_bytes``, so the broker refuses it before the node.
@pytest.mark.parametrize(("size", "text"), [(DOCUMENT_MAX + 1, "SEMQ-1203"), (4_000_001, "a body of 4000001 bytes")])
def test_a_document_that_is_too_large_is_refused(network: Network, size: int, text: str) -> None:
    with channel_to(network.sender.url) as channel:
        channel.confirm_delivery()
        with pytest.raises(ChannelClosedByBroker) as caught:
            publish(channel, "56001", bytes(size))
        assert caught.value.reply_code == 311
        assert text in caught.value.reply_text


@pytest.mark.parametrize("queue", ["", "amq.rabbitmq.reply-to"])
def test_a_client_that_requests_an_answer_gets_it_and_keeps_the_channel(network: Network, queue: str) -> None:
    with channel_to(network.sender.url) as channel:
        channel.confirm_delivery()
        queue = queue or channel.queue_declare("", exclusive=True).method.queue
        answers: dict[str, Any] = {}

        def read(_: BlockingChannel, __: object, properties: pika.BasicProperties, body: bytes) -> None:
            answers[properties.correlation_id] = json.loads(body)

        channel.basic_consume(queue, read, auto_ack=True)
        for number, target in enumerate(("56001", "99999")):
            properties = pika.BasicProperties(reply_to=queue, correlation_id=str(number))
            try:
                channel.basic_publish("semq", target, b"x", properties)
            except NackError:
                assert target == "99999"
        while len(answers) < 2:
            channel.connection.process_data_events(time_limit=30)
    assert answers["0"]["ok"]
    assert answers["0"]["result"]["lk0"].startswith("1.10008.")
    assert answers["1"]["error"]["code"] == "SEMQ-1201"


def delete_exchange(channel: BlockingChannel) -> None:
    channel.exchange_delete("semq")


def delete_queue(channel: BlockingChannel) -> None:
    channel.queue_delete("semq.inbox")


def purge_queue(channel: BlockingChannel) -> None:
    channel.queue_purge("semq.inbox")


@pytest.mark.parametrize("act", [delete_exchange, delete_queue, purge_queue])
def test_service_objects_of_the_node_cannot_be_deleted_or_purged(
    network: Network, act: Callable[[BlockingChannel], None]
) -> None:
    with channel_to(network.sender.url) as channel, pytest.raises(ChannelClosedByBroker) as caught:
        act(channel)
    assert caught.value.reply_code == 403
