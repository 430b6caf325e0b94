"""Group commit: work that fails alone, stale rows, lost connections, unanswered COMMITs, size and order of units."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg import sql

from semq.errors import BadInput
from semq.store.postgres import writer
from semq.store.postgres.errors import (
    DecisionFailed,
    RowRefused,
    StaleRow,
    StoreUnavailable,
)
from semq.store.postgres.writer import KEYS_MAX
from semq.store.rows import Outbound, OutStreamKey, Stored
from semq.store.unit import Needs, Unit
from semq.umx_t.app_key import AppKey
from semq.umx_t.status import Outcome, SendStatus
from tests.store.jobs import ALL_NEEDS, INC, Job, accept, body_of, own
from tests.store.postgres.notified_store import (
    NotifiedStore,
    accepting,
    column,
    open_notified_store,
    raising,
    run,
    stored,
    until_true,
    versions_of_rows,
)

# ------------------------------------------------------------------------------------------ failures of single pieces


async def test_work_whose_decision_raises_an_error_fails_alone(database: str) -> None:
    async with open_notified_store(database) as notified:
        error = BadInput("no")
        assert await notified.do(accepting(1), raising(error), accepting(2), raising(error), accepting(3)) == [
            None, error, None, error, None,
        ]  # fmt: skip
        assert stored(database) == [1, 2, 3]
        assert column(database, "SELECT count(*) FROM semq_ledger") == [3]
        assert column(database, "SELECT next_sid FROM tb_0031_stream") == [3]


async def test_a_defect_in_a_decision_fails_alone_and_is_logged(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_notified_store(database) as notified:
        result = await notified.do(accepting(1), raising(ZeroDivisionError("oops")), accepting(2))
        assert result[0] is result[2] is None
        assert isinstance(result[1], DecisionFailed)
        assert "ZeroDivisionError" in caplog.text
        assert stored(database) == [1, 2]


async def test_each_piece_of_work_decides_at_most_twice_for_any_number_of_refusals(database: str) -> None:
    async with open_notified_store(database) as notified:
        jobs = [raising(BadInput()) if n % 2 else accepting(n) for n in range(60)]
        await notified.do(*jobs)
        assert max(job.decided for job in jobs) <= 2
        assert stored(database) == list(range(0, 60, 2))


async def test_work_after_a_unit_of_refused_work_is_committed(database: str) -> None:
    async with open_notified_store(database) as notified:
        error = BadInput()
        assert await notified.do(raising(error), accepting(1)) == [error, None]
        assert await notified.do(raising(error)) == [error]
        assert await notified.do(accepting(2)) == [None]
        assert stored(database) == [1, 2]


async def test_a_lease_that_cannot_be_renewed_is_the_fault_of_no_work(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trigger, for instance; the idle writer renews the lease only after a while."""
    refusal = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$"
    async with open_notified_store(database) as notified:
        run(database, refusal)
        run(database, "CREATE TRIGGER refuse BEFORE UPDATE ON store_lease FOR EACH ROW EXECUTE FUNCTION refuse()")
        monkeypatch.setattr(notified.store._writer, "_renew_at", 0.0)
        [error] = await notified.do(accepting(1))
        assert isinstance(error, StoreUnavailable)
        assert "not now" in str(error)
        await notified.lost.wait()
        run(database, "DROP FUNCTION refuse CASCADE")
        await notified.reopen()
        assert await notified.do(accepting(2)) == [None]


async def test_a_row_that_postgres_refuses_fails_alone(database: str) -> None:
    def bad(unit: Unit) -> None:
        row = own(7, 1)
        row.sid, row.app_key = 99, AppKey("nul\0", "", "", "")
        unit.insert_outbound(row, body_of(7))

    async with open_notified_store(database) as notified:
        result = await notified.do(accepting(1), Job(bad, ALL_NEEDS), accepting(2))
        assert result[0] is result[2] is None
        assert isinstance(result[1], RowRefused)
        assert result[1].facts["sqlstate"].startswith("22")
        assert notified.faults == []
        assert stored(database) == [1, 2]


