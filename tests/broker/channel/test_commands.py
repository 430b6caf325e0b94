"""Definitions over real sockets, and their errors."""

from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from tests.broker.served import RunningBroker

Act = Callable[[BlockingChannel], Any]


def refusal(connection: pika.BlockingConnection, act: Act) -> tuple[int, str]:
    """Return code and text of the error that closes the channel or connection."""
    with pytest.raises((ChannelClosedByBroker, ConnectionClosedByBroker)) as caught:
        act(connection.channel())
    return caught.value.reply_code, caught.value.reply_text


# attempt, code, part of the text
SOFT: list[tuple[Act, int, str]] = [
    (lambda c: c.queue_declare("none", passive=True), 404, "NOT_FOUND - no queue 'none' in vhost '/'"),
    (lambda c: c.exchange_declare("none", passive=True), 404, "NOT_FOUND - no exchange 'none' in vhost '/'"),
    (lambda c: c.queue_bind("mine", "none"), 404, "no exchange 'none'"),
    (lambda c: c.queue_bind("none", "amq.topic"), 404, "no queue 'none'"),
    (lambda c: c.exchange_bind("none", "amq.topic"), 404, "no exchange 'none'"),
    (lambda c: c.queue_purge("none"), 404, "no queue"),
    (lambda c: c.queue_declare("amq.mine"), 403, "queue name 'amq.mine' contains reserved prefix 'amq.*'"),
    (lambda c: c.exchange_declare("amq.mine"), 403, "reserved prefix"),
    (lambda c: c.exchange_delete("amq.topic"), 403, "deletion of system exchange 'amq.topic'"),
    (lambda c: c.exchange_declare(""), 403, "operation not permitted on the default exchange"),
    (lambda c: c.exchange_delete(""), 403, "default exchange"),
    (lambda c: c.queue_bind("mine", ""), 403, "default exchange"),
    (lambda c: c.queue_unbind("none", "", "k"), 403, "default exchange"),
    (lambda c: c.exchange_bind("amq.topic", ""), 403, "default exchange"),
    (lambda c: c.exchange_declare("amq.topic", "fanout", durable=True), 406, "inequivalent arg 'type'"),
    (lambda c: c.exchange_declare("amq.topic", "topic"), 406, "received 'false' but current is 'true'"),
    (lambda c: c.queue_declare("mine", durable=True), 406, "inequivalent arg 'durable' for queue 'mine' in vhost '/'"),
    (lambda c: c.queue_declare("mine", auto_delete=True), 406, "inequivalent arg 'auto_delete'"),
    (lambda c: c.queue_declare("mine", exclusive=True), 405, "RESOURCE_LOCKED - cannot obtain exclusive access"),
    (
        lambda c: c.queue_declare("mine", arguments={"x-max-length": 3}),
        406,
        "received the value '3' of type 'signedint' but current is none",
    ),
    (lambda c: c.queue_declare("bad", arguments={"x-message-ttl": -1}), 406, "invalid arg 'x-message-ttl' for queue"),
    (lambda c: c.queue_bind("mine", "amq.match", arguments={"x-match": "some"}), 406, "x-match"),
    (lambda c: c.exchange_declare("bad", arguments={"alternate-exchange": 1}), 406, "alternate-exchange"),
    (lambda c: c.queue_bind("", "amq.topic", "k"), 404, "no previously declared queue"),
    (lambda c: c.queue_declare("amq.rabbitmq.reply-to.nobody", passive=True), 404, "no queue"),
]


@pytest.mark.parametrize(("act", "code", "text"), SOFT)
def test_soft_errors_close_the_channel_and_nothing_else(broker: RunningBroker, act: Act, code: int, text: str) -> None:
    connection = broker.connect()
    neighbour = connection.channel()
    neighbour.queue_declare("mine")
    try:
        result = refusal(connection, act)
        assert result[0] == code
        assert text in result[1]
        assert neighbour.queue_declare("mine", passive=True).method.queue == "mine"
    finally:
        neighbour.queue_delete("mine")
        connection.close()


