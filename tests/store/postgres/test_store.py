"""The store on Postgres: it returns the same rows as the store in memory, and reports lost connections."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, exc, text

from semq.clock import SystemClock
from semq.engine.core import note_lines
from semq.store.embedded.cluster import DATABASE
from semq.store.postgres import store as store_module
from semq.store.postgres.connections import SharedConnections
from semq.store.postgres.errors import StoreFenced, StoreUnavailable
from semq.store.postgres.lease import Lease
from semq.store.postgres.owner import Owner
from semq.store.postgres.recovery import recover
from semq.store.postgres.store import PostgresStore
from semq.store.rows import Event, LedgerLine, Side
from semq.store.unit import Recovered, StreamsTo, Unit
from tests.depth import deeper
from tests.memory_store.store import MemoryStore
from tests.store.jobs import ALL_NEEDS, GIVE, IDS, Action, Job, job_of, load_everything

TABLES = (
    "tb_0031 tb_0031_body tb_0031_stream tb_0031_order tb_0031_token tb_0031_submit tb_0030 tb_0030_body tb_0030_stream"
    " tb_0030_ledger tb_0030_seen tb_0030_done semq_ledger broker_message"
).split()


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[PostgresStore]:
    defaults: dict[str, Any] = {
        "owner": Owner("1.10008", "host", "test"),
        "clock": SystemClock(),
        "lost": lambda fault: None,
    }
    store = PostgresStore(url, **(defaults | options))
    await store.start()
    try:
        yield store
    finally:
        await store.stop()


async def do(store: PostgresStore, *jobs: Job) -> None:
    for job in jobs:
        store.post(job)
    for job in jobs:
        await job.over.wait()


rows, variants = st.integers(IDS.start, IDS.stop - 1), st.integers(0, 279)
units_of_actions = st.lists(
    st.lists(st.tuples(st.integers(0, GIVE - 1), rows, variants), min_size=1, max_size=12)
    | st.tuples(st.just(GIVE), rows, variants).map(lambda action: [action]),
    min_size=1,
    max_size=8,
)


def comparable(unit: Unit) -> dict[str, Any]:
    """Return the loaded content of a unit; rows whose order is undefined are sorted."""
    names = "outbound relayed tokens out_streams last_pos in_streams recorded seen pending bodies pending_bodies"
    seen = {name: getattr(unit, name) for name in names.split()}
    for query, rows in unit.found.items():
        seen[repr(query)] = sorted(rows, key=lambda stream: str(stream.key)) if isinstance(query, StreamsTo) else rows
    return seen


def results_of(jobs: list[Job]) -> list[list[str]]:
    return [list(map(repr, job.results)) for job in jobs]


def forget_recent_rows(store: PostgresStore) -> None:
    """Let the next unit load all its rows."""
    assert store._writer is not None
    store._writer._recent.clear()


async def compare_both_stores(postgres: PostgresStore, units: list[list[Action]]) -> None:
    memory = MemoryStore()
    for actions in units:
        in_memory, in_postgres = [job_of(action) for action in actions], [job_of(action) for action in actions]
        for job in in_memory:
            memory.post(job)
        memory.run_all()
        await do(postgres, *in_postgres)
        assert results_of(in_postgres) == results_of(in_memory)
        (memory_load, expected), (postgres_load, loaded) = load_everything(), load_everything()
        memory.post(memory_load)
        memory.run_all()
        await do(postgres, postgres_load)
        assert comparable(loaded[-1]) == comparable(expected[-1])
        stored_load, stored = load_everything()
        forget_recent_rows(postgres)
        await do(postgres, stored_load)
        assert comparable(stored[-1]) == comparable(expected[-1])
    lines = await postgres.execute(
        lambda c: c.exec_driver_sql("SELECT lk0, event, att FROM semq_ledger ORDER BY number").all()
    )
    assert [tuple(line) for line in lines] == [(e.lk0, int(e.event), e.att) for e in memory.tables.ledger]
    compare_recovered(memory.recover(1), await postgres.start())


def _without_streams(r: Recovered) -> tuple[Any, ...]:
    unfinished = r.backlog, r.tracks, r.refused, r.unsettled, r.settled, r.finished, r.pending, r.stopped_orders
    return *unfinished, r.retired, r.custody, r.pieces


def compare_recovered(expected: Recovered, recovered: Recovered) -> None:
    streams = [stream for stream in expected.streams if stream.floor < stream.next_sid]
    identity = (recovered.store_uuid, recovered.boot, recovered.inc, recovered.first_id)
    assert recovered == Recovered(*identity, recovered.streams, *_without_streams(expected))
    assert sorted(recovered.streams, key=str) == sorted(streams, key=str)


@settings(max_examples=deeper(10, 25))
@given(units=units_of_actions)
def test_postgres_and_memory_return_the_same_rows(database_for_all: str, units: list[list[Action]]) -> None:
    async def run() -> None:
        clear(database_for_all)
        async with opened(database_for_all) as store:
            await compare_both_stores(store, units)

    asyncio.run(run())


@pytest.fixture(scope="module")
def database_for_all(postgres: Any) -> str:
    with psycopg.connect(postgres.url_of("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE agreement TEMPLATE {DATABASE}")
    return str(postgres.url_of("agreement"))


def clear(url: str) -> None:
    with psycopg.connect(url) as connection:
        for table in TABLES:
            connection.execute(f"DELETE FROM {table}")  # faster than TRUNCATE


async def test_the_connection_of_an_abandoned_query_is_closed(database: str) -> None:
    readers = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'semq-reader' AND datname = %s"
    async with opened(database) as store:
        has_begun = threading.Event()

        def query(connection: Connection) -> None:
            connection.execute(text("SELECT 1"))
            has_begun.set()
            connection.execute(text("SELECT pg_sleep(0.5)"))

        asking = asyncio.create_task(store.execute(query))
        await asyncio.to_thread(has_begun.wait)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    with psycopg.connect(database, autocommit=True) as connection:
        while connection.execute(readers, [connection.info.dbname]).fetchone() != (0,):
            connection.execute("SELECT pg_sleep(0.02)")


@pytest.mark.parametrize(
    "fault", [psycopg.InterfaceError("closed"), exc.InterfaceError("", None, OSError()), exc.TimeoutError("no place")]
)
async def test_an_unavailable_connection_is_reported_as_an_unavailable_store(database: str, fault: Exception) -> None:
    def query(connection: Connection) -> None:
        raise fault

    async with opened(database) as store:
        with pytest.raises(StoreUnavailable):
            await store.execute(query)


async def test_on_lines_gets_the_lines_of_each_commit_before_the_actions_of_the_work(database: str) -> None:
    seen: list[str] = []

    def note_and_fail(lines: Sequence[LedgerLine]) -> None:
        seen.extend(line.lk0 for line in lines)
        raise ValueError("an error of this callback harms no commit")

    async with opened(database, on_lines=note_and_fail) as store:
        done = asyncio.Event()

        def end() -> None:
            seen.append("action")
            done.set()

        store.post(note_lines([LedgerLine(1, Side.HUB, Event.STORED, "one")], end))
        await done.wait()
        assert seen == ["one", "action"]
        assert await store.execute(lambda connection: connection.scalar(text("SELECT count(*) FROM semq_ledger"))) == 1


async def test_a_store_whose_tables_changed_while_it_rested_is_lost(database: str) -> None:
    faults: list[Exception] = []
    async with opened(database, lost=faults.append, rest=SharedConnections(1, 3600.0, 60.0)) as store:
        assert await store.rest()
        with psycopg.connect(database) as connection:
            connection.execute("ALTER TABLE tb_0031 RENAME COLUMN held TO other")
        job = Job(lambda unit: None, ALL_NEEDS)
        async with asyncio.timeout(60):
            await do(store, job)
        assert [type(error) for error in (*job.results, *faults)] == [StoreUnavailable, StoreUnavailable]
        assert store.state == "lost"
        with pytest.raises(StoreUnavailable, match="held"):
            await store.start()


def ask(connection: Connection) -> bool:
    return bool(connection.scalar(text("SELECT true")))


async def assert_unavailable(store: PostgresStore, lease: Lease) -> None:
    """Assert that a change under a lease is refused, although no other process has taken the store over."""
    with pytest.raises(StoreUnavailable) as caught:
        await store.execute_as_owner(lease, ask)
    assert not isinstance(caught.value, StoreFenced)


async def test_changes_that_only_the_owner_may_make_need_the_lease_of_the_open_store(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = asyncio.Event()

    async def fail(*_arguments: object) -> None:
        raise psycopg.OperationalError

    async with opened(database, lost=lambda fault: lost.set()) as store:
        first = store.current_lease
        assert await store.execute_as_owner(first, ask)
        store.break_off("The test has ended the connection.")
        await lost.wait()
        await assert_unavailable(store, first)
        with monkeypatch.context() as failing:
            failing.setattr(store_module, "verify_master_key", fail)  # after the takeover
            with pytest.raises(StoreUnavailable):
                await store.start()
        with pytest.raises(StoreUnavailable):
            store.current_lease  # noqa: B018
        await store.start()
        await assert_unavailable(store, first)
        last = store.current_lease
        assert await store.execute_as_owner(last, ask)
    await assert_unavailable(store, last)


async def test_the_owner_of_a_store_that_rests_may_change_it(database: str) -> None:
    async with opened(database, rest=SharedConnections(1, 3600.0, 60.0)) as store:
        assert await store.rest()
        assert await store.execute_as_owner(store.current_lease, ask)
        assert store.state == "rest"


async def test_a_change_that_has_begun_before_its_process_opens_the_store_again_reports_no_other_owner(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The takeover is committed, but the start has not ended yet."""
    has_recovered, may_end = asyncio.Event(), asyncio.Event()

    async def recover_and_wait(*arguments: Any, **settings: Any) -> Any:
        result = await recover(*arguments, **settings)
        has_recovered.set()
        await may_end.wait()
        return result

    async with opened(database) as store:
        execute = store.execute

        async def execute_late(query: Any, *arguments: Any) -> Any:
            await has_recovered.wait()
            return await execute(query, *arguments)

        monkeypatch.setattr(store, "execute", execute_late)
        monkeypatch.setattr(store_module, "recover", recover_and_wait)
        changing = asyncio.create_task(assert_unavailable(store, store.current_lease))
        starting = asyncio.create_task(store.start())
        await changing
        may_end.set()
        await starting
