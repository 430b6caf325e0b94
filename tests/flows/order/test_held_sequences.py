"""A submission by SQL that waits for any reason keeps its place: none of its sequence is accepted before it."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from local_node.doors.sql_submissions import SqlSubmissions
from semq.engine.partners import KnownGroup
from semq.engine.sender import submission
from semq.seal.errors import CannotSeal
from semq.store.postgres.errors import DecisionFailed
from semq.store.rows import Submitted
from semq.umx_t.address import Address
from semq.umx_t.agreement import Terms
from semq.umx_t.envelope import Attributes
from tests.flows.trio import Trio

ANYTHING = Terms()
#: by reason: lets document 2 wait and 3 not; the returned function removes the reason
Obstacle = Callable[[Trio, pytest.MonkeyPatch], Callable[[], None]]


def above_a_rate(trio: Trio, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    trio.a.engine.partners.terms["1.56001"] = (Terms(types=("order",), per_minute=1), ANYTHING)
    return lambda: trio.a.engine.partners.terms.clear()


def above_an_agreed_number(trio: Trio, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    trio.cut(trio.b)
    trio.settle()  # the hub's report would remove the terms
    trio.a.engine.partners.terms["1.56001"] = (Terms(types=("order",), waiting_max=1), ANYTHING)
    return lambda: trio.connect(trio.b)


def without_a_key(trio: Trio, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def seal_for(target: Address, attributes: Attributes) -> None:
        if attributes.app_key.type == "order" and attributes.app_key.key != "1":
            raise CannotSeal(target=str(target))

    monkeypatch.setattr(trio.a.engine.acceptance.secrecy, "seal_for", seal_for)
    return monkeypatch.undo


def not_written(trio: Trio, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The store fails on one document, and reports no cause."""
    decide = submission._UnitAcceptance.decide

    def fails(acceptance: Any, document: Any, fault: Any) -> None:
        if document.attributes.app_key.key == "2":
            raise DecisionFailed
        decide(acceptance, document, fault)

    monkeypatch.setattr(submission._UnitAcceptance, "decide", fails)
    return monkeypatch.undo


OBSTACLES: dict[str, Obstacle] = {
    f.__name__: f for f in (above_a_rate, above_an_agreed_number, without_a_key, not_written)
}
#: where the document behind the waiting one is addressed to
TARGETS = ("56001", "1.56001", "56001/desk", "3.all")


@pytest.mark.parametrize("token", ["", "T"])
@pytest.mark.parametrize("polls", [1, 2], ids=["read together", "read apart"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_a_row_that_waits_keeps_its_place_in_the_order(
    obstacle: str, target: str, polls: int, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Document 3 has no reason to wait, except that 2 waits, which has the same order key."""
    trio = Trio()
    trio.a.engine.partners.groups["3.all"] = KnownGroup(("1.56001",), 0)
    tables = trio.a.store.tables
    submissions = SqlSubmissions(trio.a.engine_handle, lambda: None)
    remove_obstacle = OBSTACLES[obstacle](trio, monkeypatch)
    rows = [
        (1, "56001", "order", "k"), (2, "56001", "order", "k"), (3, target, "cancel", "k"), (4, "10008", "cancel", "l")
    ]  # fmt: skip
    for number, to, kind, order_key in rows:
        if number == 2 or (number == 3 and polls == 2):
            submissions.poll()
            trio.settle()
        tables.submitted[number] = Submitted(
            number, to, b"%d" % number, f"trade/{kind}//{number}", 3, 1, order_key,
            f"{token}{number}" if token else "", "", "{}",
        )  # fmt: skip
    for _ in range(3):
        submissions.poll()
        trio.settle()
    assert sorted(tables.submitted) == [2, 3]
    assert "SEMQ-1229" in {tables.submitted[3].wait_code, tables.waits[target].reason[0]} or target == "56001"
    remove_obstacle()
    for _ in range(3):
        trio.settle()
        submissions.poll()
    trio.later(1)
    assert not tables.submitted
    assert [payload for payload in trio.b.app.payloads if payload != b"4"] == [b"1", b"2", b"3"]


def test_a_withdrawn_or_refused_row_no_longer_holds_its_order_key(monkeypatch: pytest.MonkeyPatch) -> None:
    trio = Trio()
    tables = trio.a.store.tables
    submissions = SqlSubmissions(trio.a.engine_handle, lambda: None)
    errors: list[Exception] = []
    without_a_key(trio, monkeypatch)
    for number, kind in ((1, "order"), (2, "order"), (3, "cancel")):
        tables.submitted[number] = Submitted(number, "56001", b"x", f"a/{kind}//{number}", 3, 1, "k", "", "", "{}")
    tables.submitted[1] = replace(tables.submitted[1], headers='{"@Nonsense": 1}')  # refused
    for _ in range(2):
        submissions.poll()
        trio.settle()
    assert (sorted(tables.submitted), sorted(tables.refused)) == ([1, 2, 3], [1])
    submissions.withdraw(2, "", lambda lk0: None, errors.append)
    trio.settle()
    assert not errors
    submissions.poll()
    trio.settle()
    submissions.poll()
    trio.settle()
    assert sorted(tables.submitted) == [1]