@pytest.mark.parametrize("key", ["\ud800", 7])
async def test_work_with_an_invalid_value_fails_alone(database: str, key: Any) -> None:
    def bad(unit: Unit) -> None:
        row = own(7, 1)
        row.sid, row.app_key = 99, AppKey(key, "", "", "")
        unit.insert_outbound(row, body_of(7))

    async with open_notified_store(database) as notified:
        invalid_needs = Needs(tokens={"\ud800"})
        result = await notified.do(accepting(1), Job(bad, ALL_NEEDS), Job(needs=invalid_needs), accepting(2))
        assert [type(error) for error in result] == [type(None), RowRefused, RowRefused, type(None)]
        assert notified.faults == []
        assert stored(database) == [1, 2]


async def test_large_bodies_are_written_in_pieces(database: str) -> None:
    def large(unit: Unit) -> None:
        accept(unit, 1, 1)
        unit.new_bodies[1] = Stored(b"e", bytes(5_000_000))

    async with open_notified_store(database) as notified:
        assert await notified.do(Job(large, ALL_NEEDS)) == [None]
        assert notified.store.counters.copied == 3
        assert column(database, "SELECT octet_length(payload) FROM tb_0031_body") == [5_000_000]


async def test_a_constraint_of_the_schema_refuses_an_outcome_without_its_status(database: str) -> None:
    def bad(unit: Unit) -> None:
        row = unit.outbound[1]
        row.outcome = Outcome.DELIVERED  # but ss_status is not SS_ACK2
        unit.change_outbound(row, row.ss_status)

    async with open_notified_store(database) as notified:
        await notified.do(accepting(1))
        (result,) = await notified.do(Job(bad, Needs(outbound={1})))
        assert isinstance(result, RowRefused)
        assert result.facts["constraint"] == "delivered_is_ss_ack2"


# ---------------------------------------------------------------------------------------------------- stale rows


def sending(number: int, interfere: Callable[[int], None]) -> Job:
    """Return work that marks a row as sent; ``interfere`` is called with the number of earlier decisions."""
    times = iter(range(10))

    def decide(unit: Unit) -> None:
        row = unit.outbound[number]
        before, row.ss_status = row.ss_status, SendStatus.SS_SENT
        unit.change_outbound(row, before)
        interfere(next(times))

    return Job(decide, Needs(outbound={number}))


async def test_a_stale_row_is_read_again(database: str) -> None:
    def interfere(times: int) -> None:
        if times == 0:
            run(database, "UPDATE tb_0031 SET ss_status = 30 WHERE object_id = 1")

    async with open_notified_store(database) as notified:
        await notified.do(accepting(1), accepting(2))
        job = sending(1, interfere)
        assert await notified.do(job, sending(2, lambda times: None)) == [None, None]
        assert job.decided == 2
        assert column(database, "SELECT ss_status FROM tb_0031 ORDER BY 1") == [20, 20]


async def test_a_row_that_is_always_stale_fails_alone(database: str) -> None:
    status = iter((30, 40, 30, 40, 30, 40))

    def interfere(times: int) -> None:
        run(database, f"UPDATE tb_0031 SET ss_status = {next(status)} WHERE object_id = 1")

    async with open_notified_store(database) as notified:
        await notified.do(accepting(1), accepting(2))
        result = await notified.do(sending(1, interfere), sending(2, lambda times: None))
        assert isinstance(result[0], StaleRow)
        assert result[1] is None


async def test_an_outcome_is_final_also_for_postgres(database: str) -> None:
    def change(outcome: Outcome) -> Callable[[Unit], None]:
        def decide(unit: Unit) -> None:
            row = unit.outbound[1]
            row.outcome = outcome
            unit.change_outbound(row, row.ss_status)

        return decide

    async with open_notified_store(database) as notified:
        await notified.do(accepting(1))
        assert await notified.do(Job(change(Outcome.REJECTED), Needs(outbound={1}))) == [None]
        (result,) = await notified.do(Job(change(Outcome.UNKNOWN), Needs(outbound={1})))
        assert isinstance(result, StaleRow)


