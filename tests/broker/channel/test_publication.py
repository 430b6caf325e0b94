"""Publishing over real sockets."""

from typing import Any

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    UnroutableError,
)

from semq.amqp import methods as m
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Acked, Nacked, Returned
from tests.broker.memory_store import MemoryBrokerStore
from tests.broker.served import RunningBroker, run_broker


def test_a_mandatory_message_without_a_queue_is_returned_before_its_confirm(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    properties = BasicProperties(message_id="m", headers={"a": 1})
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("amq.direct", "nowhere", b"body", properties, mandatory=True)
    (returned,) = caught.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("amq.direct", "nowhere")
    assert (returned.properties.message_id, returned.properties.headers, returned.body) == ("m", {"a": 1}, b"body")


def test_a_message_without_a_queue_is_confirmed(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    channel.basic_publish("amq.direct", "nowhere", b"body")


def test_unroutable_messages_are_confirmed_one_by_one(broker: RunningBroker) -> None:
    with broker.raw().log_in() as client:
        client.request(m.ConfirmSelect(), m.ConfirmSelectOk)
        client.machine.publish(1, "", "nowhere", ContentHeader.build(0, Properties()), b"")
        client.publish("", "nowhere", b"back", mandatory=True)
        assert client.until(Acked, lambda event: event.delivery_tag == 2) == Acked(1, 2, False)
        first, second = client.events[-2:]
        assert first == Acked(1, 1, False)
        assert isinstance(second, Returned)  # before its own confirm


def test_a_publish_that_a_full_queue_refuses_is_nacked(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    queue = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
    channel.basic_publish("", queue, b"1", mandatory=True)
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"2", mandatory=True)
    assert channel.queue_purge(queue).method.message_count == 1
    channel.basic_publish("", queue, b"3", mandatory=True)


def test_persistent_messages_are_confirmed_only_when_they_are_stored() -> None:
    store = MemoryBrokerStore()
    stored_counts: list[int] = []
    with run_broker(store) as broker:
        connection = broker.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True)
        for number in range(5):
            channel.basic_publish("", "kept", b"%d" % number, BasicProperties(delivery_mode=2))
            stored_counts.append(len(store.messages))
        channel.basic_publish("", "kept", b"passing", BasicProperties(delivery_mode=1))
        connection.close()
    assert stored_counts == [1, 2, 3, 4, 5]
    assert len(store.messages) == 5


def test_a_failure_of_the_store_is_reported_to_the_publisher() -> None:
    store = MemoryBrokerStore()
    with run_broker(store) as broker:
        connection = broker.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True)
        store.failure = OSError("disk full")
        with pytest.raises(NackError):
            channel.basic_publish("", "kept", b"1", BasicProperties(delivery_mode=2))
        with pytest.raises(ConnectionClosedByBroker, match="541"):
            channel.queue_declare("more", durable=True)
        store.failure = None


def test_a_publish_to_a_missing_exchange_ends_the_channel(channel: BlockingChannel) -> None:
    channel.basic_publish("none", "k", b"")
    with pytest.raises(ChannelClosedByBroker, match=r"404.*no exchange 'none' in vhost '/'"):
        channel.basic_qos(prefetch_count=1)


def test_the_flag_immediate_is_not_implemented(broker: RunningBroker) -> None:
    with broker.raw().log_in() as client:
        client.publish("", "q", b"1", immediate=True)
        error = client.wait_closed().error
    assert error is not None
    assert (error.reply_code, error.class_id, error.method_id) == (540, 60, 40)


