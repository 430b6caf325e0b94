"""The script of the floor changes exactly as many rows as its plan says, with batches of any size."""

import threading
from queue import SimpleQueue
from typing import Any, cast

import psycopg
import pytest

from bench.floor.reference import TableWork
from bench.floor.rows import RowChanges
from bench.floor.script import ScriptPlan, run, steps

CHANGES = {
    "tb_0031": RowChanges(10, 26, 4),
    "tb_0031_body": RowChanges(10, 0, 4),
    "tb_0031_stream": RowChanges(1, 3, 0),
    "tb_0030": RowChanges(10, 5, 7),
    "tb_0030_body": RowChanges(10, 0, 7),
    "tb_0030_ledger": RowChanges(10, 0, 2),
    "tb_0030_stream": RowChanges(1, 3, 0),
    "semq_ledger": RowChanges(41, 0, 0),
}


def remaining_rows(database: str, changes: dict[str, RowChanges], *, documents: int, batch: int) -> dict[str, int]:
    """Run the script; return the number of rows in each table."""
    results: SimpleQueue[tuple[float, float, str]] = SimpleQueue()
    plan = ScriptPlan(database, documents, 100, batch, TableWork(changes, 10), is_hub=False)
    run(plan, cast(Any, threading.Barrier(1)), results)
    started, ended, fault = results.get()
    assert not fault
    assert started < ended
    with psycopg.connect(database) as connection:
        return {table: (connection.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,))[0] for table in CHANGES}


@pytest.mark.parametrize("batch", [1, 3, 10, 500])
def test_rows_are_inserted_and_deleted_as_often_as_planned(database: str, batch: int) -> None:
    assert remaining_rows(database, CHANGES, documents=10, batch=batch) == {
        "tb_0031": 6,
        "tb_0031_body": 6,
        "tb_0031_stream": 1,
        "tb_0030": 3,
        "tb_0030_body": 3,
        "tb_0030_ledger": 8,
        "tb_0030_stream": 1,
        "semq_ledger": 41,
    }


def test_rows_are_updated_as_often_as_planned(database: str) -> None:
    remaining_rows(database, {"tb_0031": RowChanges(10, 26, 0)}, documents=10, batch=5)
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT sum(att) FROM tb_0031").fetchone() == (26,)


def test_fewer_documents_change_proportionally_fewer_rows(database: str) -> None:
    assert remaining_rows(database, {"semq_ledger": RowChanges(40, 0, 0)}, documents=5, batch=2)["semq_ledger"] == 20


def test_a_fault_is_reported_and_releases_the_other_scripts() -> None:
    results: SimpleQueue[tuple[float, float, str]] = SimpleQueue()
    barrier = threading.Barrier(2)
    unreachable = ScriptPlan("postgresql:///?port=1", 1, 100, 1, TableWork(CHANGES, 10), is_hub=True)
    run(unreachable, cast(Any, barrier), results)
    assert "OperationalError" in results.get()[2]
    assert barrier.broken


def test_steps_without_changed_rows_are_left_out() -> None:
    assert steps({"semq_ledger": RowChanges(5)}) == ["accept"]
    assert steps({"tb_0031": RowChanges(5, 5, 5)}) == ["accept", "settle", "clean"]
    assert steps({"tb_0030_stream": RowChanges(1, 5)}) == []