async def test_a_missing_row_cannot_be_deleted(database: str) -> None:
    def decide(unit: Unit) -> None:
        unit.delete_outbound(own(5))

    async with open_notified_store(database) as notified:
        (result,) = await notified.do(Job(decide))
        assert isinstance(result, StaleRow)


@pytest.mark.parametrize(
    ("meanwhile", "is_deleted"),
    [
        ("ss_status = ss_status", True),
        ("ss_status = 40", False),
        (f"outcome = {Outcome.CANCELLED:d}", False),  # final
        (f"outcome = {Outcome.REJECTED:d}", True),  # stated by the hub, corrected by the receiver (S5c)
    ],
)
async def test_a_row_that_ends_and_is_deleted_in_one_unit_is_compared_like_a_changed_row(
    database: str, meanwhile: str, is_deleted: bool
) -> None:
    """Only the DELETE can compare the stored row with the loaded row."""

    def decide(unit: Unit) -> None:
        row = unit.outbound[1]
        before, row.ss_status, row.outcome = row.ss_status, SendStatus.SS_ACK2, Outcome.DELIVERED
        unit.change_outbound(row, before)
        unit.delete_outbound(row)
        run(database, f"UPDATE tb_0031 SET {meanwhile} WHERE object_id = 1")

    async with open_notified_store(database) as notified:
        await notified.do(accepting(1), accepting(2))
        result = await notified.do(Job(decide, Needs(outbound={1})))
        assert isinstance(result[0], StaleRow) is not is_deleted
        assert column(database, "SELECT object_id FROM tb_0031 ORDER BY 1") == ([2] if is_deleted else [1, 2])
        assert column(database, "SELECT object_id FROM tb_0031_body ORDER BY 1") == ([2] if is_deleted else [1, 2])


async def test_positions_never_go_back(database: str) -> None:
    def decide(unit: Unit) -> None:
        (stream,) = unit.out_streams.values()
        stream.next_sid -= 1
        unit.changed_out_streams.add(stream.key)

    async with open_notified_store(database) as notified:
        await notified.do(accepting(1))
        (result,) = await notified.do(Job(decide, Needs(out_streams={OutStreamKey("1.56001", INC)})))
        assert isinstance(result, StaleRow)


# ------------------------------------------------------------------------------------------------ lost connections


async def test_work_whose_backend_is_killed_before_the_commit_fails(database: str) -> None:
    async with open_notified_store(database) as notified:
        await notified.do(accepting(1))
        jobs = [
            accepting(2),
            accepting(3, lambda: run(database, f"SELECT pg_terminate_backend({notified.backend_pid})")),
        ]
        result = await notified.do(*jobs)
        assert [type(error) for error in result] == [StoreUnavailable] * 2
        await notified.lost.wait()
        assert [type(fault) for fault in notified.faults] == [StoreUnavailable]
        assert [type(error) for error in await notified.do(accepting(4))] == [StoreUnavailable]
        recovered = await notified.reopen()
        assert recovered.boot == 2
        assert (recovered.unsettled, recovered.backlog) == (1, {"1.56001": 1})
        assert await notified.do(accepting(5)) == [None]
        assert stored(database) == [1, 5]
        assert len(notified.faults) == 1


