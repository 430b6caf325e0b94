"""Large bodies stored ahead of their rows: the order of work, bodies that no unit takes, and faults."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from semq.errors import BadInput
from semq.store import bodies_ahead
from semq.store.bodies_ahead import BodiesAhead
from semq.store.rows import Stored
from semq.store.unit import Unit
from semq.store.work import RECEIVED_BODIES, SENT_BODIES, Work
from tests.store.jobs import ALL_NEEDS, Job, accept
from tests.store.postgres.notified_store import accepting, column, open_notified_store
from tests.waiting import until

# Keys of stored bodies that no row has taken
NOT_TAKEN = (
    "SELECT object_id FROM tb_0031_body WHERE object_id < 0 UNION ALL SELECT bref FROM tb_0030_body WHERE bref < 0"
)
SIZE = 300_000


def large(number: int, payload: bytes, fault: Exception | None = None, then: Callable[[], Any] = lambda: None) -> Job:
    """Return work that accepts a document with a large body, or fails with ``fault``; ``then`` runs as it decides."""

    def decide(unit: Unit) -> None:
        if fault is not None:
            raise fault
        accept(unit, number, 1)
        then()
        unit.bodies[number] = unit.new_bodies[number] = Stored(b"envelope", payload)

    job = Job(decide, ALL_NEEDS)
    job.ahead = [(SENT_BODIES, payload)]
    return job


async def test_a_small_document_overtakes_the_body_of_a_large_one(database: str) -> None:
    decided: list[str] = []
    async with open_notified_store(database) as notified:
        body = os.urandom(SIZE)
        first = large(1, body, then=lambda: decided.append("large"))
        assert await notified.do(first, accepting(2, lambda: decided.append("small"))) == [None, None]
        assert decided == ["small", "large"]
        rows = [notified.store.counters.rows]
        for job in (accepting(3), large(4, os.urandom(SIZE))):
            await notified.do(job)
            rows.append(notified.store.counters.rows)
        assert rows[2] - rows[1] == rows[1] - rows[0] - 1  # the body was taken, not written again
    assert column(database, "SELECT payload FROM tb_0031_body WHERE object_id = 1") == [body]
    assert column(database, "SELECT envelope FROM tb_0031_body WHERE object_id = 1") == [b"envelope"]
    assert column(database, NOT_TAKEN) == []


async def test_a_body_that_no_unit_takes_is_deleted(database: str) -> None:
    async with open_notified_store(database) as notified:
        refused, body = BadInput("no"), os.urandom(SIZE)
        results = await notified.do(large(1, os.urandom(SIZE), refused), large(2, body), large(3, body))
        assert results == [refused, None, None]  # the payloads of 2 and 3 are one object
        await until(lambda: column(database, NOT_TAKEN) == [])
        assert column(database, "SELECT payload FROM tb_0031_body ORDER BY object_id") == [body, body]


@pytest.mark.parametrize("is_taken", [False, True], ids=["not taken", "taken by a unit that was refused"])
async def test_work_with_the_same_payload_shares_one_stored_body_which_is_deleted_later(
    database: str, monkeypatch: pytest.MonkeyPatch, is_taken: bool
) -> None:
    monkeypatch.setattr(bodies_ahead, "ENDED_MAX", 1)
    posted: list[Work] = []

    async def connect() -> Any:
        return await psycopg.AsyncConnection.connect(database, autocommit=True)

    ahead = BodiesAhead(connect, 1 << 40, lambda work, later: posted.append(work))
    body = os.urandom(SIZE)
    jobs = [large(1, body), large(2, body)]
    assert [ahead.accept(job, later=False) for job in jobs] == [True, True]
    await ahead.wait_empty()
    (stored,) = column(database, NOT_TAKEN)
    if is_taken:
        assert [ahead.key_of(SENT_BODIES, body) for _ in jobs] == [stored, None]
    first, release, second = posted
    assert [first, second] == jobs
    release.abandon(BadInput("ended"))
    await until(lambda: column(database, NOT_TAKEN) == [])
    ahead.end()
    await ahead.wait_closed()


async def test_a_start_deletes_unused_bodies_of_an_earlier_process(database: str) -> None:
    async with open_notified_store(database):
        pass
    with psycopg.connect(database, autocommit=True) as connection:
        for table in (SENT_BODIES, RECEIVED_BODIES):
            connection.execute(f"INSERT INTO {table} VALUES (-5, '', 'left'), (5, 'x', 'kept')")
    async with open_notified_store(database):
        assert column(database, NOT_TAKEN) == []
        assert column(database, "SELECT object_id FROM tb_0031_body") == [5]


async def test_closing_a_store_waits_for_bodies(database: str) -> None:
    async with open_notified_store(database) as notified:
        jobs = [large(number, os.urandom(SIZE)) for number in range(1, 6)]
        for job in jobs:
            notified.store.post(job)
    assert [job.results for job in jobs] == [[None]] * 5


async def test_work_whose_body_waits_fails_with_the_store(database: str) -> None:
    async with open_notified_store(database) as notified:
        job = large(1, os.urandom(SIZE))
        notified.store.post(job)
        notified.store.break_off("the server has ended")
        await job.over.wait()
        assert [type(result).__name__ for result in job.results] == ["StoreUnavailable"]
        await notified.reopen()
        assert await notified.do(large(1, os.urandom(SIZE))) == [None]


@pytest.mark.parametrize("fault", [psycopg.OperationalError("too many connections"), ValueError("unexpected")])
async def test_without_a_connection_work_writes_its_body_itself(fault: Exception) -> None:
    posted: list[Work] = []

    async def connect() -> Any:
        raise fault

    ahead = BodiesAhead(connect, 1 << 40, lambda work, later: posted.append(work))
    job = large(1, b"x" * SIZE)
    assert ahead.accept(job, later=False)
    await ahead.wait_empty()
    assert (posted[0], ahead.key_of(SENT_BODIES, job.ahead[0][1])) == (job, None)
    ahead.end()
    await ahead.wait_closed()


async def test_waiting_bodies_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect() -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(bodies_ahead, "WAITING_MAX", 2 * SIZE)
    ahead = BodiesAhead(connect, 1 << 40, lambda work, later: None)
    jobs = [large(number, bytes(SIZE)) for number in range(3)]
    assert [ahead.accept(job, later=False) for job in jobs] == [True, True, False]
    assert ahead.end() == jobs[:2]
    await ahead.wait_closed()


async def test_the_connection_is_closed_when_it_is_idle(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies_ahead, "IDLE_S", 0.01)
    connections = (
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'semq-bodies' AND datname = current_database()"
    )
    async with open_notified_store(database) as notified:
        for number in (1, 2):
            assert await notified.do(large(number, os.urandom(SIZE))) == [None]
            await until(lambda: column(database, connections) == [])
