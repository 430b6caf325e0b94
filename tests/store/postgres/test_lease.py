"""The right to write: one process has it at a time; a process at the place of the owner takes it over at once."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, text

from semq.clock import SystemClock
from semq.errors import SemqError
from semq.seal.chain import ChainLink
from semq.store import reader
from semq.store.embedded.errors import NotDurable
from semq.store.postgres import lease, refusals, store, writer
from semq.store.postgres.chain import insert_links, links_of_ledger
from semq.store.postgres.errors import LeaseHeld, StoreFenced, StoreForeign, StoreUnavailable
from semq.store.postgres.lease import VALID_S
from semq.store.postgres.locked_bodies import verify_master_key
from semq.store.postgres.owner import NOWHERE, Owner
from semq.store.postgres.schema_version import head
from semq.store.postgres.store import PostgresStore
from semq.store.rows import Event, LedgerLine, Side
from semq.store.unit import Unit
from semq.store.work import Work
from tests.store.jobs import Job
from tests.store.postgres.notified_store import (
    NO_TRANSACTIONS,
    NotifiedStore,
    accepting,
    column,
    open_notified_store,
    run,
    stored,
    until_true,
)


async def test_another_process_is_refused_while_the_lease_is_held(database: str) -> None:
    async with open_notified_store(database):
        with pytest.raises(LeaseHeld) as caught:
            await NotifiedStore(database, "two").store.start()
        assert caught.value.facts["owner"] == "1.10008 host one -"
        assert 0 < caught.value.facts["until_s"] <= VALID_S
    async with open_notified_store(database, "two"):
        assert column(database, "SELECT owner FROM store_lease") == ["1.10008 host two -"]


async def test_the_store_of_another_node_is_refused_whether_it_is_open_or_not(database: str) -> None:
    foreign = PostgresStore(database, owner=Owner("1.10009", "host", "two"), clock=SystemClock(), lost=lambda _: None)
    assert await foreign.inspect() == head()  # nobody has opened the store yet
    async with open_notified_store(database):
        with pytest.raises(StoreForeign) as caught:
            await foreign.start()
        assert caught.value.facts == {"store": "1.10008", "configured": "1.10009"}
    for act in foreign.start, foreign.inspect:
        with pytest.raises(StoreForeign):
            await act()
    await foreign.stop()
    assert column(database, "SELECT owner FROM store_lease") == ["1.10008 host one -"]


async def test_a_store_that_was_taken_over_writes_nothing(database: str) -> None:
    async with open_notified_store(database) as first:
        await first.do(accepting(1))
        run(database, "UPDATE store_lease SET until = clock_timestamp()")
        async with open_notified_store(database, "two") as second:
            result = await first.do(accepting(2), accepting(3))
            assert [type(error) for error in result] == [StoreFenced] * 2
            await first.lost.wait()
            assert [type(fault) for fault in first.faults] == [StoreFenced]
            assert await second.do(accepting(4)) == [None]
        assert stored(database) == [1, 4]


def suspend(notified: NotifiedStore, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let a store stop in the transaction of its next COPY; return an event that is set then."""
    suspended = asyncio.Event()
    monkeypatch.setattr(writer, "COPY_FROM", 1)
    monkeypatch.setattr(notified.store._wire, "_feed", lambda _exchange: suspended.set())
    return suspended


# Sessions that have waited in a transaction for longer than ``expires_soon`` lets a takeover wait.
WAITING = """
    SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'
        AND state_change < clock_timestamp() - interval '0.06 s'"""


@pytest.fixture
def expires_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (lease, "VALID_S"), (writer, "VALID_S"), (lease, "RENEW_S"):
        monkeypatch.setattr(module, name, 0.05)