async def test_a_commit_whose_answer_is_lost_is_found_by_the_recovery(postgres: Any, database: str) -> None:
    """The durable COMMIT waits for a standby that never answers; then the backend is killed."""
    async with open_notified_store(database) as notified:
        configure(postgres, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        try:
            job, before = await stuck_commit(notified)
            queued = accepting(100)
            notified.store.post(queued)
            configure(postgres, f"SELECT pg_terminate_backend({notified.backend_pid})")
            await notified.lost.wait()
        finally:
            configure(postgres, "ALTER SYSTEM RESET synchronous_standby_names")
        assert [type(error) for error in (*job.results, *queued.results)] == [StoreUnavailable] * 2
        recovered = await notified.reopen()
        assert len(stored(database)) == before + 1
        (stream,) = recovered.streams
        assert (stream.floor, stream.next_sid, stream.settled_above) == (0, before + 1, set())
        assert recovered.inc != INC


async def test_a_new_process_waits_for_the_last_commit_of_the_previous_one(postgres: Any, database: str) -> None:
    """Otherwise it could assign a position twice."""
    async with open_notified_store(database) as notified:
        configure(postgres, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        try:
            _, before = await stuck_commit(notified)
            second = NotifiedStore(database)
            opening = asyncio.create_task(second.store.start())
            await until_true(database, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")
            assert not opening.done()
        finally:
            configure(postgres, "ALTER SYSTEM RESET synchronous_standby_names")
        recovered = await opening
        assert recovered.unsettled == before + 1
        await second.store.stop()


async def test_an_idle_connection_that_breaks_is_noticed(database: str) -> None:
    async with open_notified_store(database) as notified:
        run(database, f"SELECT pg_terminate_backend({notified.backend_pid})")
        await notified.lost.wait()
        assert [type(fault) for fault in notified.faults] == [StoreUnavailable]


async def test_the_store_starts_again_when_the_database_is_available(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = database.split("/")[3].split("?")[0]
    async with open_notified_store(database) as notified:
        configure_database(database, sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(name)))
        configure_database(
            database, sql.SQL("SELECT pg_terminate_backend({})").format(sql.Literal(notified.backend_pid))
        )
        await notified.lost.wait()
        with pytest.raises(StoreUnavailable):
            await notified.store.start()
        with pytest.raises(StoreUnavailable):
            await notified.store.execute(lambda c: c.exec_driver_sql("SELECT 1").all())
        restarting = asyncio.create_task(notified.reopen())
        configure_database(database, sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(sql.Identifier(name)))
        assert (await restarting).boot == 2


# -------------------------------------------------------------------------------------------------- units and order


async def test_work_that_waits_shares_one_unit(database: str) -> None:
    async with open_notified_store(database) as notified:
        assert await notified.do(*map(accepting, range(1, 15))) == [None] * 14
        assert (notified.store.counters.units, notified.store.counters.largest) == (1, 14)
        assert notified.store.counters.copied > 0
        assert column(database, "SELECT sid FROM tb_0031 ORDER BY object_id") == list(range(14))
        assert column(database, "SELECT count(*) FROM tb_0031_body") == [14]


async def test_a_unit_is_bounded_by_the_keys_that_its_work_names(database: str) -> None:
    """A large piece gets a unit of its own."""

    def naming(count: int) -> Job:
        return Job(lambda unit: None, Needs(pending=set(range(count))))

    async with open_notified_store(database) as notified:
        await notified.do(*(naming(KEYS_MAX // 4) for _ in range(12)), naming(KEYS_MAX * 2))
        assert (notified.store.counters.units, notified.store.counters.largest) == (4, 4)


async def test_other_tasks_run_while_much_work_is_done(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "TURN_S", 0)
    seen: list[int] = []
    decided: list[int] = []
    ended = False

    def note(number: int, unit: Unit) -> None:
        decided.append(number)

    async def other_task() -> None:
        while not ended:
            seen.append(len(decided))
            await asyncio.sleep(0)

    async with open_notified_store(database) as notified:
        task = asyncio.create_task(other_task())
        await notified.do(*(Job(partial(note, n), Needs()) for n in range(50)))
        ended = True
        await task
    assert {10, 20, 30, 40} <= set(seen)


@pytest.mark.parametrize(("name", "limit", "units"), [("ROWS_MAX", 4, 3), ("BYTES_MAX", 1, 10), ("WORKS_MAX", 5, 2)])
async def test_a_unit_takes_a_bounded_amount_of_work(
    database: str, monkeypatch: pytest.MonkeyPatch, name: str, limit: int, units: int
) -> None:
    monkeypatch.setattr(writer, name, limit)
    async with open_notified_store(database) as notified:
        assert await notified.do(*map(accepting, range(1, 11))) == [None] * 10
        assert notified.store.counters.units == units
        assert column(database, "SELECT object_id FROM tb_0031 ORDER BY sid") == list(range(1, 11))


async def test_work_posted_while_a_unit_commits_comes_next(database: str) -> None:
    async with open_notified_store(database) as notified:
        second = accepting(2)
        assert await notified.do(accepting(1, lambda: notified.store.post(second))) == [None]
        await second.over.wait()
        assert notified.store.counters.units == 2
        assert stored(database) == [1, 2]


async def test_a_unit_without_changes_writes_nothing(database: str) -> None:
    async with open_notified_store(database) as notified:
        await notified.do(accepting(1))
        before = versions_of_rows(database)
        seen: list[Unit] = []
        assert await notified.do(Job(seen.append, ALL_NEEDS)) == [None]
        assert await notified.do(Job(seen.append)) == [None]
        assert isinstance(seen[0].outbound[1], Outbound)
        assert notified.store.counters.read_only == 2
        assert versions_of_rows(database) == before != []


async def test_an_error_in_an_action_after_a_commit_or_a_failure_harms_no_other_work(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    class FailingAction(Job):
        def _end(self, error: Exception | None) -> None:
            raise ZeroDivisionError

    caplog.set_level(logging.ERROR)
    async with open_notified_store(database) as notified:
        notified.store.post(FailingAction(accepting(1).change, ALL_NEEDS))
        notified.store.post(FailingAction(raising(BadInput()).change, ALL_NEEDS))
        assert await notified.do(accepting(2)) == [None]
        assert stored(database) == [1, 2]
        assert len(caplog.records) == 2


async def test_stopping_finishes_posted_work(database: str) -> None:
    notified = NotifiedStore(database)
    await notified.store.start()
    jobs = [accepting(1), accepting(2)]
    for job in jobs:
        notified.store.post(job)
    await notified.store.stop()
    assert [job.results for job in jobs] == [[None], [None]]
    assert [type(error) for error in await notified.do(accepting(3))] == [StoreUnavailable]
    assert stored(database) == [1, 2]
    assert notified.faults == []


async def test_work_posted_before_the_start_fails(database: str) -> None:
    notified = NotifiedStore(database)
    assert [type(error) for error in await notified.do(accepting(1))] == [StoreUnavailable]
    assert notified.store.waiting == 0
    await notified.store.stop()


async def test_a_submission_by_sql_notifies_the_store(database: str) -> None:
    async with open_notified_store(database) as notified:
        run(database, "SELECT semq_send('56001', 'x')")
        await notified.was_notified.wait()
        assert notified.channels == ["semq_submit"]


# ---------------------------------------------------------------------------------------------------------- helpers


def configure(postgres: Any, statement: str) -> None:
    """Run a statement whose commit waits for no standby, and let the server read its configuration again."""
    with psycopg.connect(postgres.url_of("postgres"), autocommit=True) as connection:
        connection.execute("SET synchronous_commit = local")
        connection.execute(statement.encode())
        connection.execute("SELECT pg_reload_conf()")


def configure_database(database: str, statement: sql.Composed) -> None:
    with psycopg.connect(database, dbname="postgres", autocommit=True) as connection:
        connection.execute(statement)


async def stuck_commit(notified: NotifiedStore) -> tuple[Job, int]:
    """Accept documents until a COMMIT waits for a standby; return its work, and the number of documents before it.

    A new setting applies with a delay, so the first few commits may succeed.
    """
    is_waiting = f"SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = {notified.backend_pid}"
    for number in range(1, 100):
        job = accepting(number)
        notified.store.post(job)
        while not job.over.is_set():
            if column(notified.url, is_waiting) == [True]:
                return job, number - 1
            await asyncio.sleep(0)
    raise AssertionError("no COMMIT ever waited")
