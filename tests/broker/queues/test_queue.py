"""One queue, compared with a plain list; and each of its arguments that has an effect."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from semq.broker.queues.message import QueueEntry
from semq.broker.queues.queue import Disposition
from semq.store.broker.operations import MarkHandedOut
from tests.broker.pure import Model, RecordingConsumer, bodies, message_of

ACK, REQUEUE, REJECT = Disposition.ACK, Disposition.REQUEUE, Disposition.REJECT


@dataclass
class ReferenceRow:
    position: int
    body: bytes
    expires_at: float | None
    persistent: bool
    weight: int
    deliveries: int = field(default=0)


class QueueAgainstAList(RuleBasedStateMachine):
    """A queue compared with a sorted list, which predicts the result."""

    @initialize(limit=st.none() | st.integers(0, 4), ttl=st.none() | st.integers(0, 5000), durable=st.booleans())
    def begin(self, limit: int | None, ttl: int | None, durable: bool) -> None:
        self.model = Model()
        limits = {"max_length": limit, "message_ttl": ttl}
        arguments: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
        self.queue = self.model.queue("q", durable, None, **arguments)
        self.limit, self.ttl, self.durable = limit, ttl, durable
        self.consumer: RecordingConsumer | None = None
        self.waiting: list[ReferenceRow] = []
        self.unacked: list[ReferenceRow] = []
        self.got_entries: list[tuple[ReferenceRow, object]] = []
        self.position = 0

    def expire(self) -> None:
        """Remove expired messages at the head; expired messages behind a live one stay."""
        self.waiting.sort(key=lambda row: row.position)
        now = self.model.clock.now
        while self.waiting and self.waiting[0].expires_at is not None and self.waiting[0].expires_at <= now:
            del self.waiting[0]

    def apply_actions(self) -> None:
        """Predict what the queue does without a request: deliver, then apply the limit."""
        self.waiting.sort(key=lambda row: row.position)
        while self.waiting and self.consumer is not None and self.room > 0:
            self.expire()
            if self.waiting:
                self.room -= 1
                self.unacked.append(self.waiting.pop(0))
                self.expire()
        while self.limit is not None and len(self.waiting) > self.limit:
            del self.waiting[0]

    @rule(size=st.integers(0, 5), expiration=st.none() | st.integers(0, 9000), persistent=st.booleans())
    def publish(self, size: int, expiration: int | None, persistent: bool) -> None:
        self.position += 1
        body = b"%d" % self.position + b"." * size
        lifetimes = [ms for ms in (self.ttl, expiration) if ms is not None]
        expires_at = self.model.clock.now + min(lifetimes) / 1000 if lifetimes else None
        properties: dict[str, Any] = {} if expiration is None else {"expiration": str(expiration)}
        properties["delivery_mode"] = 2 if persistent else 1
        row = ReferenceRow(self.position, body, expires_at, persistent, message_of(body, "", "q", **properties).weight)
        if self.consumer is not None and self.room > 0 and not self.waiting:
            self.room -= 1
            self.unacked.append(row)
        else:
            self.waiting.append(row)
        self.model.publish("q", body, **properties)
        self.apply_actions()

    @precondition(lambda self: self.consumer is None)
    @rule(room=st.integers(0, 3))
    def consume(self, room: int) -> None:
        self.consumer, self.room = RecordingConsumer(room), room
        self.queue.subscribe(self.consumer, False)
        self.queue.pump()
        self.apply_actions()

    @precondition(lambda self: self.consumer is not None)
    @rule(disposition=st.sampled_from([REQUEUE, ACK]))
    def cancel(self, disposition: Disposition) -> None:
        assert self.consumer is not None
        self.queue.unsubscribe(self.consumer)
        self.queue.settle(self.consumer.unacked, disposition)
        self.consumer = None
        returned, self.unacked = self.unacked, []
        if disposition is REQUEUE:
            self.return_rows(returned)

    def return_rows(self, rows: list[ReferenceRow]) -> None:
        for row in rows:
            row.deliveries += 1
        self.waiting += rows
        self.apply_actions()

    @precondition(lambda self: self.unacked)
    @rule(data=st.data(), disposition=st.sampled_from([ACK, REQUEUE, REJECT]))
    def settle(self, data: st.DataObject, disposition: Disposition) -> None:
        assert self.consumer is not None
        count = data.draw(st.integers(1, len(self.unacked)))
        settled, self.unacked = self.unacked[:count], self.unacked[count:]
        # Messages are requeued first: the same consumer may get them again.
        self.return_rows(settled) if disposition is REQUEUE else None
        self.room += count
        self.apply_actions()
        self.consumer.settle(self.queue, count, disposition)

    @rule()
    def get(self) -> None:
        self.expire()
        entry = self.queue.get()
        assert (entry is None) == (not self.waiting)
        if entry is not None:
            row = self.waiting.pop(0)
            assert (entry.message.body, entry.deliveries) == (row.body, row.deliveries)
            self.got_entries.append((row, entry))
            self.expire()

    @precondition(lambda self: self.got_entries)
    @rule(disposition=st.sampled_from([ACK, REQUEUE]))
    def settle_got_entry(self, disposition: Disposition) -> None:
        row, entry = self.got_entries.pop(0)
        self.queue.settle([entry], disposition)  # type: ignore[list-item]
        if disposition is REQUEUE:
            self.return_rows([row])

    @rule()
    def purge(self) -> None:
        assert self.queue.purge() == len(self.waiting)
        self.waiting = []

    @rule(seconds=st.sampled_from([0.5, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.model.advance_time(seconds)
        self.expire()

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "model"):
            return
        assert bodies(self.queue) == [row.body for row in sorted(self.waiting, key=lambda row: row.position)]
        unacked = self.consumer.unacked if self.consumer is not None else []
        assert [entry.message.body for entry in unacked] == [row.body for row in self.unacked]
        assert self.queue.unacked == len(self.unacked) + len(self.got_entries)
        everything = self.waiting + self.unacked + [row for row, _ in self.got_entries]
        assert self.model.memory.bytes == sum(row.weight for row in everything)
        self.model.flush()
        stored = {op.body: op.delivery_count for op in self.model.store.messages.values()}
        surviving = [row for row in everything if row.persistent and self.durable]
        # One delivery is recorded by ``MarkHandedOut`` of the queue, so only higher counts are stored.
        assert stored == {row.body: row.deliveries if row.deliveries > 1 else 0 for row in surviving}


QueueAgainstAList.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAgainstAList = QueueAgainstAList.TestCase


def test_requeued_messages_return_to_their_original_positions() -> None:
    model = Model()
    queue, first, second = model.queue(), RecordingConsumer(2), RecordingConsumer(2)
    for body in (b"1", b"2", b"3", b"4", b"5"):
        model.publish("q", body)
    for consumer in (first, second):
        queue.subscribe(consumer, False)
        queue.pump()
    second.room = first.room = -9
    queue.settle(second.unacked, REQUEUE)
    queue.settle(first.unacked[1:], REQUEUE)
    assert bodies(queue) == [b"2", b"3", b"4", b"5"]


def test_consumers_of_the_highest_priority_take_turns() -> None:
    model = Model()
    queue, high = model.queue(), RecordingConsumer(1, priority=5)
    first, second = RecordingConsumer(), RecordingConsumer()
    for consumer in (first, high, second):
        queue.subscribe(consumer, False)
    for body in (b"1", b"2", b"3", b"4", b"5"):
        model.publish("q", body)
    assert high.bodies == [b"1"]
    assert first.bodies == [b"2", b"4"]
    assert second.bodies == [b"3", b"5"]


def test_a_single_active_consumer_is_followed_by_the_next() -> None:
    model = Model()
    queue = model.queue(single_active_consumer=True)
    first, second = RecordingConsumer(1), RecordingConsumer()
    queue.subscribe(first, False)
    queue.subscribe(second, False)
    model.publish("q", b"1")
    model.publish("q", b"2")
    assert (first.bodies, second.bodies) == ([b"1"], [])
    queue.unsubscribe(first)
    assert second.bodies == [b"2"]


def test_a_message_for_a_consumer_without_acknowledgements_is_never_stored() -> None:
    model = Model()
    queue = model.queue(durable=True)
    queue.subscribe(RecordingConsumer(no_ack=True), False)
    model.publish("q", b"1", delivery_mode=2)
    model.flush()
    assert model.store.messages == {}
    assert model.memory.bytes == 0


def test_deliveries_are_marked_once_per_turn_and_queue() -> None:
    model = Model()
    queue = model.queue(durable=True)
    queue.subscribe(RecordingConsumer(), False)
    for _ in range(3):
        model.publish("q", b"1", delivery_mode=2)
    ops = model.journal._take_ops()
    assert [op for op in ops if isinstance(op, MarkHandedOut)] == [MarkHandedOut(queue.queue_id, 3)]


@pytest.mark.parametrize(
    ("overflow", "remaining"), [("reject-publish", b"12"), ("reject-publish-dlx", b"12"), ("drop-head", b"23")]
)
def test_a_full_queue_drops_or_rejects_as_its_argument_demands(overflow: str, remaining: bytes) -> None:
    model = Model()
    dead = model.queue("dead")
    queue = model.queue(max_length=2, overflow=overflow, dead_letter_exchange="", dead_letter_routing_key="dead")
    sent = [model.publish("q", body) for body in (b"1", b"2", b"3")]
    assert b"".join(bodies(queue)) == remaining
    assert sent == ([1, 1, 1] if overflow == "drop-head" else [1, 1, 0])
    assert bodies(dead) == {"drop-head": [b"1"], "reject-publish": [], "reject-publish-dlx": [b"3"]}[overflow]


def test_a_message_refused_by_a_queue_without_dead_letter_exchange_reaches_no_other_queue() -> None:
    model = Model()
    full, namesake = model.queue("full", max_length=0, overflow="reject-publish-dlx"), model.queue("k")
    model.vhost.bind(model.vhost.exchanges["amq.direct"], full, "k", {})
    assert model.publish("k", b"1", "amq.direct") == 0
    assert (bodies(full), bodies(namesake)) == ([], [])


def test_a_limit_in_bytes_is_observed() -> None:
    model = Model()
    queue = model.queue(max_length_bytes=5)
    for body in (b"aaa", b"bb", b"cc", b"toolong"):
        model.publish("q", body)
        assert queue.ready.bytes <= 5
    assert bodies(queue) == []


def test_messages_of_the_lowest_priority_are_dropped_first() -> None:
    model = Model()
    queue = model.queue(max_length=2, max_priority=5)
    for body, priority in ((b"high", 5), (b"low", 1), (b"middle", 3)):
        model.publish("q", body, priority=priority)
    assert bodies(queue) == [b"high", b"middle"]


def test_priorities_above_the_highest_count_as_the_highest() -> None:
    model = Model()
    queue = model.queue(max_priority=2)
    for body, priority in ((b"none", 0), (b"two", 2), (b"nine", 9), (b"one", 1)):
        model.publish("q", body, priority=priority)
    assert bodies(queue) == [b"two", b"nine", b"one", b"none"]


def test_a_message_that_fails_too_often_is_dead_lettered() -> None:
    model = Model()
    dead = model.queue("dead")
    queue = model.queue(delivery_limit=1, dead_letter_exchange="", dead_letter_routing_key="dead")
    model.publish("q", b"poison")
    for _ in range(2):
        entry = queue.get()
        assert entry is not None
        queue.settle([entry], REQUEUE)
    model.vhost.route_dead_letters()
    assert (bodies(queue), bodies(dead)) == ([], [b"poison"])


def test_a_message_expires_only_at_the_head_of_its_queue() -> None:
    model = Model()
    queue = model.queue()
    model.publish("q", b"later", expiration="5000")
    model.publish("q", b"sooner", expiration="1000")
    model.advance_time(2)
    assert bodies(queue) == [b"later", b"sooner"]
    model.advance_time(3)
    assert bodies(queue) == []
    model.publish("q", b"never")
    model.publish("q", b"behind", expiration="1")
    assert queue.get() is not None
    model.advance_time(1)
    assert bodies(queue) == []


def test_an_expired_message_that_becomes_the_head_through_a_length_limit_expires() -> None:
    model = Model()
    queue = model.queue(max_length=2)
    model.publish("q", b"1")
    model.publish("q", b"dead behind it", expiration="0")
    model.advance_time(1)
    model.publish("q", b"3")
    model.advance_time(1)
    assert bodies(queue) == [b"3"]


def test_a_message_with_a_time_to_live_of_zero_reaches_only_waiting_consumers() -> None:
    model = Model()
    queue, consumer = model.queue(message_ttl=0), RecordingConsumer(1)
    queue.subscribe(consumer, False)
    model.publish("q", b"1")
    model.publish("q", b"2")
    model.advance_time(0)
    assert (consumer.bodies, bodies(queue)) == ([b"1"], [])


def test_an_unused_queue_expires_and_a_used_one_does_not() -> None:
    model = Model()
    queue, consumer = model.queue(expires=1000), RecordingConsumer()
    model.advance_time(0.6)
    queue.get()
    model.advance_time(0.6)
    assert "q" in model.vhost.queues
    queue.subscribe(consumer, False)
    model.advance_time(5)
    assert "q" in model.vhost.queues
    queue.unsubscribe(consumer)
    model.advance_time(0.9)
    assert "q" in model.vhost.queues
    model.advance_time(0.2)
    assert "q" not in model.vhost.queues


def test_a_deletion_cancels_consumers_and_forgets_unacknowledged_messages() -> None:
    model = Model()
    queue, consumer = model.queue(durable=True, message_ttl=1000, expires=1000), RecordingConsumer(1)
    queue.subscribe(consumer, True)
    for body in (b"1", b"2"):
        model.publish("q", body, delivery_mode=2)
    assert model.vhost.remove_queue(queue) == (1, True)
    assert consumer.is_cancelled
    consumer.settle(queue, 1, ACK)
    queue.settle([], REQUEUE)
    model.advance_time(9)
    model.flush()
    assert (model.store.queues, model.store.messages, model.memory.bytes) == ({}, {}, 0)


def test_a_restored_message_keeps_its_position_and_its_deliveries() -> None:
    model = Model()
    queue = model.queue(durable=True)
    old = QueueEntry(message_of(b"old"), 7, 2000.0)
    old.deliveries = 2
    queue.restore(old, None)
    model.publish("q", b"new")
    entry = queue.get()
    assert entry is not None
    assert (entry.message.body, entry.position, entry.deliveries) == (b"old", 7, 2)
    assert bodies(queue) == [b"new"]


def test_the_confirm_of_a_message_for_a_consumer_without_acknowledgements_waits_for_no_commit() -> None:
    model = Model()
    queue, consumer = model.queue(durable=True), RecordingConsumer(no_ack=True)
    queue.subscribe(consumer, False)
    message = message_of(b"1", "", "q", delivery_mode=2)
    assert not model.vhost.send(message, [queue]).must_be_stored
    assert (consumer.bodies, model.memory.bytes) == ([b"1"], 0)


def test_a_message_returned_after_its_expiry_expires() -> None:
    model = Model()
    dead = model.queue("dead")
    queue = model.queue(message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="dead")
    model.publish("q", b"1")
    entry = queue.get()
    assert entry is not None
    model.advance_time(1)
    queue.settle([entry], Disposition.REQUEUE)
    model.advance_time(0)
    assert (bodies(queue), bodies(dead)) == ([], [b"1"])
