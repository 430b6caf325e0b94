"""Rows used after the end of their unit: only fields that never change can be read."""

from typing import Any

import pytest
from msgspec.structs import fields

from semq.errors import BadInput
from semq.store.rows import InStream, OutStream
from semq.store.unit import Needs, Unit
from semq.store.work import COMMITTED, Steps, work
from tests.memory_store.ended import FIXED, LateRead, end
from tests.memory_store.store import CommitFault, MemoryStore
from tests.memory_store.test_store import BODY, IN, STREAM, FunctionWork, own, put, received


@pytest.mark.parametrize(
    "row", [own(1), received(2), OutStream(STREAM), InStream(IN, 1)], ids=lambda row: type(row).__name__
)
def test_only_fixed_fields_of_a_closed_row_can_be_read(row: Any) -> None:
    names = {f.name for f in fields(row)}
    fixed = {name: getattr(row, name) for name in FIXED[type(row)]}
    end([row, row])
    assert {name: getattr(row, name) for name in fixed} == fixed
    for name in names - fixed.keys():
        with pytest.raises(LateRead, match=name):
            getattr(row, name)
        with pytest.raises(AttributeError):
            setattr(row, name, None)


def rows_of_attempts(store: MemoryStore, fault: CommitFault = CommitFault.NONE, refuse: bool = False) -> list[Any]:
    """Return the row objects that work has seen in all attempts at a unit. ``refuse``: the work raises."""
    rows: list[Any] = []

    def decide(unit: Unit) -> None:
        old, new = unit.outbound[1], own(2)
        rows.extend((old, new))
        unit.insert_outbound(new, BODY)
        unit.delete_outbound(old)
        if refuse:
            raise BadInput("no")

    put(store, own(1))
    store.post(FunctionWork(decide, outbound={1}))
    store.run(fault)
    return rows


@pytest.mark.parametrize("fault", list(CommitFault))
def test_rows_of_each_attempt_are_closed_after_any_result_of_the_commit(fault: CommitFault) -> None:
    rows = rows_of_attempts(MemoryStore(), fault)
    assert len(rows) == (4 if fault is CommitFault.REDONE else 2)
    for row in rows:
        with pytest.raises(LateRead):
            _ = row.att


def test_rows_of_work_that_refused_are_closed() -> None:
    for row in rows_of_attempts(MemoryStore(), refuse=True):
        with pytest.raises(LateRead):
            _ = row.outcome


def test_rows_are_closed_after_the_commit() -> None:
    store, seen = MemoryStore(), []
    put(store, own(1))

    @work
    def late() -> Steps:
        unit = yield Needs(outbound={1})
        row = unit.outbound[1]
        yield COMMITTED
        with pytest.raises(LateRead, match="keep its value"):
            _ = row.ss_status
        seen.append(row.lk0)

    store.post(late())
    store.run()
    assert seen == [own(1).lk0]
