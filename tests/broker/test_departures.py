"""Every way by which a message leaves without a consumer: what becomes of it, its counter, its line in the log."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.amqp.errors import AmqpError
from semq.broker.departures import DEPARTURES, OTHER_PLACES, PLACES_MAX, QUIET_S, Departure
from semq.broker.queues.message import QueueEntry
from semq.broker.queues.queue import Disposition, Queue
from semq.broker.vhost import RETRY_S
from tests.broker.pure import Model, bytes_of, message_of

ROOT = Path(__file__).parents[2]
NO_LOSSES = (Departure.DEAD_LETTERED, Departure.DEAD_LETTER_RETAINED)
LOSSES = [way for way in Departure if way not in NO_LOSSES]


def publish(model: Model, exchange: str = "", key: str = "q", *, mandatory: bool = False, **properties: Any) -> None:
    message = message_of(b"1", exchange, key, **properties)
    model.vhost.publish(model.vhost.find_exchange(exchange), message, mandatory)
    model.vhost.route_dead_letters()


def publish_to(model: Model, **arguments: Any) -> None:
    model.queue(**arguments)
    publish(model)


def reject(queue: Queue, disposition: Disposition = Disposition.REJECT) -> None:
    entry = queue.get()
    assert entry is not None
    queue.settle([entry], disposition)


def reach_delivery_limit(model: Model) -> None:
    queue = model.queue(delivery_limit=0)
    publish(model)
    reject(queue, Disposition.REQUEUE)


def reject_one(model: Model) -> None:
    queue = model.queue()
    publish(model)
    reject(queue)


def die_into(model: Model, **target: Any) -> None:
    """Let a message die in a queue whose dead-letter exchange leads to queue ``target``."""
    model.queue("target", **target)
    model.queue(max_length=0, dead_letter_exchange="", dead_letter_routing_key="target")
    publish(model)


def circulate(model: Model) -> None:
    model.queue(max_length=0, dead_letter_exchange="")
    publish(model)


def expire(model: Model) -> None:
    model.queue()
    publish(model, expiration="10")
    model.advance_time(0.01)


def retain(model: Model) -> None:
    model.queue(message_ttl=10, dead_letter_exchange="none", dead_letter_strategy="at-least-once")
    publish(model)
    model.advance_time(0.01)
    model.advance_time(RETRY_S)


def purge(model: Model) -> None:
    queue = model.queue()
    publish(model)
    queue.purge()


def delete(model: Model) -> None:
    queue = model.queue()
    publish(model)
    model.vhost.remove_queue(queue)


def end(model: Model) -> None:
    model.queue(durable=True)
    publish(model)
    publish(model, delivery_mode=2)
    model.vhost.note_transient()


def lose_a_row(model: Model) -> None:
    queue = model.queue(durable=True)
    page: Any = type("Page", (), {"count": 1, "bytes": 0, "is_gone": False})()
    queue.ready._lanes[0].pages.append(page)
    queue.ready._count = 1
    queue._page_read(queue.ready._lanes[0], page, [])


# What lets exactly one message leave on each way, and the place that the log names.
SCENES: dict[Departure, tuple[Callable[[Model], None], str]] = {
    Departure.UNROUTED: (lambda model: publish(model, "amq.fanout"), "exchange amq.fanout"),
    Departure.RETURNED: (lambda model: publish(model, mandatory=True), "the default exchange"),
    Departure.REFUSED: (
        lambda model: publish_to(model, max_length=0, overflow="reject-publish"),
        "queue q",
    ),
    Departure.EXPIRED: (expire, "queue q"),
    Departure.REJECTED: (reject_one, "queue q"),
    Departure.MAXLEN: (lambda model: publish_to(model, max_length=0), "queue q"),
    Departure.DELIVERY_LIMIT: (reach_delivery_limit, "queue q"),
    Departure.DEAD_LETTERED: (die_into, "queue q"),
    Departure.DEAD_LETTER_UNROUTED: (
        lambda model: publish_to(model, max_length=0, dead_letter_exchange="none"),
        "queue q",
    ),
    Departure.DEAD_LETTER_REFUSED: (
        lambda model: die_into(model, max_length=0, overflow="reject-publish"),
        "queue target",
    ),
    Departure.DEAD_LETTER_RETAINED: (retain, "queue q"),
    Departure.CYCLE: (circulate, "queue q"),
    Departure.PURGED: (purge, "queue q"),
    Departure.QUEUE_DELETED: (delete, "queue q"),
    Departure.TRANSIENT: (end, "queue q"),
    Departure.MISSING: (lose_a_row, "queue q"),
}


@pytest.mark.parametrize("way", Departure)
def test_each_departure_is_counted_once_and_logged(way: Departure, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "semq.broker")
    scene, place = SCENES[way]
    model = Model()
    scene(model)
    assert model.env.departures.counts == {way: 1}
    row = DEPARTURES[way]
    lines = [(record.levelno, record.getMessage().split(" (")[0]) for record in caplog.records]
    assert lines == ([] if row.level is None else [(row.level, f"{place} in vhost /: 1 message was {row.text}")])


def test_the_guide_for_applications_has_the_same_table() -> None:
    levels = {None: "–", logging.INFO: "info", logging.WARNING: "warning", logging.ERROR: "error"}
    rows = [f"| `{way.value}` | {row.text} | {levels[row.level]} |" for way, row in DEPARTURES.items()]
    text = (ROOT / "docs" / "applications" / "queues.md").read_text("utf-8")
    head = "| counter | the message is | log |\n|---|---|---|\n"
    assert text.partition(head)[2].partition("\n\n")[0].splitlines() == rows


def test_the_log_gets_the_first_departure_at_once_and_the_number_of_the_others_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Model()
    for _ in range(5):
        publish(model, key="nowhere\n")
    (record,) = caplog.records
    assert record.getMessage() == (
        "the default exchange in vhost /: 1 message was confirmed and dropped: no queue for it"
        " (routing key 'nowhere\\\\n')"
    )
    caplog.clear()
    for _ in range(3):
        model.advance_time(QUIET_S)
    (record,) = caplog.records
    assert record.getMessage().endswith("4 messages were confirmed and dropped: no queue for it within 60 s")
    assert model.timers.earliest() is None
    publish(model)
    assert len(caplog.records) == 2


def test_the_number_of_places_in_memory_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    model = Model()
    for number in range(PLACES_MAX + 10):
        model.env.departures.note(Departure.CYCLE, f"queue q{number}")
    model.env.departures.log_rest()
    assert len(caplog.records) == PLACES_MAX + 2
    assert OTHER_PLACES in caplog.records[PLACES_MAX].getMessage()
    assert caplog.records[-1].getMessage().startswith(f"{OTHER_PLACES} in vhost /: 9 messages")


# Random topologies.

QUEUES, EXCHANGES = ["q0", "q1", "q2"], ["e0", "e1", "e2"]
TARGETS = ["", *EXCHANGES, "none"]
arguments = st.fixed_dictionaries(
    {},
    optional={
        "message_ttl": st.sampled_from([0, 10]),
        "max_length": st.integers(0, 2),
        "overflow": st.sampled_from(["drop-head", "reject-publish", "reject-publish-dlx"]),
        "delivery_limit": st.integers(0, 1),
    },
)
dead_letters = st.fixed_dictionaries(
    {},
    optional={
        "dead_letter_exchange": st.sampled_from(TARGETS),
        "dead_letter_strategy": st.sampled_from(["at-most-once", "at-least-once"]),
    },
) | st.fixed_dictionaries(
    {"dead_letter_exchange": st.sampled_from(TARGETS), "dead_letter_routing_key": st.sampled_from([*QUEUES, "nowhere"])}
)
exchanges = st.tuples(st.sampled_from(["direct", "fanout", "topic"]), st.none() | st.sampled_from(TARGETS))
bindings = st.lists(
    st.tuples(st.sampled_from(EXCHANGES), st.sampled_from([*QUEUES, *EXCHANGES]), st.sampled_from(QUEUES)), max_size=6
)
deaths = st.lists(
    st.fixed_dictionaries({"queue": st.sampled_from(QUEUES), "reason": st.sampled_from(["expired", "rejected"])}),
    max_size=2,
)
actions = st.lists(
    st.tuples(
        st.just("publish"),
        st.sampled_from(["", *EXCHANGES]),
        st.sampled_from([*QUEUES, "nowhere"]),
        st.fixed_dictionaries(
            {
                "headers": st.fixed_dictionaries(
                    {}, optional={"CC": st.lists(st.sampled_from(QUEUES)), "x-death": deaths}
                )
            },
            optional={"expiration": st.sampled_from(["0", "10"])},
        ),
    )
    | st.tuples(st.sampled_from(["get", "purge", "delete"]), st.sampled_from(QUEUES))
    | st.tuples(st.just("settle"), st.sampled_from(Disposition))
    | st.tuples(st.just("wait"), st.sampled_from([0.0, 0.01, RETRY_S])),
    max_size=12,
)


class Topology:
    """A virtual host with random definitions, and what became of its messages."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.unacked: list[tuple[Queue, QueueEntry]] = []
        self.published = 0
        self.acked: set[bytes] = set()
        self.left: set[bytes] = set()

    def present(self) -> set[bytes]:
        queues = (queue for queue in self.model.vhost.queues.values() if isinstance(queue, Queue))
        waiting = (entry for queue in queues for entry in queue.ready)
        retained = (death.entry for deaths in self.model.vhost._retained.values() for death in deaths if death.entry)
        return {bytes_of(entry) for entry in (*waiting, *retained, *(entry for _, entry in self.unacked))}

    def all(self) -> Iterator[bytes]:
        return (b"%d" % number for number in range(self.published))

    def losses(self) -> int:
        return sum(self.model.env.departures.counts[way] for way in LOSSES)

    def publish(self, exchange: str, key: str, properties: dict[str, Any]) -> None:
        message = message_of(b"%d" % self.published, exchange, key, **properties)
        self.published += 1
        self.model.vhost.publish(self.model.vhost.find_exchange(exchange), message)

    def get(self, name: str) -> None:
        queue = self.model.vhost.queues.get(name)
        if isinstance(queue, Queue) and (entry := queue.get()) is not None:
            self.unacked.append((queue, entry))

    def settle(self, disposition: Disposition) -> None:
        if self.unacked:
            queue, entry = self.unacked.pop(0)
            if disposition is Disposition.ACK:
                self.acked.add(bytes_of(entry))
            queue.settle([entry], disposition)

    def purge(self, name: str) -> None:
        queue = self.model.vhost.queues.get(name)
        if isinstance(queue, Queue):
            queue.purge()

    def delete(self, name: str) -> None:
        queue = self.model.vhost.queues.get(name)
        if isinstance(queue, Queue):
            self.model.vhost.remove_queue(queue)

    def wait(self, seconds: float) -> None:
        self.model.advance_time(seconds)


