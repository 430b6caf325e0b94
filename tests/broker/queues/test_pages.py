"""Messages of a long queue leave memory and return."""

from array import array
from typing import Any

import pytest

from semq.amqp.content import ContentHeader, Properties
from semq.broker.queues import pages
from semq.broker.queues.bodies import StoredBody
from semq.broker.queues.message import Message, QueueEntry
from semq.broker.queues.queue import Disposition, Queue
from semq.errors import Unavailable
from semq.store.broker.operations import StoredBacklog
from tests.broker.durable.test_restoration import after_restart, queue_of
from tests.broker.pure import Model, RecordingConsumer, bytes_of

PERSISTENT, TRANSIENT = 2, 1


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pages", "ready"):
        monkeypatch.setattr(f"semq.broker.queues.{module}.PAGE", 4)


def filled(count: int, mode: int = PERSISTENT, **arguments: Any) -> tuple[Model, Queue]:
    """Return a model, and its queue with a window of five and ``count`` numbered messages."""
    model = Model(window=5)
    queue = model.queue("q", durable=True, **arguments)
    for number in range(count):
        model.publish("q", b"%d" % number, delivery_mode=mode)
        model.flush()
    return model, queue


def drain(model: Model, queue: Queue, room: int = 3) -> list[int]:
    """Return all bodies in the order in which a consumer that acknowledges immediately gets them."""
    consumer = RecordingConsumer(room)
    queue.subscribe(consumer, False)
    queue.pump()
    while consumer.unacked or len(queue.ready):
        consumer.settle(queue, 1, Disposition.ACK)
        model.flush()
    return [int(body) for body in consumer.bodies]


@pytest.mark.parametrize("mode", [PERSISTENT, TRANSIENT])
def test_a_long_queue_leaves_memory_and_comes_back_in_order(mode: int) -> None:
    model, queue = filled(100, mode)
    assert len(queue.ready) == 100
    assert sum(1 for _ in queue.ready) < 5 + 2 * 4
    assert model.memory.bytes == sum(entry.message.weight for entry in queue.ready)
    assert queue.ready.bytes == 190
    assert drain(model, queue) == list(range(100))
    assert (len(queue.ready), queue.ready.bytes, queue.ready.paged_bytes, model.memory.bytes) == (0, 0, 0, 0)
    assert (model.store.messages, model.store.bodies) == ({}, {})


def test_persistent_transient_and_large_messages_in_one_queue_keep_their_order() -> None:
    model = Model(window=5)
    queue = model.queue("q", durable=True)
    for number in range(60):
        body: Any = b"%d" % number
        if number % 7 == 0:
            body = StoredBody(model.bodies, model.bodies.new_id(), 9)
        header = ContentHeader.build(len(body), Properties(delivery_mode=number % 2 + 1, message_id=str(number)))
        model.vhost.send(Message("", "q", header, body), [queue])
        model.flush()
    numbers = []
    while len(queue.ready):
        entry = queue.get()
        if entry is not None:
            numbers.append(int(entry.message.header.message_id or ""))
            queue.settle([entry], Disposition.ACK)
        model.flush()
    assert numbers == list(range(60))


def test_later_messages_of_higher_priority_are_delivered_first() -> None:
    model = Model(window=5)
    queue = model.queue("q", durable=True, max_priority=3)
    for number in range(90):
        model.publish("q", b"%d" % number, delivery_mode=number % 2 + 1, priority=number % 3)
        model.flush()
    assert drain(model, queue, 1) == sorted(range(90), key=lambda number: (-(number % 3), number))


def test_messages_for_a_consumer_that_never_acknowledges_leave_the_store() -> None:
    model, queue = filled(3)
    assert model.store.messages
    queue.subscribe(RecordingConsumer(no_ack=True), False)
    queue.pump()
    model.flush()
    assert (model.store.messages, model.memory.bytes) == ({}, 0)


def test_returned_messages_precede_those_that_are_only_in_the_store() -> None:
    model, queue = filled(40)
    unacked: list[QueueEntry] = []
    while len(unacked) < 9:
        entry = queue.get()
        unacked += [entry] if entry is not None else []
        model.flush()
    queue.settle(reversed(unacked), Disposition.REQUEUE)
    assert drain(model, queue) == list(range(40))


def test_a_returned_message_does_not_wait_for_those_that_are_only_in_the_store() -> None:
    _, queue = filled(40)
    taken: list[QueueEntry] = []
    while (entry := queue.get()) is not None:  # until a page has to be read
        taken.append(entry)
    queue.settle([taken[0]], Disposition.REQUEUE)
    assert queue.get() is taken[0]


