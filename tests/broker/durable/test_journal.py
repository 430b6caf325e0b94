"""The operations of a turn are one list for the store; failed operations are written later, refused ones are lost."""

from collections.abc import Callable
from itertools import count

import pytest

from semq.broker.durable import unwritten
from semq.broker.durable.journal import Journal
from semq.errors import BadInput, Unavailable
from semq.store.broker.operations import (
    AddBodyChunk,
    AddMessage,
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DropMessages,
    MarkHandedOut,
    SaveDone,
    StoreOp,
    Unbind,
)
from tests.broker.memory_store import MemoryBrokerStore
from tests.broker.pure import Model


def row(position: int, body: bytes = b"body") -> AddMessage:
    return AddMessage(1, position, "", "q", 0, None, 0, b"", body)


def in_queue(queue_id: int, body_id: int) -> AddMessage:
    return AddMessage(queue_id, 1, "", "q", 0, None, 0, b"", b"", body_id)


class RecordingPublisher:
    def __init__(self) -> None:
        self.confirms: list[tuple[int, int, BaseException | None]] = []

    def saved(self, sequence: int, size: int, error: BaseException | None) -> None:
        self.confirms.append((sequence, size, error))


@pytest.mark.parametrize("failure", [None, OSError("disk full")])
def test_publishers_and_waiters_are_notified_when_the_store_has_answered(failure: OSError | None) -> None:
    model, publisher = Model(), RecordingPublisher()
    received: list[BaseException | None] = []
    model.store.failure = failure
    journal = model.journal
    journal.add(row(1))
    journal.confirm_when_saved(publisher, 7, 4)
    journal.when_saved(received.append)
    assert journal.pending_bytes == 4
    journal.flush()
    assert (publisher.confirms, received) == ([], [])
    model.later.run()
    assert (publisher.confirms, received) == ([(7, 4, failure)], [None])  # the waiter has no operation of its own
    assert journal.pending_bytes == 0
    assert list(model.store.messages) == ([] if failure else [(1, 1)])


def test_drops_and_marks_are_combined_per_queue_and_written_last() -> None:
    journal = Model().journal
    journal.drop(1, 5)
    journal.mark_handed_out(1, 5)
    journal.add(row(6))
    journal.drop(2, 1)
    journal.drop(1, 6)
    journal.mark_handed_out(1, 6)
    assert journal._take_ops() == [row(6), MarkHandedOut(1, 6), DropMessages(1, [5, 6]), DropMessages(2, [1])]
    assert journal._take_ops() == []


def test_messages_that_left_a_queue_before_its_deletion_are_dropped() -> None:
    journal = Model().journal
    journal.drop(1, 5)
    journal.mark_handed_out(1, 5)
    journal.forget_queue(1)
    journal.add(DeleteQueue(1))
    assert journal._take_ops() == [DeleteQueue(1), DropMessages(1, [5])]


def test_the_server_is_notified_of_the_first_operation_of_a_turn() -> None:
    calls: list[int] = []
    done: list[Callable[[], None]] = []
    store = MemoryBrokerStore(done.append)
    journal = Journal(store, lambda: calls.append(1))
    journal.flush()
    assert store.batches == 0
    journal.add(row(1))
    journal.add(row(2))
    assert len(calls) == 1
    journal.flush()
    journal.when_saved(lambda _: None)
    assert len(calls) == 2
    journal.flush()
    assert store.batches == 2


QUEUE, OTHER = DeclareQueue(1, "/", "q", False, b""), DeclareQueue(2, "/", "other", False, b"")
EXCHANGE = DeclareExchange("/", "e", "topic", False, False, b"")
BINDING = ("/", "e", "q", False, "k", b"")


def run_failing_turn(model: Model, *ops: StoreOp, failure: BaseException | None = None) -> None:
    """Add operations and end the turn; the store fails, by default as unavailable."""
    model.store.failure = failure or Unavailable()
    for op in ops:
        model.journal.add(op)
    model.flush()
    model.store.failure = None