@given(
    st.tuples(*(st.tuples(arguments, dead_letters) for _ in QUEUES)),
    st.tuples(*(exchanges for _ in EXCHANGES)),
    bindings,
    actions,
)
def test_every_confirmed_message_arrives_or_its_departure_is_counted(
    of_queues: tuple[Any, ...], of_exchanges: tuple[Any, ...], bound: list[Any], done: list[Any]
) -> None:
    model = Model()
    for name, (kind, alternate) in zip(EXCHANGES, of_exchanges, strict=True):
        table = {} if alternate is None else {"alternate-exchange": alternate}
        model.vhost.declare_exchange(name, kind, False, False, False, table)
    for name, (limits, dead) in zip(QUEUES, of_queues, strict=True):
        if dead.get("dead_letter_strategy") == "at-least-once" and "max_length" in limits:
            limits = {**limits, "overflow": "reject-publish"}
        model.queue(name, **limits, **dead)
    for source, destination, key in bound:
        ends = model.vhost.exchanges | model.vhost.queues
        model.vhost.bind(model.vhost.find_exchange(source), ends[destination], key, {})
    topology = Topology(model)
    for name, *facts in done:
        gone_before = set(topology.all()) - topology.present() - topology.acked
        losses_before = topology.losses()
        getattr(topology, name)(*facts)
        model.vhost.route_dead_letters()
        gone = set(topology.all()) - topology.present() - topology.acked - gone_before
        assert topology.losses() - losses_before >= len(gone)


def test_a_message_that_no_queue_may_take_is_refused_and_not_counted() -> None:
    model = Model()
    with pytest.raises(AmqpError):
        model.vhost.publish(model.vhost.find_exchange(""), message_of(headers={"CC": "text"}))
    assert not model.env.departures.counts