def test_an_unknown_type_of_exchange_is_a_hard_error(broker: RunningBroker) -> None:
    result = refusal(broker.connect(), lambda c: c.exchange_declare("x", "x-unknown"))
    assert result == (406, "PRECONDITION_FAILED - unknown exchange type 'x-unknown'")


def test_declaring_again_in_the_same_way_is_no_error(channel: BlockingChannel) -> None:
    for _ in range(2):
        channel.exchange_declare("again", "headers", auto_delete=True, internal=True)
        channel.queue_declare("again", auto_delete=True, arguments={"x-max-length": 3, "colour": "red"})
        channel.queue_bind("again", "amq.direct", "again")
        channel.exchange_bind("amq.fanout", "amq.direct", "again")
        channel.exchange_declare("amq.direct", "direct", durable=True)
    channel.exchange_unbind("amq.fanout", "amq.direct", "again")
    channel.queue_delete("again")
    channel.exchange_delete("again")


@pytest.mark.parametrize(("destination", "source"), [("none", "gone"), ("none", "amq.direct"), ("amq.direct", "none")])
def test_an_unbind_of_a_missing_binding_is_no_error(channel: BlockingChannel, destination: str, source: str) -> None:
    channel.exchange_unbind(destination, source, "k")
    channel.queue_unbind(destination, source, "k")


def test_an_empty_name_means_a_generated_name_or_the_last_declared_queue(channel: BlockingChannel) -> None:
    name = channel.queue_declare("", exclusive=True).method.queue
    assert name.startswith("amq.gen-")
    channel.queue_bind("", "amq.direct")
    channel.basic_publish("amq.direct", name, b"1")
    assert channel.queue_purge("").method.message_count == 1
    assert channel.queue_declare("", exclusive=True).method.queue != name
    channel.queue_declare(name, exclusive=True)


def test_an_exclusive_queue_belongs_to_one_connection_and_ends_with_it(
    broker: RunningBroker, channel: BlockingChannel
) -> None:
    owner = broker.connect()
    owner.channel().queue_declare("private", exclusive=True)
    other = broker.connect()
    for act in (
        lambda c: c.queue_declare("private", passive=True),
        lambda c: c.queue_declare("private", exclusive=True),
        lambda c: c.basic_get("private"),
        lambda c: c.queue_bind("private", "amq.topic", "k"),
        lambda c: c.queue_delete("private"),
        lambda c: c.queue_purge("private"),
        lambda c: c.basic_consume("private", lambda *_: None),
    ):
        assert refusal(other, act)[0] == 405
    other.close()
    owner.close()
    assert channel.queue_declare("private").method.message_count == 0
    channel.queue_delete("private")


def test_conditional_deletions_are_refused_and_missing_queues_are_ignored(
    broker: RunningBroker, channel: BlockingChannel
) -> None:
    channel.queue_declare("cond")
    channel.basic_publish("", "cond", b"1")
    assert refusal(broker.connect(), lambda c: c.queue_delete("cond", if_empty=True)) == (
        406,
        "PRECONDITION_FAILED - queue 'cond' in vhost '/' not empty",
    )
    tag = channel.basic_consume("cond", lambda *_: None)
    assert refusal(broker.connect(), lambda c: c.queue_delete("cond", if_unused=True))[0] == 406
    channel.basic_cancel(tag)
    assert channel.queue_delete("cond", if_unused=True).method.message_count == 1
    assert channel.queue_delete("cond").method.message_count == 0
    channel.exchange_declare("cond")
    channel.queue_declare("cond", exclusive=True)
    channel.queue_bind("cond", "cond", "k")
    assert refusal(broker.connect(), lambda c: c.exchange_delete("cond", if_unused=True))[0] == 406
    channel.queue_unbind("cond", "cond", "k")
    channel.queue_unbind("cond", "cond", "k")
    channel.exchange_delete("cond", if_unused=True)
    channel.exchange_delete("cond")


