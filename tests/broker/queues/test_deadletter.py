"""The x-death header, and messages that are dropped because they are in a cycle."""

from datetime import UTC, datetime
from typing import Any

import pytest

from semq.amqp.wire import Timestamp
from semq.broker.departures import Departure
from semq.broker.environment import DeathReason
from semq.broker.queues import deadletter
from semq.broker.queues.deadletter import dead_letter, disowned, read_deaths, would_cycle
from semq.broker.queues.message import Message
from semq.broker.queues.queue import Disposition
from semq.broker.vhost import RETRY_S, VirtualHost
from tests.broker.durable.test_restoration import after_restart, queue_of
from tests.broker.pure import Model, bodies, message_of

AT = datetime(2026, 5, 1, tzinfo=UTC)
EXPIRED, REJECTED, MAXLEN = DeathReason.EXPIRED, DeathReason.REJECTED, DeathReason.MAXLEN


def die(message: Message, queue: str, reason: DeathReason) -> Message:
    return dead_letter(message, queue, reason, AT, "dlx", None)


@pytest.fixture
def few_deaths(monkeypatch: pytest.MonkeyPatch) -> int:
    """Lower the limits of listed and of forgotten deaths to 5; return 5."""
    monkeypatch.setattr(deadletter, "_DEATHS_MAX", 5)
    monkeypatch.setattr(deadletter, "_FORGOTTEN_MAX", 5)
    return 5


def test_the_first_death_of_a_message_is_kept_in_its_headers() -> None:
    message = die(message_of(b"b", "orders", "new", expiration="50", headers={"mine": 1}, app_id="me"), "q", EXPIRED)
    headers = message.headers()
    assert headers["mine"] == 1
    assert headers["x-first-death-queue"] == "q"
    assert headers["x-first-death-reason"] == "expired"
    assert headers["x-first-death-exchange"] == "orders"
    assert headers["x-death"] == [
        {
            "count": 1,
            "reason": "expired",
            "queue": "q",
            "time": Timestamp(int(AT.timestamp())),
            "exchange": "orders",
            "routing-keys": ["new"],
            "original-expiration": "50",
        }
    ]
    assert (message.expiration, message.header.expiration, message.header.app_id) == (None, None, "me")
    assert (message.exchange, message.routing_key, message.body) == ("dlx", "new", b"b")


def test_later_deaths_change_the_headers_of_the_latest_only() -> None:
    message = die(die(message_of(b"", "orders", "new"), "q", EXPIRED), "other", REJECTED)
    headers = message.headers()
    assert (headers["x-first-death-queue"], headers["x-first-death-reason"]) == ("q", "expired")
    assert (headers["x-last-death-queue"], headers["x-last-death-reason"]) == ("other", "rejected")


def test_repeated_dead_letterings_are_counted_with_the_latest_first() -> None:
    message = message_of(b"", "e", "k")
    for queue, reason in (("a", REJECTED), ("b", EXPIRED), ("a", REJECTED), ("a", MAXLEN)):
        message = die(message, queue, reason)
    result = [(death["queue"], death["reason"], death["count"]) for death in read_deaths(message)]
    assert result == [("a", "maxlen", 1), ("a", "rejected", 2), ("b", "expired", 1)]
    assert message.headers()["x-first-death-queue"] == "a"


def test_the_dead_letter_routing_key_replaces_all_routing_keys() -> None:
    message = dead_letter(message_of(b"", "e", "k", headers={"CC": ["c"]}), "q", REJECTED, AT, "dlx", "dead")
    assert message.routing_keys == ("dead",)
    assert read_deaths(message)[0]["routing-keys"] == ["k", "c"]


@pytest.mark.parametrize("header", [1, "x", ["x", 2], [{"queue": 5}], {"a": 1}])
def test_invalid_x_death_headers_of_clients_are_ignored(header: Any) -> None:
    message = die(message_of(headers={"x-death": header}), "q", REJECTED)
    assert read_deaths(message)[0]["queue"] == "q"
    invalid = message_of(headers={"x-death": [{"queue": "q", "reason": "rejected", "count": "many"}]})
    assert read_deaths(die(invalid, "q", REJECTED))[0]["count"] == 1


def test_a_return_to_a_queue_without_a_rejection_is_a_cycle() -> None:
    expired = die(message_of(b"", "e", "k"), "a", EXPIRED)
    assert would_cycle(expired, "a")
    assert not would_cycle(expired, "b")
    rejected = die(expired, "b", REJECTED)
    assert not would_cycle(rejected, "a")
    assert not would_cycle(rejected, "b")