def test_the_user_id_must_be_that_of_the_login(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", queue, b"", BasicProperties(user_id="guest"))
    assert channel.basic_get(queue)[1].user_id == "guest"
    channel.basic_publish("", queue, b"", BasicProperties(user_id="boss"))
    with pytest.raises(ChannelClosedByBroker, match=r"406.*user_id property set to 'boss' but authenticated user was"):
        channel.basic_qos(prefetch_count=1)


def test_cc_and_bcc_headers_add_queues(channel: BlockingChannel) -> None:
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
    headers = {"CC": [queues[1]], "BCC": [queues[2]]}
    channel.basic_publish("", queues[0], b"1", BasicProperties(headers=headers))
    assert [channel.basic_get(queue)[1].headers for queue in queues] == [{"CC": [queues[1]]}] * 3
    channel.basic_publish("", queues[0], b"1", BasicProperties(headers={"CC": "text"}))
    with pytest.raises(ChannelClosedByBroker, match=r"406.*CC"):
        channel.basic_qos(prefetch_count=1)


def test_properties_and_bodies_pass_unchanged(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    properties = BasicProperties(
        "text/plain", "gzip", {"n": 1, "t": {"x": [1, "a", None]}}, 2, 3, "corr", "reply", "60000", "id", 1234567890,
        "type", "guest", "app", "cluster",
    )  # fmt: skip
    for body in (b"", b"x", bytes(range(256)) * 4096):
        channel.basic_publish("", queue, body, properties)
        _, received_properties, received_body = channel.basic_get(queue, auto_ack=True)
        assert received_body == body
        assert received_properties == properties


def test_a_direct_reply_reaches_the_channel_that_asked(broker: RunningBroker) -> None:
    client, server = broker.connect(), broker.connect()
    asking, answering = client.channel(), server.channel()
    requests = answering.queue_declare("", exclusive=True).method.queue
    replies: list[tuple[str, bytes]] = []
    asking.basic_consume(
        "amq.rabbitmq.reply-to", lambda _c, m, _p, body: replies.append((m.exchange, body)), auto_ack=True
    )
    answering.queue_bind(requests, "amq.topic", "rpc")
    asking.basic_publish("amq.topic", "rpc", b"question", BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    method, properties, body = None, BasicProperties(), b""
    while method is None:
        method, properties, body = answering.basic_get(requests, auto_ack=True)
    assert body == b"question"
    assert properties.reply_to.startswith("amq.rabbitmq.reply-to.")
    assert answering.queue_declare(properties.reply_to, passive=True).method.consumer_count == 1
    answering.confirm_delivery()
    answering.basic_publish("", properties.reply_to, b"answer", mandatory=True)
    while not replies:
        client.process_data_events(time_limit=5)
    assert replies == [("", b"answer")]
    asking.close()
    with pytest.raises(UnroutableError):
        answering.basic_publish("", properties.reply_to, b"late", mandatory=True)
    answering.basic_publish("", properties.reply_to, b"late")
    client.close()
    server.close()


def test_direct_replies_follow_the_rules_of_rabbitmq(channel: BlockingChannel) -> None:
    connection = channel.connection
    with pytest.raises(ChannelClosedByBroker, match=r"406.*reply consumer cannot acknowledge"):
        connection.channel().basic_consume("amq.rabbitmq.reply-to", lambda *_: None)
    asking = connection.channel()
    tag = asking.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    asking.basic_cancel(tag)
    asking.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    with pytest.raises(ChannelClosedByBroker, match=r"406.*reply consumer already set"):
        asking.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    channel.basic_publish("", "q", b"", BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    with pytest.raises(ChannelClosedByBroker, match=r"406.*fast reply consumer does not exist"):
        channel.basic_qos(prefetch_count=1)


def test_a_message_refused_by_a_full_queue_is_not_unroutable(broker: RunningBroker) -> None:
    with broker.raw().log_in() as client:
        arguments: dict[str, Any] = {"x-max-length": 0, "x-overflow": "reject-publish"}
        queue = client.request(m.QueueDeclare("", exclusive=True, arguments=arguments), m.QueueDeclareOk).queue
        client.request(m.ConfirmSelect(), m.ConfirmSelectOk)
        client.publish("", queue, b"1", mandatory=True)
        client.until(Nacked)
        assert not [event for event in client.events if isinstance(event, Returned)]