def test_definitions_made_while_the_store_failed_precede_later_operations() -> None:
    model = Model()
    run_failing_turn(model, QUEUE, EXCHANGE, row(1))
    run_failing_turn(model, Bind(*BINDING), DropMessages(1, [1]))
    lists: list[list[StoreOp]] = []
    save = model.store.save

    def save_and_record(ops: list[StoreOp], done: SaveDone) -> None:
        lists.append(ops)
        save(ops, done)

    model.store.save = save_and_record  # type: ignore[method-assign]
    model.journal.add(row(2))
    model.flush()
    model.flush()
    assert lists == [[QUEUE, EXCHANGE, Bind(*BINDING)], [DropMessages(1, [1])], [row(2)]]
    assert (model.journal.has_unwritten, model.journal.pending_bytes) == (False, 0)


def test_a_queue_declared_while_the_store_was_away_exists_after_a_restart() -> None:
    model = Model()
    model.store.failure = Unavailable()
    model.queue("q", durable=True)
    model.flush()
    model.store.failure = None
    model.queue("q", durable=True)  # no operation is written for it
    model.publish("q", b"1", delivery_mode=2)
    model.flush()
    assert [queue.name for queue in model.store.queues.values()] == ["q"]
    assert len(model.store.messages) == 1


def test_only_the_last_state_of_a_definition_is_written_later() -> None:
    model = Model()
    model.store.save([EXCHANGE, Bind(*BINDING), OTHER], lambda _: None)
    run_failing_turn(model, QUEUE, DeleteQueue(2))
    run_failing_turn(model, DeleteExchange("/", "e"), Unbind(*BINDING), DeleteQueue(1), OTHER)
    run_failing_turn(model, EXCHANGE)
    model.flush()
    assert (list(model.store.queues), list(model.store.exchanges), model.store.bindings) == ([2], [("/", "e")], {})


def test_a_refused_operation_is_not_repeated_and_affects_no_other(caplog: pytest.LogCaptureFixture) -> None:
    model, result = Model(), list[BaseException | None]()
    run_failing_turn(model, QUEUE, failure=BadInput("no"))
    model.flush()
    assert model.store.batches == 0
    run_failing_turn(model, QUEUE, EXCHANGE, OTHER)
    model.store.refuses = lambda op: op == EXCHANGE
    model.journal.add(row(1))
    model.journal.when_saved(result.append)
    model.flush()
    assert (result, list(model.store.queues), model.store.exchanges) == ([None], [1, 2], {})
    assert "the store refused an operation" in caplog.text
    batches = model.store.batches
    model.flush()
    assert model.store.batches == batches


def test_of_a_refused_list_only_the_bad_operation_is_lost_and_only_its_publisher_gets_the_error() -> None:
    model, publisher = Model(), RecordingPublisher()
    received: list[BaseException | None] = []
    bad = row(2)
    model.store.refuses = lambda op: op == bad
    model.journal.add(QUEUE)
    for number, op in enumerate((row(1), bad, row(3)), 1):
        model.journal.add(op)
        model.journal.confirm_when_saved(publisher, number, 4)
    model.journal.when_saved(received.append)
    model.flush()
    assert received == [None]
    assert [(number, isinstance(error, BadInput)) for number, _, error in publisher.confirms] == [
        (1, False), (2, True), (3, False)
    ]  # fmt: skip
    assert model.journal.pending_bytes == 0
    assert (list(model.store.queues), list(model.store.messages)) == ([1], [(1, 1), (1, 3)])


@pytest.mark.parametrize("bad", [QUEUE, AddBodyChunk(1, 0, b"chunk")])
def test_a_message_is_not_confirmed_if_its_queue_or_its_body_was_refused(bad: StoreOp) -> None:
    model, publisher = Model(), RecordingPublisher()
    model.store.refuses = lambda op: op == bad
    received: list[BaseException | None] = []
    model.journal.add(bad)
    model.journal.when_saved(received.append)
    for number, op in enumerate((in_queue(2, body_id=2), in_queue(1, body_id=1)), 1):
        model.journal.add(op)
        model.journal.confirm_when_saved(publisher, number, 4)
    model.journal.add(OTHER)
    model.journal.when_saved(received.append)
    model.flush()
    assert [isinstance(error, BadInput) for error in received] == [True, False]
    assert [(number, isinstance(error, BadInput)) for number, _, error in publisher.confirms] == [(1, False), (2, True)]


