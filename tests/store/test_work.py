"""Work as generators: one generator for each attempt, actions only after the commit, one report of a failure."""

from collections.abc import Callable

import pytest

from semq.errors import BadInput
from semq.store.postgres.errors import StoreUnavailable
from semq.store.rows import Event as LedgerEvent
from semq.store.rows import LedgerLine, Side
from semq.store.unit import Needs, Unit
from semq.store.work import (
    COMMITTED,
    NO_NEEDS,
    JoinedPosts,
    Steps,
    Work,
    abandon_all,
    after_commit,
    begin_attempts,
    joined,
    work,
)
from tests.memory_store.store import CommitFault, MemoryStore


def noting_work(seen: list[list[str]], fail: Callable[[], None] = lambda: None) -> Work:
    """Return work that adds what it has done to ``seen`` after the commit."""

    @work
    def gather() -> Steps:
        unit = yield Needs(outbound={1})
        gathered = ["decided"]
        unit.ledger.append(LedgerLine(0, Side.SENDER, LedgerEvent.OPERATOR, ""))
        fail()
        yield COMMITTED
        seen.append([*gathered, "committed"])

    return gather()


@pytest.mark.parametrize("fault", [CommitFault.NONE, CommitFault.REDONE])
def test_each_attempt_has_a_new_generator_and_only_the_last_one_continues(fault: CommitFault) -> None:
    store, seen = MemoryStore(), list[list[str]]()
    store.post(noting_work(seen))
    store.run(fault)
    assert seen == [["decided", "committed"]]
    assert len(store.tables.ledger) == 1


@pytest.mark.parametrize("fault", [CommitFault.ROLLED_BACK, CommitFault.ANSWER_LOST])
def test_no_action_follows_a_commit_whose_result_is_unknown(fault: CommitFault) -> None:
    store, seen, errors = MemoryStore(), list[list[str]](), list[Exception]()
    piece = noting_work(seen)
    piece.on_failure = errors.append
    store.post(piece)
    store.run(fault)
    assert seen == []
    assert [type(error) for error in errors] == [StoreUnavailable]


@pytest.mark.parametrize("fault", [CommitFault.NONE, CommitFault.REDONE])
def test_joined_work_is_done_in_order(fault: CommitFault) -> None:
    store, seen = MemoryStore(), list[list[str]]()
    works = [noting_work(seen) for _ in range(3)]
    works[1].ahead = [("tb_0031_body", b"large")]
    whole = joined(works)
    assert list(whole.ahead) == [("tb_0031_body", b"large")]
    whole.ahead = ()
    store.post(whole)
    store.run(fault)
    assert seen == [["decided", "committed"]] * 3
    assert len(store.tables.ledger) == 3


def test_joined_work_fails_as_a_whole_and_harms_no_other_work() -> None:
    def refuse() -> None:
        raise BadInput("no")

    store, seen, errors = MemoryStore(), list[list[str]](), list[Exception]()
    works = [noting_work(seen), noting_work(seen, refuse), noting_work(seen)]
    for piece in works:
        piece.on_failure = errors.append
    store.post(noting_work(seen))
    store.post(joined(works))
    store.run()
    assert seen == [["decided", "committed"]]
    assert [type(error) for error in errors] == [BadInput] * 3
    assert len(store.tables.ledger) == 1


def test_an_action_of_joined_work_that_fails_does_not_prevent_those_of_the_other_pieces() -> None:
    store, seen = MemoryStore(), list[list[str]]()

    @work
    def failing() -> Steps:
        yield NO_NEEDS
        yield COMMITTED
        raise BadInput("no")

    def fail(error: Exception) -> None:
        raise error

    store.post(joined([failing(), noting_work(seen)]))
    with pytest.raises(BadInput):
        store.run()
    assert seen == [["decided", "committed"]]
    abandoned, errors = [noting_work(seen), noting_work(seen)], list[Exception]()
    abandoned[0].on_failure, abandoned[1].on_failure = fail, errors.append
    with pytest.raises(BadInput):
        abandon_all(abandoned, BadInput("no"))
    assert [type(error) for error in errors] == [BadInput]


def test_if_a_block_raises_an_error_its_work_is_abandoned_with_it() -> None:
    posted, errors = list[Work](), list[Exception]()
    posts = JoinedPosts(posted.append)
    assert not posts.take(noting_work([]))
    work = noting_work([])
    work.on_failure = errors.append

    def fail() -> None:
        with posts.as_one():
            assert posts.take(work)
            raise BadInput("no")

    with pytest.raises(BadInput):
        fail()
    assert ([type(error) for error in errors], posted) == ([BadInput], [])
    with posts.as_one():
        assert posts.take(noting_work([]))
    assert len(posted) == 1
    assert not posts.take(noting_work([]))


def test_work_whose_decision_raises_an_error_is_reported_once_and_harms_no_other_work() -> None:
    def refuse() -> None:
        raise BadInput("no")

    store, seen, errors = MemoryStore(), list[list[str]](), list[Exception]()
    bad = noting_work(seen, refuse)
    bad.on_failure = errors.append
    for piece in (noting_work(seen), bad, noting_work(seen)):
        store.post(piece)
    store.run()
    assert len(seen) == 2
    assert [str(error)[-2:] for error in errors] == ["no"]
    assert len(store.tables.ledger) == 2


def test_each_attempt_has_its_own_needs() -> None:
    numbers = iter(range(1, 9))

    @work
    def changing_needs() -> Steps:
        unit = yield Needs(outbound={next(numbers)})
        assert unit is not None

    first, second = changing_needs(), changing_needs()
    assert begin_attempts([first, second]).outbound == {1, 2}
    first.decide(Unit())
    assert begin_attempts([first]).outbound == {3}
    assert begin_attempts([first]).outbound == {3}


def test_work_may_have_no_action_after_the_commit() -> None:
    @work
    def short() -> Steps:
        unit = yield NO_NEEDS
        unit.ledger.append(LedgerLine(0, Side.SENDER, LedgerEvent.OPERATOR, ""))

    store = MemoryStore()
    store.post(short())
    store.run()
    assert len(store.tables.ledger) == 1


def test_a_third_yield_is_a_fault() -> None:
    @work
    def long() -> Steps:
        yield NO_NEEDS
        yield COMMITTED
        yield COMMITTED

    piece = long()
    piece.decide(Unit())
    with pytest.raises(AssertionError, match="twice"):
        piece.finish()


def test_a_function_passed_to_after_commit_is_called_when_all_earlier_work_is_committed() -> None:
    store, seen = MemoryStore(), list[list[str]]()
    store.post(noting_work(seen))
    store.post(after_commit(lambda: seen.append(["after"])))
    store.run()
    assert seen[-1] == ["after"]
