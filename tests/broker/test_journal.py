"""What is gathered in a turn is one list for the store, and everybody hears when it is true."""

import pytest

from semq.broker.persist import AddMessage, DeleteQueue, DropMessages, MarkHandedOut
from tests.broker.pure import Model


def row(position: int, body: bytes = b"body") -> AddMessage:
    return AddMessage(1, position, "", "q", 0, None, 0, b"", body)


class Publisher:
    def __init__(self) -> None:
        self.heard: list[tuple[int, int, BaseException | None]] = []

    def saved(self, sequence: int, size: int, error: BaseException | None) -> None:
        self.heard.append((sequence, size, error))


@pytest.mark.parametrize("failure", [None, OSError("disk full")])
def test_publishers_and_waiters_hear_after_the_store(failure: OSError | None) -> None:
    model, publisher = Model(), Publisher()
    heard: list[BaseException | None] = []
    model.store.failure = failure
    journal = model.journal
    journal.add(row(1))
    journal.confirm(publisher, 7, 4)
    journal.when_saved(heard.append)
    assert journal.pending_bytes == 4
    journal.flush()
    assert (publisher.heard, heard, journal.batches_under_way) == ([], [], 1)
    model.later.run()
    assert (publisher.heard, heard) == ([(7, 4, failure)], [failure])
    assert (journal.pending_bytes, journal.batches_under_way) == (0, 0)
    assert list(model.store.messages) == ([] if failure else [(1, 1)])


def test_drops_and_marks_are_gathered_per_queue_behind_the_rest() -> None:
    journal = Model().journal
    journal.drop(1, 5)
    journal.handed_out(1, 5)
    journal.add(row(6))
    journal.drop(2, 1)
    journal.drop(1, 6)
    journal.handed_out(1, 6)
    assert journal._take_ops() == [row(6), MarkHandedOut(1, 6), DropMessages(1, [5, 6]), DropMessages(2, [1])]
    assert journal._take_ops() == []


def test_of_a_deleted_queue_nothing_more_is_said() -> None:
    journal = Model().journal
    journal.drop(1, 5)
    journal.handed_out(1, 5)
    journal.forget_queue(1)
    journal.add(DeleteQueue(1))
    assert journal._take_ops() == [DeleteQueue(1)]


def test_the_driver_hears_of_the_first_thing_of_a_turn() -> None:
    model, calls = Model(), []
    model.journal.on_pending = lambda: calls.append(1)
    model.journal.flush()
    assert model.store.batches == 0
    model.journal.add(row(1))
    model.journal.add(row(2))
    assert len(calls) == 1
    model.flush()
    model.journal.when_saved(lambda _: None)
    assert len(calls) == 2
    model.flush()
    assert model.store.batches == 2
