"""Changes made while the store is unavailable are written later."""

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semq.broker.durable import unwritten as module
from semq.broker.durable.restoration import restore
from semq.broker.durable.unwritten import UnwrittenOps
from semq.broker.queues.bodies import Bodies
from semq.broker.queues.message import QueueEntry
from semq.broker.queues.queue import Disposition, Queue
from semq.errors import Unavailable
from semq.store.broker.operations import (
    AddBodyChunk,
    AddMessage,
    DeclareQueue,
    DeleteQueue,
    DropBody,
    DropMessages,
    MarkHandedOut,
    SetDeliveryCount,
    StoreOp,
)
from tests.broker.memory_store import MemoryBrokerStore
from tests.broker.pure import DelayedCalls, Model, bytes_of

DEAD = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "get", "ack", "requeue", "reject", "purge", "redeclare_dead"]), st.booleans()
    ),
    max_size=40,
)


class QueueAndClient:
    """A queue, its dead-letter queue, and the messages that a client has not settled."""

    def __init__(self) -> None:
        self.model = Model()
        self.published = 0
        self.unacked: list[tuple[Queue, QueueEntry]] = []
        self.declare()

    def declare(self) -> None:
        self.dead = self.model.queue("dead", durable=True)
        self.queue = self.model.queue("q", durable=True, **DEAD)

    def publish(self) -> None:
        self.published += 1
        self.model.publish("q", b"%d" % self.published, delivery_mode=2)

    def get(self) -> None:
        for queue in (self.dead, self.queue):
            entry = queue.get()
            if entry is not None:
                self.unacked.append((queue, entry))
                return

    def settle(self, disposition: Disposition) -> None:
        if self.unacked:
            queue, entry = self.unacked.pop(0)
            queue.settle([entry], disposition)
            self.model.vhost.route_dead_letters()

    def ack(self) -> None:
        self.settle(Disposition.ACK)

    def requeue(self) -> None:
        self.settle(Disposition.REQUEUE)

    def reject(self) -> None:
        self.settle(Disposition.REJECT)

    def purge(self) -> None:
        self.queue.purge()

    def redeclare_dead(self) -> None:
        """Delete the dead-letter queue with its unacknowledged messages, and declare it again."""
        self.unacked = [(queue, entry) for queue, entry in self.unacked if queue is not self.dead]
        self.model.vhost.remove_queue(self.dead)
        self.declare()

    def contents(self) -> dict[str, list[tuple[bytes, bool]]]:
        """Return for each queue the sorted bodies of its messages, each with whether it may have been delivered."""
        return {queue.name: sorted(_entries_of(queue, self.unacked)) for queue in (self.queue, self.dead)}


def _entries_of(queue: Queue, unacked: list[tuple[Queue, QueueEntry]]) -> list[tuple[bytes, bool]]:
    entries = [*queue.ready, *(entry for source, entry in unacked if source is queue)]
    return [(bytes_of(entry), bool(entry.deliveries) or entry not in queue.ready) for entry in entries]


async def restarted(store: MemoryBrokerStore) -> Model:
    model = Model(store, DelayedCalls())
    restore(await store.load(), {"/": model.vhost}, Bodies(store, model.journal))
    return model


@given(STEPS)
@settings(deadline=None, max_examples=200)
async def test_a_restart_restores_the_changes_made_while_the_store_was_away(steps: list[tuple[str, bool]]) -> None:
    subject = QueueAndClient()
    for step, is_away in steps:
        subject.model.store.failure = Unavailable() if is_away else None
        getattr(subject, step)()
        subject.model.flush()
    subject.model.store.failure = None
    subject.model.flush()
    assert not subject.model.journal._unwritten
    contents, model = subject.contents(), await restarted(subject.model.store)
    for name, expected in contents.items():
        queue = model.vhost.queues[name]
        assert isinstance(queue, Queue)
        restored = {bytes_of(entry): bool(entry.deliveries) for entry in queue.ready}
        assert sorted(restored) == [body for body, _ in expected]
        assert all(restored[body] for body, may_be_delivered in expected if may_be_delivered)


def row(position: int, body: bytes = b"body") -> AddMessage:
    return AddMessage(1, position, "", "q", 0, None, 0, b"", body)


def test_operations_are_written_in_an_order_that_loses_nothing() -> None:
    unwritten, queue = UnwrittenOps(), DeclareQueue(1, "/", "q", False, b"")
    assert not unwritten
    unwritten.keep([DropBody(9), MarkHandedOut(1, 2), DropMessages(1, [1]), SetDeliveryCount(1, 2, 3), row(2), queue])
    unwritten.keep([AddBodyChunk(3, 0, b"its sender got an error")])
    assert unwritten
    assert list(unwritten.take()) == [
        [queue],
        [DropMessages(1, [2]), row(2)],
        [SetDeliveryCount(1, 2, 3), MarkHandedOut(1, 2)],
        [DropMessages(1, [1])],
        [DropBody(9)],
    ]
    assert not unwritten


def test_operations_of_settled_messages_are_forgotten_and_others_keep_their_order() -> None:
    unwritten, repeated = UnwrittenOps(), DeclareQueue(1, "/", "q", False, b"")
    other = DeclareQueue(2, "/", "r", False, b"")
    unwritten.keep([repeated, other, row(1), SetDeliveryCount(1, 1, 1), MarkHandedOut(1, 5), DropMessages(1, [1])])
    unwritten.keep([MarkHandedOut(1, 3), repeated])
    assert list(unwritten.take()) == [[other, repeated], [MarkHandedOut(1, 5)], [DropMessages(1, [1])]]


def test_lists_are_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIST_BYTES", 10)
    monkeypatch.setattr(module, "LIST_COUNT", 6)
    unwritten = UnwrittenOps()
    unwritten.keep(
        [*(row(position, b"123456") for position in range(3)), *(row(position, b"") for position in range(3, 7))]
    )
    unwritten.keep([DropMessages(2, range(14))])
    sizes: list[int] = [sum(type(op) is AddMessage for op in ops) for ops in unwritten.take()]
    assert sizes == [2, 3, 2, 0, 0, 0]


def test_only_the_deletion_of_a_deleted_queue_is_written_later() -> None:
    unwritten = UnwrittenOps()
    ops: list[StoreOp] = [row(1), row(2), DropMessages(1, [1, 7]), SetDeliveryCount(1, 2, 1), MarkHandedOut(1, 2)]
    unwritten.keep([*ops, DeleteQueue(1)])
    assert list(unwritten.take()) == [[DeleteQueue(1)]]


def test_the_number_of_kept_drops_is_bounded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "DROPS_MAX", 3)
    unwritten = UnwrittenOps()
    with caplog.at_level(logging.WARNING):
        unwritten.keep([DropMessages(1, [1, 2]), DropMessages(2, [1, 2]), DropMessages(2, [3])])
    assert caplog.text.count("delivered again") == 1
    assert list(unwritten.take()) == [[DropMessages(1, [1, 2])], [DropMessages(2, [1])]]


def test_the_drop_before_a_message_is_in_the_same_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIST_COUNT", 1)
    unwritten = UnwrittenOps()
    unwritten.keep([row(1), row(2)])
    assert list(unwritten.take()) == [[DropMessages(1, [position]), row(position)] for position in (1, 2)]