def test_a_message_for_a_queue_whose_declaration_is_under_way_is_confirmed_only_if_the_queue_is_stored() -> None:
    for is_refused in (True, False):
        model, publisher = Model(), RecordingPublisher()
        model.store.refuses = lambda op, is_refused=is_refused: is_refused and isinstance(op, DeclareQueue)  # type: ignore[misc]
        model.queue("q", durable=True)
        model.journal.flush()
        model.publish("q", b"1", delivery_mode=2)
        model.journal.confirm_when_saved(publisher, 1, 1)
        model.journal.flush()
        model.later.run()
        model.flush()
        assert [error is not None for _, _, error in publisher.confirms] == [is_refused]
        assert len(model.store.messages) == len(model.vhost.queues) == (not is_refused)
        assert model.journal._defined == {}


def test_a_second_declaration_is_answered_with_the_outcome_of_its_own_write() -> None:
    for refused in (0, 1, 2):  # how many of the two
        model, received = Model(), list[BaseException | None]()
        declared = count()
        model.store.refuses = lambda op, n=refused, c=declared: isinstance(op, DeclareQueue) and next(c) < n  # type: ignore[misc]
        for _ in range(2):
            model.queue("q", durable=True)
            model.journal.when_saved(received.append)
            model.journal.flush()
        model.later.run()
        model.flush()
        assert [error is not None for error in received] == [number < refused for number in range(2)]
        assert len(model.vhost.queues) == len(model.store.queues) == (refused < 2)


def test_definitions_kept_while_the_store_was_away_are_taken_back_if_it_then_refuses_them() -> None:
    model = Model()
    model.store.failure = Unavailable()
    queue = model.queue("q", durable=True)
    model.vhost.declare_exchange("e", "topic", True, False, False, {})
    model.vhost.bind(model.vhost.exchanges["e"], queue, "k", {})
    model.flush()
    assert model.vhost.queues
    model.store.failure = None
    model.store.refuses = lambda op: isinstance(op, DeclareQueue)
    model.flush()
    model.flush()
    assert (list(model.vhost.queues), model.vhost.binding_count, model.store.bindings) == ([], 0, {})
    assert "e" in model.vhost.exchanges
    assert queue.is_deleted


def test_a_refused_deletion_of_an_exchange_restores_its_bindings_that_are_stored() -> None:
    model = Model()
    queue = model.queue("q", durable=True)
    model.vhost.declare_exchange("e", "topic", True, False, False, {})
    for key in ("kept", "gone"):
        model.vhost.bind(model.vhost.exchanges["e"], queue, key, {})
    model.flush()
    model.store.refuses = lambda op: (
        isinstance(op, DeleteExchange) or (isinstance(op, Unbind) and op.routing_key == "kept")
    )
    model.vhost.delete_exchange("e", False)
    assert "e" not in model.vhost.exchanges
    model.flush()
    assert [binding.routing_key for binding in model.vhost.exchanges["e"].bindings] == ["kept"]
    assert len(model.store.exchanges) == len(model.store.bindings) == 1


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_message_that_moved_while_the_store_was_away_stays_if_its_next_queue_then_refuses_it(
    is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unwritten, "LIST_COUNT", 2)  # a message and its removal are in one list nevertheless
    model, moved, other = Model(), in_queue(2, body_id=0), row(9)
    model.store.save([QUEUE, OTHER, row(1)], lambda _: None)
    model.journal.move(1, 1, [moved, other])
    run_failing_turn(model, row(3), moved, other, row(4))
    model.store.refuses = lambda op: is_refused and op is other
    for _ in range(2):  # the first time, the store is still away
        model.store.failure = None if _ else Unavailable()
        model.flush()
    assert sorted(model.store.messages) == [(1, at) for at in ([1, 3, 4] if is_refused else [3, 4, 9])] + [(2, 1)]
    assert not model.journal.has_unwritten


def test_the_answer_to_a_purge_says_that_its_drops_were_refused_and_a_publisher_gets_no_error() -> None:
    model, publisher = Model(), RecordingPublisher()
    model.store.refuses = lambda op: op == DropMessages(1, [5])
    received: list[BaseException | None] = []
    model.journal.add(row(1))
    model.journal.confirm_when_saved(publisher, 1, 4)
    model.journal.drop(1, 5)
    model.journal.when_saved(received.append)
    model.flush()
    assert [isinstance(error, BadInput) for error in received] == [True]
    assert publisher.confirms == [(1, 4, None)]
