"""Exchanges of type x-delayed-message: what they hold, when it leaves, restarts, and what is refused."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.amqp.content import ContentHeader
from semq.amqp.errors import AmqpError
from semq.amqp.wire import Timestamp
from semq.broker.arguments import TIMER_MAX_MS
from semq.broker.departures import Departure
from semq.broker.queues import delay
from semq.broker.queues.delay import DelayQueue, when_due
from semq.broker.queues.message import Message
from semq.broker.queues.queue import Queue
from semq.broker.routing.exchanges import DelayedExchange
from semq.broker.vhost import RETRY_S
from tests.broker.durable.test_restoration import after_restart, queue_of
from tests.broker.pure import Model, bodies, bytes_of, message_of


def with_exchange(durable: bool = True, kind: str = "direct", window: int = 1 << 30, **arguments: Any) -> Model:
    """Return a broker with the delayed exchange ``later``, to which queue ``q`` is bound."""
    model = Model(window=window)
    table = {"x-delayed-type": kind} | {name.replace("_", "-"): value for name, value in arguments.items()}
    model.vhost.declare_exchange("later", "x-delayed-message", durable, False, False, table)
    model.vhost.bind(model.vhost.exchanges["later"], model.queue("q", durable=durable), "k", {})
    return model


def send(model: Model, body: bytes, delay_ms: object, key: str = "k", **properties: Any) -> int:
    return model.publish(key, body, "later", headers={"x-delay": delay_ms}, delivery_mode=2, **properties)


def held(model: Model) -> DelayQueue:
    return model.vhost.delays["later"]


DELAYS = (5, 2.9, Decimal("1.5"), "5")


@pytest.mark.parametrize("value", [*DELAYS, -5, True, Timestamp(5), None, "soon", "1_0", {}, 0, 1e30])
def test_a_delay_is_a_positive_number(value: object) -> None:
    model = with_exchange()
    assert send(model, b"1", value) == 1
    is_held = value in DELAYS and not isinstance(value, Timestamp)
    assert len(held(model).ready) == is_held
    assert len(queue_of(model, "q").ready) == (not is_held)


def test_messages_leave_in_the_order_of_their_due_times_with_the_negative_delay() -> None:
    model = with_exchange()
    for body, ms in ((b"3", 3000), (b"1", 1000), (b"4", 3000), (b"2", 1001), (b"0", 0)):
        assert send(model, body, ms) == 1
    assert bodies(queue_of(model, "q")) == [b"0"]
    assert len(held(model).ready) == 4
    model.advance_time(1.01)
    assert bodies(queue_of(model, "q")) == [b"0", b"1", b"2"]
    model.advance_time(3)
    assert bodies(queue_of(model, "q")) == [b"0", b"1", b"2", b"3", b"4"]
    entries = [queue_of(model, "q").get() for _ in range(5)]
    assert [entry.message.headers()["x-delay"] for entry in entries if entry] == [0, -1000, -1001, -3000, -3000]
    assert not held(model)._taken


def test_a_time_to_live_begins_when_the_message_is_due() -> None:
    model = with_exchange()
    send(model, b"1", 2000, expiration="1000")
    model.advance_time(2.5)
    assert bodies(queue_of(model, "q")) == [b"1"]
    model.advance_time(1)
    assert bodies(queue_of(model, "q")) == []


@pytest.mark.parametrize("is_orderly", [True, False])
@pytest.mark.parametrize("eager", [1 << 60, 2])
async def test_held_messages_survive_a_restart(is_orderly: bool, eager: int) -> None:
    first = with_exchange()
    for number in (3, 1, 5, 2, 4):
        send(first, b"%d" % number, number * 1000)
    first.store.eager = eager
    model = await after_restart(first, is_orderly)
    assert (len(held(model).ready), len(held(model)._taken)) == (5, 5)
    send(model, b"2b", 2500)
    for _ in range(30):
        model.advance_time(0.1)
        model.flush()
    assert bodies(queue_of(model, "q")) == [b"1", b"2", b"2b"]
    again = await after_restart(model, is_orderly)
    again.advance_time(60)
    again.flush()  # reads the page
    again.flush()
    assert bodies(queue_of(again, "q")) == [b"1", b"2", b"2b", b"3", b"4", b"5"]
    assert [row.queue_id for row in again.store.messages.values()] == [queue_of(again, "q").queue_id] * 6


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=60))
def test_pages_of_held_messages_keep_the_order(delays: list[int]) -> None:
    model = with_exchange(window=2)
    for number, ms in enumerate(delays):
        send(model, b"%d" % number, ms)
        model.flush()
    for _ in range(60):
        model.advance_time(0.1)
        model.flush()
    due = sorted(range(len(delays)), key=lambda number: delays[number])
    assert [bytes_of(entry) for entry in iter(queue_of(model, "q").pop, None)] == [b"%d" % number for number in due]


def test_messages_due_in_one_millisecond_have_positions_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay, "_SLOT_BITS", 2)
    model = with_exchange()
    for number in range(3):
        send(model, b"%d" % number, 1000)
    send(model, b"other", 2000)
    send(model, b"3", 1000)
    model.advance_time(1.5)
    assert sorted(bodies(queue_of(model, "q"))) == [b"0", b"1", b"2", b"3"]


def test_a_due_message_is_dropped_without_a_queue_and_waits_for_room_in_a_full_one() -> None:
    model = with_exchange()
    full = model.queue("full", durable=True, max_length=1, overflow="reject-publish")
    model.vhost.bind(model.vhost.exchanges["later"], full, "full", {})
    send(model, b"nowhere", 1000, "unbound")
    send(model, b"1", 1000, "full")
    send(model, b"2", 1000, "full")
    model.advance_time(2)
    model.flush()
    assert bodies(full) == [b"1"]
    assert model.env.departures.counts[Departure.UNROUTED] == 1
    assert len(model.store.messages) == 2
    full.pop()
    model.advance_time(RETRY_S)
    assert bodies(full) == [b"2"]


def test_another_exchange_leads_to_a_delayed_one_and_dead_letters_are_held() -> None:
    model = with_exchange()
    vhost = model.vhost
    vhost.bind(vhost.exchanges["amq.fanout"], vhost.exchanges["later"], "", {})
    model.publish("k", b"by binding", "amq.fanout", headers={"x-delay": 1000})
    model.queue("dying", message_ttl=0, dead_letter_exchange="later", dead_letter_routing_key="k")
    model.publish("dying", b"dead", headers={"x-delay": 2000})
    model.advance_time(0)
    assert len(held(model).ready) == 2
    model.advance_time(1.5)
    assert bodies(queue_of(model, "q")) == [b"by binding"]
    model.advance_time(1)
    assert bodies(queue_of(model, "q")) == [b"by binding", b"dead"]


def test_an_alternate_exchange_gets_a_due_message_without_a_queue() -> None:
    model = with_exchange(alternate_exchange="amq.fanout")
    model.vhost.bind(model.vhost.exchanges["amq.fanout"], model.queue("other"), "", {})
    send(model, b"1", 1000, "unbound")
    model.advance_time(2)
    assert bodies(queue_of(model, "other")) == [b"1"]


def test_the_messages_end_with_their_exchange() -> None:
    model = with_exchange()
    send(model, b"1", 1000)
    model.vhost.delete_exchange("later", False)
    model.flush()
    assert not model.vhost.delays
    assert not model.store.messages
    assert {row.name for row in model.store.queues.values()} == {"q"}
    model.advance_time(5)
    assert bodies(queue_of(model, "q")) == []


def test_a_transaction_holds_messages_at_its_commit_and_abandons_them() -> None:
    model = with_exchange()
    exchange = model.vhost.exchanges["later"]
    for is_committed in (False, True):
        prepared = model.vhost.prepare_nothing()
        message = message_of(b"1", "later", "k", headers={"x-delay": 1000}, delivery_mode=2)
        assert model.vhost.prepare(prepared, exchange, message)
        if is_committed:
            prepared.commit()
        else:
            prepared.abandon()
        assert len(held(model).ready) == len(held(model)._taken) == is_committed


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": 5}, "'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": "x-delayed-message"}, "unknown exchange type 'x-delayed-message'"),
        ({"x-delayed-type": "other"}, "unknown exchange type 'other'"),
    ],
)
def test_a_declaration_without_a_type_of_routing_is_refused(arguments: Mapping[str, Any], text: str) -> None:
    with pytest.raises(AmqpError, match=text):
        Model().vhost.declare_exchange("later", "x-delayed-message", True, False, False, arguments)


def test_a_second_declaration_must_name_the_same_type_of_routing() -> None:
    model = with_exchange()
    model.vhost.declare_exchange("later", "x-delayed-message", True, False, False, {"x-delayed-type": "direct"})
    with pytest.raises(AmqpError, match="inequivalent arg 'x-delayed-type'"):
        model.vhost.declare_exchange("later", "x-delayed-message", True, False, False, {"x-delayed-type": "topic"})


@pytest.mark.parametrize(
    "headers", [{"x-delay": TIMER_MAX_MS + 1}, {"x-delay": "soon"}, {"x-delay": True}, {"x-delay": 5, "BCC": ["a"]}]
)
def test_headers_that_cannot_be_obeyed_are_refused(headers: Mapping[str, Any]) -> None:
    exchange = with_exchange().vhost.exchanges["later"]
    assert isinstance(exchange, DelayedExchange)
    with pytest.raises(AmqpError):
        exchange.check(headers)
    exchange.check({"x-delay": TIMER_MAX_MS, "CC": ["a"]})


def test_a_header_that_would_fit_into_no_frame_loses_its_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    name, raw = b"\x07x-delay", message_of(headers={"x-delay": 5}).header.raw
    short = raw.replace(b"\x0d" + name + b"I\0\0\0\x05", b"\x0b" + name + b"s\0\x05")
    message = Message("later", "k", ContentHeader.parse(short), b"")
    assert when_due(message).headers() == {"x-delay": -5}
    monkeypatch.setattr(delay, "HEADER_MAX", len(short))
    assert when_due(message).headers() == {}


def test_clients_cannot_name_the_queue() -> None:
    model = with_exchange()
    with pytest.raises(AmqpError):
        model.vhost.find_queue(held(model).name, None)
    with pytest.raises(AmqpError):
        model.queue(held(model).name)
    assert model.publish(held(model).name, b"past the exchange") == 0
    assert isinstance(held(model), Queue)
    assert held(model) in list(model.vhost.holding)