@pytest.mark.usefixtures("expires_soon")
async def test_the_store_of_a_process_that_is_suspended_in_a_transaction_is_taken_over(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_notified_store(database) as first:
        suspended = suspend(first, monkeypatch)
        first.store.post(work := accepting(1))
        await suspended.wait()
        second = NotifiedStore(database, "two")
        await second.reopen()
        assert await second.do(accepting(2)) == [None]
        await work.over.wait()
        assert [type(error) for error in work.results] == [StoreUnavailable]
        await second.store.stop()
    assert stored(database) == [2]


@pytest.mark.usefixtures("expires_soon")
async def test_the_store_of_a_process_that_is_suspended_in_a_transaction_beside_its_writer_is_taken_over(
    database: str,
) -> None:
    """Its transaction has changed semq_meta, as the load of a broker does; a takeover changes that row, too."""
    async with open_notified_store(database) as first:
        suspended, resumed = threading.Event(), threading.Event()

        def change(connection: Connection) -> None:
            connection.execute(text("UPDATE semq_meta SET broker_ended = true"))
            suspended.set()
            resumed.wait()
            connection.execute(text("UPDATE semq_meta SET broker_ended = false"))

        changing = asyncio.create_task(first.store.execute_as_owner(first.store.current_lease, change))
        await asyncio.to_thread(suspended.wait)
        second = NotifiedStore(database, "two")
        try:
            await second.reopen()
        finally:
            resumed.set()
        with pytest.raises(StoreUnavailable):
            await changing
        await second.store.stop()
    assert column(database, "SELECT broker_ended FROM semq_meta") == [False]


@pytest.mark.usefixtures("expires_soon")
async def test_a_process_that_is_suspended_between_load_and_commit_has_no_transaction_and_writes_nothing(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspended, resumed = asyncio.Event(), asyncio.Event()
    async with open_notified_store(database) as first:
        assert first.store._writer is not None
        decide = first.store._writer._decide

        async def decide_later(works: list[Work], unit: Unit) -> tuple[int, SemqError | None]:
            suspended.set()
            await resumed.wait()
            return await decide(works, unit)

        monkeypatch.setattr(first.store._writer, "_decide", decide_later)
        first.store.post(work := accepting(1))
        await suspended.wait()
        second = NotifiedStore(database, "two")
        await second.reopen()
        resumed.set()
        await work.over.wait()
        assert [type(error) for error in work.results] == [StoreFenced]
        await second.store.stop()
    assert stored(database) == []


@pytest.mark.usefixtures("expires_soon")
async def test_a_takeover_does_not_end_the_writer_of_a_store_in_another_schema(database: str) -> None:
    async with open_notified_store(database):
        pass
    run(database, "CREATE SCHEMA other; CREATE TABLE other.store_lease AS SELECT FROM store_lease")
    with psycopg.connect(database, application_name=lease.WRITER) as other:
        other.execute("SELECT FROM other.store_lease FOR SHARE")
        await until_true(database, f"SELECT count(*) = 1 FROM ({WAITING}) a")
        async with open_notified_store(database, "two"):
            other.execute("SELECT")


@pytest.mark.usefixtures("expires_soon")
async def test_a_takeover_ends_a_suspended_session_that_reads_the_ledger_for_the_chain(database: str) -> None:
    async with open_notified_store(database):
        pass
    with psycopg.connect(database, application_name=lease.CHAIN_READER) as reading:
        reading.execute("SELECT FROM semq_ledger")
        await until_true(database, f"SELECT count(*) = 1 FROM ({WAITING}) a")
        async with open_notified_store(database, "two"):
            with pytest.raises(psycopg.OperationalError):
                reading.execute("SELECT")


async def test_sessions_beside_the_writer_of_a_suspended_process_end_before_its_lease_expires() -> None:
    assert reader.SUSPENDED_MS / 1000 < VALID_S


class ReadLedger:
    """Reads of the ledger for a new chain, which end when the test permits it."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def links(self, connection: psycopg.AsyncConnection[Any], store_uuid: str) -> list[ChainLink]:
        links = await links_of_ledger(connection, store_uuid)
        self.has_begun.set()
        await self.may_end.wait()
        return links


@pytest.fixture
async def ledger_without_chain(database: str, monkeypatch: pytest.MonkeyPatch) -> ReadLedger:
    async with open_notified_store(database, place="here") as older:
        line = LedgerLine(0, Side.HUB, Event.STORED, "1.10008.1.1.a.1")
        assert await older.do(Job(lambda unit: unit.ledger.append(line))) == [None]
    run(database, "DELETE FROM semq_chain")
    ledger = ReadLedger()
    monkeypatch.setattr(store, "links_of_ledger", ledger.links)
    return ledger


async def test_the_lease_is_renewed_while_the_chain_is_made(
    database: str, ledger_without_chain: ReadLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEW_S", 0.05)
    starting = asyncio.create_task((first := NotifiedStore(database)).store.start())
    await ledger_without_chain.has_begun.wait()
    (before,) = column(database, "SELECT until FROM store_lease")
    await until_true(database, f"SELECT until > '{before}' FROM store_lease")
    ledger_without_chain.may_end.set()
    await starting
    assert column(database, "SELECT count FROM semq_chain") == [1]
    await first.store.stop()


async def test_the_lease_is_valid_for_its_whole_time_when_the_chain_has_been_stored(
    database: str, ledger_without_chain: ReadLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def insert_slowly(connection: psycopg.AsyncConnection[Any], links: Iterable[ChainLink]) -> None:
        await insert_links(connection, links)
        await connection.execute("UPDATE store_lease SET until = clock_timestamp()")  # as if VALID_S had passed

    monkeypatch.setattr(store, "insert_links", insert_slowly)
    ledger_without_chain.may_end.set()
    async with open_notified_store(database):
        valid = f"SELECT until > clock_timestamp() + interval '{VALID_S / 2} s' FROM store_lease"
        assert column(database, valid) == [True]
        assert column(database, "SELECT count FROM semq_chain") == [1]


@pytest.mark.parametrize("is_suspended", [True, False])
async def test_a_process_whose_store_is_taken_over_while_it_makes_the_chain_adds_nothing_to_it(
    database: str, ledger_without_chain: ReadLedger, monkeypatch: pytest.MonkeyPatch, is_suspended: bool
) -> None:
    if not is_suspended:
        monkeypatch.setattr(lease, "RENEW_S", 0.05)
    first, second = NotifiedStore(database, "one", "here"), NotifiedStore(database, "two", "here")
    starting = asyncio.create_task(first.store.start())
    await ledger_without_chain.has_begun.wait()
    monkeypatch.setattr(store, "links_of_ledger", links_of_ledger)
    await second.reopen()  # LeaseHeld, if it meets a renewal
    if is_suspended:
        ledger_without_chain.may_end.set()
    with pytest.raises(StoreFenced):
        await starting
    await second.store.stop()
    assert column(database, "SELECT count FROM semq_chain") == [1]


async def cut_off(notified: NotifiedStore) -> None:
    """End the connection of a store from the server's side."""
    run(notified.url, f"SELECT pg_terminate_backend({notified.backend_pid})")
    await notified.lost.wait()


async def test_a_store_that_another_process_has_had_meanwhile_is_not_opened_again(database: str) -> None:
    async with open_notified_store(database, "one", "here") as first:
        await cut_off(first)
        async with open_notified_store(database, "two", "here"):
            with pytest.raises(StoreFenced):
                await first.store.start()
        with pytest.raises(StoreFenced) as caught:
            await first.store.start()
        assert caught.value.facts == {"owner": "1.10008 host two here", "until_s": 0.0}
        assert (caught.value.text, first.store.counters.went_back) == (StoreFenced().text, 0)
        assert column(database, "SELECT epoch FROM store_lease") == [2]


@pytest.mark.parametrize("owner", ["1.10008 host ended here", ""], ids=["another", "this process"])
async def test_a_database_that_went_back_to_a_former_owner_is_reported(
    database: str, caplog: pytest.LogCaptureFixture, owner: str
) -> None:
    """It was restored, or the standby that became the primary lacks the takeover by this process."""
    async with open_notified_store(database, "ended", "here"):
        pass
    async with open_notified_store(database, "one", "here") as first:
        line = LedgerLine(0, Side.HUB, Event.STORED, "1.10008.1.1.a.1")
        assert await first.do(Job(lambda unit: unit.ledger.append(line))) == [None]
        await cut_off(first)
        owner = owner or column(database, "SELECT owner FROM store_lease")[0]
        run(database, f"UPDATE store_lease SET epoch = 1, owner = '{owner}'")
        run(database, "DELETE FROM semq_chain; DELETE FROM semq_ledger")
        with pytest.raises(StoreFenced, match="older than this process") as caught:
            await first.store.start()
        assert caught.value.facts["owner"] == owner
        assert first.store.counters.went_back == 1
        assert "the store lacks commits, its ledger ends with None: its lease is older" in caplog.text
        assert column(database, "SELECT epoch FROM store_lease") == [1]


@pytest.fixture
def fail_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function whose call makes the next opening of a store fail just after the takeover."""

    def fail() -> None:
        async def lose(*_arguments: object) -> None:
            monkeypatch.setattr(store, "verify_master_key", verify_master_key)
            raise psycopg.OperationalError

        monkeypatch.setattr(store, "verify_master_key", lose)

    return fail


async def test_an_opening_that_failed_after_its_takeover_is_repeated(
    database: str, fail_once: Callable[[], None]
) -> None:
    """So is an opening whose takeover was perhaps committed."""
    async with open_notified_store(database) as first:
        await cut_off(first)
        fail_once()
        with pytest.raises(StoreUnavailable) as caught:
            await first.store.start()
        assert not isinstance(caught.value, StoreFenced)
        await first.store.start()
        assert column(database, "SELECT epoch FROM store_lease") == [3]
        assert await first.do(accepting(1)) == [None]


async def test_a_store_that_was_never_open_here_is_opened_after_another_process(
    database: str, fail_once: Callable[[], None]
) -> None:
    first = NotifiedStore(database, "one", "here")
    fail_once()
    with pytest.raises(StoreUnavailable):
        await first.store.start()
    async with open_notified_store(database, "two", "here"):
        pass
    await first.store.start()
    await first.store.stop()


async def test_a_change_that_only_the_owner_may_make_is_refused_after_a_takeover(database: str) -> None:
    def change(connection: Connection) -> None:
        connection.execute(text("DELETE FROM semq_meta"))

    async with open_notified_store(database, "one", "here") as first, open_notified_store(database, "two", "here"):
        with pytest.raises(StoreFenced):
            await first.store.execute_as_owner(first.store.current_lease, change)
        assert column(database, "SELECT count(*) FROM semq_meta") == [1]


@pytest.mark.usefixtures("expires_soon")
async def test_a_former_session_of_the_owner_does_not_end_the_owner(database: str) -> None:
    """The process of the owner may not have noticed that the former session was lost."""
    async with open_notified_store(database) as first:
        with psycopg.connect(database) as former:
            former.execute("SELECT FROM store_lease FOR SHARE")
            await first.reopen()  # StoreUnavailable, until the former session has waited long enough and is ended
            with pytest.raises(psycopg.OperationalError):
                former.execute("SELECT")
        assert await first.do(accepting(1)) == [None]


@pytest.mark.usefixtures("expires_soon")
async def test_a_store_is_not_opened_while_another_role_locks_its_lease(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "END_SUSPENDED", "SELECT pg_terminate_backend(0) WHERE %(renew_s)s = 0")
    async with open_notified_store(database) as first:
        with psycopg.connect(database) as other:
            other.execute("SELECT FROM store_lease FOR SHARE")
            with pytest.raises(StoreUnavailable):
                await first.store.start()
            run(database, "SELECT pg_sleep(0.06)")  # until the lease has expired
            with pytest.raises(LeaseHeld):
                await NotifiedStore(database, "two").store.start()
        await first.store.start()


@pytest.mark.usefixtures("expires_soon")
async def test_a_session_that_only_reads_the_lease_is_not_ended(database: str) -> None:
    async with open_notified_store(database):
        pass
    with psycopg.connect(database) as reading:
        reading.execute("SELECT FROM store_lease")
        run(database, "SELECT pg_sleep(0.1)")
        async with open_notified_store(database, "two"):
            reading.execute("SELECT")


async def test_a_process_does_not_wait_for_the_transaction_of_a_lease_that_is_held(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_notified_store(database) as first:
        suspended = suspend(first, monkeypatch)
        first.store.post(accepting(1))
        await suspended.wait()
        with pytest.raises(LeaseHeld):
            await NotifiedStore(database, "two").store.start()
        run(database, f"SELECT pg_terminate_backend({first.backend_pid})")
        await first.lost.wait()


async def test_an_idle_store_notices_the_loss_of_its_lease_at_the_next_renewal(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RENEW_S", 0.05)
    async with open_notified_store(database) as first:
        run(database, "UPDATE store_lease SET epoch = epoch + 1, owner = '1.10008 host two -'")
        await first.lost.wait()
        assert [type(fault) for fault in first.faults] == [StoreFenced]


async def test_an_idle_store_that_the_server_lets_renew_nothing_is_lost(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RENEW_S", 0.05)
    monkeypatch.setattr(refusals, "OF_SERVER", ("exec_stmt_raise",))
    async with open_notified_store(database) as first:
        run(database, NO_TRANSACTIONS.format("UPDATE ON store_lease"))
        await first.lost.wait()
        assert [fault.facts["sqlstate"] for fault in first.faults] == ["54000"]


async def test_the_lease_is_renewed(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RENEW_S", 0.05)
    async with open_notified_store(database):
        (before,) = column(database, "SELECT until FROM store_lease")
        await until_true(database, f"SELECT until > '{before}' FROM store_lease")


async def test_the_lease_is_renewed_under_load_too(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_notified_store(database) as notified:
        (before,) = column(database, "SELECT until FROM store_lease")
        monkeypatch.setattr(notified.store._writer, "_renew_at", 0.0)
        assert await notified.do(accepting(1)) == [None]
        assert column(database, f"SELECT until > '{before}' FROM store_lease") == [True]


@pytest.mark.parametrize("second", [("one", NOWHERE), ("one", "here"), ("two", "here")])
async def test_the_same_process_or_place_takes_over_immediately(database: str, second: tuple[str, str]) -> None:
    async with open_notified_store(database, "one", "here") as before, open_notified_store(database, *second) as after:
        result = await before.do(accepting(1))
        assert [type(error) for error in result] == [StoreFenced]
        assert await after.do(accepting(2)) == [None]


@pytest.mark.parametrize("places", [(NOWHERE, NOWHERE), ("here", NOWHERE), (NOWHERE, "here"), ("here", "there")])
async def test_a_process_without_the_place_of_the_owner_does_not_take_over(
    database: str, places: tuple[str, str]
) -> None:
    async with open_notified_store(database, "one", places[0]) as first:
        with pytest.raises(LeaseHeld):
            await NotifiedStore(database, "two", places[1]).store.start()
        assert await first.do(accepting(1)) == [None]


async def test_an_owner_in_the_form_of_older_versions_has_no_place(database: str) -> None:
    async with open_notified_store(database, "one", "here"):
        run(database, "UPDATE store_lease SET owner = '1.10008'")
        with pytest.raises(LeaseHeld):
            await NotifiedStore(database, "two", "here").store.start()


def change_default(database: str, setting: str) -> None:
    run(database, f"ALTER DATABASE {conninfo_to_dict(database)['dbname']} SET {setting}")


async def test_the_settings_of_the_server_are_checked_at_each_opening(database: str) -> None:
    """The connections for reading keep the settings with which they began."""
    async with open_notified_store(database) as notified:
        await notified.store.execute(lambda connection: connection.execute(text("SELECT 1")).all())
        change_default(database, "synchronous_commit = off")
        with pytest.raises(NotDurable):
            await notified.store.start()


async def test_the_isolation_level_does_not_depend_on_the_server(database: str) -> None:
    change_default(database, "default_transaction_isolation = serializable")
    async with open_notified_store(database, "one", "here") as notified:
        async with await notified.store._connect() as connection:
            assert await (await connection.execute("SHOW transaction_isolation")).fetchone() == ("read committed",)
        assert await notified.do(accepting(1)) == [None]


async def test_a_store_that_cannot_give_the_lease_back_stops_anyway(database: str) -> None:
    async with open_notified_store(database) as notified:
        assert await notified.do(accepting(1)) == [None]
        change_default(database, "default_transaction_read_only = on")
    assert stored(database) == [1]