def test_deaths_that_a_client_publishes_are_counted_and_make_no_cycle() -> None:
    """A program may publish a message again with the headers that it has received, for instance to try again later."""
    model = Model()
    model.queue("delay", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="work")
    work = model.queue("work")
    expired = [{"queue": "work", "reason": "expired", "count": 1}, {"queue": "delay", "reason": "expired", "count": 1}]
    headers = {"x-death": expired, "x-deaths-forgotten": 1000, "mine": 1}
    for count in (2, 3):
        model.vhost.publish(model.vhost.find_exchange(""), published(headers, "delay"))
        model.advance_time(0.01)
        entry = work.get()
        assert entry is not None
        message = entry.message
        assert [(death["queue"], death["count"]) for death in read_deaths(message)] == [("delay", count), ("work", 1)]
        headers = message.headers()
    assert headers["mine"] == 1


def test_a_client_cannot_mark_deaths_as_its_own_and_a_cycle_still_ends() -> None:
    model = Model()
    for name, other in (("a", "b"), ("b", "a")):
        model.queue(name, message_ttl=10, dead_letter_exchange="", dead_letter_routing_key=other)
    model.vhost.publish(
        model.vhost.find_exchange(""), published({"x-death": [{"queue": "b", "published": False}]}, "a")
    )
    for _ in range(5):
        model.advance_time(0.01)
    assert model.memory.bytes == 0
    assert model.env.departures.counts[Departure.CYCLE] == 1


def test_published_deaths_are_left_out_if_their_marks_would_exceed_a_frame() -> None:
    deaths = [{"queue": "q", "reason": "rejected", "count": 1}] * 10
    unused = deadletter.HEADER_MAX - len(message_of(headers={"x-death": deaths, "mine": ""}).header.raw)
    assert "x-death" not in published({"x-death": deaths, "mine": "x" * unused}, "k").headers()


def published(headers: dict[str, Any], routing_key: str) -> Message:
    """Return the message that a client has published with these headers."""
    return Message("", routing_key, disowned(message_of(headers=headers).header), b"")


AT_LEAST_ONCE: dict[str, Any] = {
    "dead_letter_strategy": "at-least-once",
    "dead_letter_exchange": "",
    "dead_letter_routing_key": "dead",
}


def test_a_dead_letter_at_least_once_stays_until_there_is_a_queue_for_it() -> None:
    model = Model()
    source = model.queue("q", durable=True, message_ttl=10, **AT_LEAST_ONCE)
    for number in range(3):
        model.publish("q", b"%d" % number, delivery_mode=2)
    model.advance_time(0.01)
    model.advance_time(RETRY_S)
    model.flush()
    assert (len(source.ready), source.dying, source.dying_bytes, len(model.store.messages)) == (0, 3, 3, 3)
    assert model.env.departures.counts == {Departure.DEAD_LETTER_RETAINED: 3}
    dead = model.queue("dead", durable=True)
    model.advance_time(RETRY_S)
    model.flush()
    assert sorted(bodies(dead)) == [b"0", b"1", b"2"]
    assert (source.dying, source.dying_bytes) == (0, 0)
    assert {queue for queue, _ in model.store.messages} == {dead.queue_id}
    assert (model.memory.bytes > 0, model.timers.earliest() is None or not model.vhost._retained) == (True, True)


def test_a_dead_letter_that_can_be_routed_does_not_try_each_retained_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model, retained, routable = Model(), 20, 30
    model.vhost.declare_exchange("dlx", "direct", False, False, False, {})
    source = model.queue(
        "q", message_ttl=10, dead_letter_strategy="at-least-once", dead_letter_exchange="dlx"
    )  # fmt: skip
    dead, fanout = model.queue("dead"), model.vhost.find_exchange("amq.fanout")
    model.vhost.bind(fanout, source, "", {})
    model.vhost.bind(model.vhost.find_exchange("dlx"), dead, "good", {})
    attempts: list[Any] = []
    route = VirtualHost._route_dead_letter

    def count(vhost: VirtualHost, death: Any) -> bool:
        attempts.append(death)
        return route(vhost, death)

    monkeypatch.setattr(VirtualHost, "_route_dead_letter", count)
    for key in ["bad"] * retained + ["good"] * routable:
        model.publish(key, exchange="amq.fanout")
        model.advance_time(0.01)
    assert (len(dead.ready), source.dying) == (routable, retained)
    assert len(attempts) == retained + routable


def test_a_full_queue_keeps_dead_letters_at_least_once_and_the_limit_of_the_source_counts_them() -> None:
    model = Model()
    dead = model.queue("dead", max_length=1, overflow="reject-publish")
    source = model.queue("q", message_ttl=10, max_length=2, overflow="reject-publish", **AT_LEAST_ONCE)
    for _ in range(3):
        model.publish("q")
    model.advance_time(0.01)
    assert (len(dead.ready), source.dying) == (1, 1)
    assert [model.publish("q") for _ in range(2)] == [1, 0]
    entry = dead.get()
    assert entry is not None
    dead.settle([entry], Disposition.ACK)
    model.advance_time(RETRY_S)
    assert (len(dead.ready), source.dying) == (1, 1)