def test_a_limit_drops_the_oldest_and_dead_letters_them() -> None:
    model = Model(window=5)
    queue = model.queue("q", max_length=30, dead_letter_exchange="", dead_letter_routing_key="dead")
    dead = model.queue("dead")
    for number in range(80):
        model.publish("q", b"%d" % number)
        model.flush()
    assert (len(queue.ready), len(dead.ready)) == (30, 50)
    assert drain(model, queue) == list(range(50, 80))
    assert drain(model, dead) == list(range(50))


def test_messages_that_are_only_in_the_store_expire() -> None:
    model, queue = filled(50, message_ttl=1000, dead_letter_exchange="", dead_letter_routing_key="dead")
    dead = model.queue("dead")
    model.advance_time(2)
    for _ in range(40):  # page by page, as the store answers
        model.flush()
        model.advance_time(0)
    assert (len(queue.ready), len(dead.ready)) == (0, 50)
    assert drain(model, dead) == list(range(50))


@pytest.mark.parametrize("mode", [PERSISTENT, TRANSIENT])
@pytest.mark.parametrize("act", [Queue.purge, Queue.delete])
def test_purge_and_delete_leave_nothing_behind(act: Any, mode: int) -> None:
    model, queue = filled(100, mode)
    assert act(queue) == 100
    model.flush()
    assert (model.store.messages, model.store.bodies, model.memory.bytes, len(queue.ready)) == ({}, {}, 0, 0)


def test_a_get_waits_for_messages_that_are_not_in_memory() -> None:
    model, queue = filled(30)
    received: list[int] = []

    def ask() -> None:
        entry = queue.get()
        if entry is None and len(queue.ready):
            queue.read_waiters.append(ask)
        elif entry is not None:
            received.append(int(bytes_of(entry)))

    for _ in range(30):
        ask()
    assert len(received) < 30
    model.flush()
    assert received == list(range(30))


def test_a_page_stays_in_memory_while_the_store_is_away() -> None:
    model, queue = filled(0)
    model.store.failure = StoreAway()
    for number in range(50):
        model.publish("q", b"%d" % number, delivery_mode=PERSISTENT)
        model.flush()
    assert sum(1 for _ in queue.ready) == 50
    model.store.failure = None
    model.flush()
    assert drain(model, queue) == list(range(50))


class StoreAway(Unavailable):
    code = "SEMQ-3999"


def test_a_failed_read_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    model, queue = filled(30)
    consumer = RecordingConsumer(30)
    queue.subscribe(consumer, False)
    model.store.failure = StoreAway()
    queue.pump()
    model.later.run()
    assert len(consumer.bodies) < 30
    model.store.failure = None
    model.advance_time(pages.RETRY_S)
    model.flush()
    assert [int(body) for body in consumer.bodies] == list(range(30))
    assert "will be repeated" in caplog.text


def test_missing_rows_are_reported_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    model, queue = filled(30)
    del model.store.messages[queue.queue_id, 12]
    assert drain(model, queue) == [*range(11), *range(12, 30)]
    assert len(queue.ready) == queue.ready.bytes == 0
    assert "queue q in vhost /: 1 message was missing in the store" in caplog.text


@pytest.mark.parametrize("is_orderly", [True, False])
async def test_after_a_restart_a_page_is_read_shortly_before_its_turn(is_orderly: bool) -> None:
    first, _ = filled(60)
    first.store.eager = 7
    model = await after_restart(first, is_orderly, window=5)
    queue = queue_of(model, "q")
    assert len(queue.ready) == 60
    assert sum(1 for _ in queue.ready) < 20
    model.publish("q", b"60", delivery_mode=PERSISTENT)
    consumer = RecordingConsumer(99)
    queue.subscribe(consumer, False)
    queue.pump()
    model.flush()
    assert [int(body) for body in consumer.bodies] == list(range(61))
    assert [entry.deliveries for entry in consumer.unacked] == [int(not is_orderly)] * 60 + [0]


def test_a_page_of_a_backlog_has_messages_of_one_lane() -> None:
    backlog = StoredBacklog()
    for position in range(1, 12):
        backlog.add(position, position % 2 * 9, 10)
    contents = [(priority, page.rows, page.bytes) for priority, page in pages.pages_of(backlog, 5)]
    assert sorted(contents, key=lambda row: (row[0], row[1][0])) == [
        (0, array("q", [2, 4, 6, 8]), 40),
        (0, array("q", [10]), 10),
        (5, array("q", [1, 3, 5, 7]), 40),
        (5, array("q", [9, 11]), 20),
    ]


def test_a_transient_page_is_one_body_of_the_store() -> None:
    model, _ = filled(30, TRANSIENT)
    assert model.store.messages == {}
    assert len(model.store.bodies) == 30 // 4 - 1