def test_an_auto_delete_queue_ends_with_its_last_consumer_and_an_auto_delete_exchange_with_its_last_binding(
    broker: RunningBroker, channel: BlockingChannel
) -> None:
    channel.exchange_declare("auto", "fanout", auto_delete=True)
    channel.queue_declare("auto", auto_delete=True)
    channel.queue_bind("auto", "auto")
    tag = channel.basic_consume("auto", lambda *_: None)
    channel.basic_cancel(tag)
    assert refusal(broker.connect(), lambda c: c.queue_declare("auto", passive=True))[0] == 404
    assert refusal(broker.connect(), lambda c: c.exchange_declare("auto", passive=True))[0] == 404


def test_an_internal_exchange_is_for_bindings_only(broker: RunningBroker, channel: BlockingChannel) -> None:
    channel.exchange_declare("inner", "fanout", internal=True)
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "inner")
    channel.exchange_bind("inner", "amq.fanout")

    def publish(inner: BlockingChannel) -> None:
        inner.confirm_delivery()
        inner.basic_publish("inner", "", b"1")

    assert refusal(broker.connect(), publish)[0] == 403
    channel.confirm_delivery()
    channel.basic_publish("amq.fanout", "", b"2")
    assert channel.basic_get(queue)[2] == b"2"
    channel.exchange_delete("inner")


FORBIDDEN_TO_NARROW: list[tuple[Act, str]] = [
    # act, part of the text; "narrow" may use names that begin with "my.", and read amq.topic
    (lambda c: c.queue_declare("their.q"), "access to queue 'their.q' in vhost '/' refused for user 'narrow'"),
    (lambda c: c.exchange_declare("their.x"), "exchange 'their.x'"),
    (lambda c: c.exchange_delete("their.x"), "exchange 'their.x'"),
    (lambda c: c.queue_delete("their.q"), "queue 'their.q'"),
    (lambda c: c.queue_purge("their.q"), "queue 'their.q'"),
    (lambda c: c.queue_bind("my.q", "amq.direct", "k"), "exchange 'amq.direct'"),
    (lambda c: c.queue_bind("their.q", "amq.topic", "k"), "queue 'their.q'"),
    (lambda c: c.exchange_bind("my.x", "amq.direct"), "exchange 'amq.direct'"),
    (lambda c: c.exchange_bind("amq.topic", "my.x"), "exchange 'amq.topic'"),
    (lambda c: c.basic_get("their.q"), "queue 'their.q'"),
    (lambda c: c.basic_consume("their.q", lambda *_: None), "queue 'their.q'"),
    (lambda c: (c.confirm_delivery(), c.basic_publish("", "my.q", b"")), "exchange ''"),
    (lambda c: (c.confirm_delivery(), c.basic_publish("amq.topic", "my.q", b"")), "exchange 'amq.topic'"),
    (lambda c: c.queue_declare("my.q2", arguments={"x-dead-letter-exchange": "amq.direct"}), "exchange 'amq.direct'"),
    (lambda c: c.exchange_declare("my.x2", arguments={"alternate-exchange": "amq.direct"}), "exchange 'amq.direct'"),
]


@pytest.mark.parametrize(("act", "text"), FORBIDDEN_TO_NARROW)
def test_a_user_acts_only_where_its_permissions_allow(broker: RunningBroker, act: Act, text: str) -> None:
    connection = broker.connect("narrow")
    allowed = connection.channel()
    allowed.exchange_declare("my.x", "topic", auto_delete=True)
    allowed.queue_declare("my.q", exclusive=True)
    allowed.queue_bind("my.q", "amq.topic", "k")
    code, result = refusal(connection, act)
    assert code == 403
    assert text in result
    connection.close()