def test_dead_letters_at_least_once_end_with_their_queue() -> None:
    model = Model()
    source = model.queue("q", message_ttl=10, **AT_LEAST_ONCE)
    for _ in range(3):
        model.publish("q")
    model.advance_time(0.01)
    model.vhost.remove_queue(source)
    model.advance_time(RETRY_S)
    assert model.env.departures.counts[Departure.DEAD_LETTER_UNROUTED] == 3
    assert (model.memory.bytes, model.vhost._retained) == (0, {})


async def test_a_retained_dead_letter_survives_a_restart() -> None:
    model = Model()
    model.queue("q", durable=True, **AT_LEAST_ONCE)
    model.publish("q", b"kept", delivery_mode=2)
    queue = queue_of(model, "q")
    entry = queue.get()
    assert entry is not None
    queue.settle([entry], Disposition.REJECT)
    model.vhost.route_dead_letters()
    model.flush()
    assert bodies(queue_of(await after_restart(model, True), "q")) == [b"kept"]


def test_a_cycle_of_two_queues_without_rejection_drops_the_message() -> None:
    model = Model()
    model.queue("a", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="b")
    second = model.queue("b", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="a")
    model.publish("a", b"1")
    model.advance_time(0.01)
    assert bodies(second) == [b"1"]
    model.advance_time(0.01)
    assert (model.memory.bytes, bodies(second)) == (0, [])


def test_a_long_chain_of_full_queues_causes_no_deep_recursion() -> None:
    model = Model()
    for number in range(180):
        model.queue(f"q{number}", max_length=0, dead_letter_exchange="", dead_letter_routing_key=f"q{number + 1}")
    last = model.queue("q180")
    model.publish("q0", b"falls")
    assert bodies(last) == [b"falls"]
    assert len(read_deaths(next(iter(last.ready)).message)) == 100


def test_dead_letters_are_dropped_if_their_exchange_does_not_exist() -> None:
    model = Model()
    model.queue(max_length=0, dead_letter_exchange="nowhere")
    model.publish("q", b"1")
    assert model.memory.bytes == 0


@pytest.mark.parametrize("length", [3, 8, 13])
@pytest.mark.parametrize("cause", ["max_length", "message_ttl"])
@pytest.mark.usefixtures("few_deaths")
def test_a_cycle_of_any_length_ends(length: int, cause: str) -> None:
    model = Model()
    for number in range(length):
        after = f"q{(number + 1) % length}"
        limit: dict[str, Any] = {cause: 0}
        model.queue(f"q{number}", **limit, dead_letter_exchange="", dead_letter_routing_key=after)
    model.publish("q0", b"1")
    rounds = 0
    while model.memory.bytes:
        model.advance_time(0)
        rounds += 1
        assert rounds < 50
    assert model.memory.bytes == 0


def test_a_rejection_breaks_a_cycle_of_any_length(few_deaths: int) -> None:
    message = message_of()
    for number in range(3 * few_deaths):
        message = die(message, f"q{number}", MAXLEN)
    assert would_cycle(message, "new")
    assert not would_cycle(die(message, "q", REJECTED), "new")
    assert [death["queue"] for death in read_deaths(message)] == [f"q{number}" for number in range(14, 9, -1)]


@pytest.mark.parametrize("unused", [0, 10, 70, 200, 400])
def test_the_header_of_a_dead_letter_fits_into_a_frame(unused: int) -> None:
    """A longer header fits into no client's frames, so that the message would stop its queue."""
    headers = {"mine": "x" * (deadletter.HEADER_MAX - len(message_of(headers={"mine": ""}).header.raw) - unused)}
    message = message_of(headers=headers)
    assert len(message.header.raw) == deadletter.HEADER_MAX - unused
    for number in range(20):
        message = die(message, f"q{number}", EXPIRED)
        assert not would_cycle(message, "new")
        assert len(message.header.raw) <= deadletter.HEADER_MAX
        assert message.headers().get("mine") == (headers["mine"] if unused > 10 else None)
    if unused == 400:
        assert read_deaths(message)[0]["queue"] == "q19"


def test_a_message_without_room_for_its_deaths_does_not_circulate_for_ever() -> None:
    model = Model()
    for name, other in (("a", "b"), ("b", "a")):
        model.queue(name, max_length=0, dead_letter_exchange="", dead_letter_routing_key=other)
    model.publish("a", b"1", headers={"mine": "x" * (deadletter.HEADER_MAX - 60)})
    assert model.memory.bytes == 0


@pytest.mark.parametrize("count", [-(2**63), 2**63 - 1])
def test_a_count_of_a_client_does_not_overflow(count: int, few_deaths: int) -> None:
    deaths = [{"queue": f"q{number}", "reason": "rejected", "count": count} for number in range(few_deaths)]
    message = message_of(headers={"x-death": deaths, "x-deaths-forgotten": count})
    for queue in ("q0", "new"):
        message = die(message, queue, REJECTED)
    assert read_deaths(message)[1]["count"] > 0
    forgotten: Any = message.headers()["x-deaths-forgotten"]
    assert forgotten > 0
