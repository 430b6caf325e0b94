"""The chain of the ledger: every commit extends it, and every manipulation of the ledger is detected."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg._copy_base import format_row_binary

from semq.seal.chain import LINES_MAX, ChainLink
from semq.seal.errors import LedgerChanged
from semq.store.embedded.cluster import DATABASE
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres.chain import Verified, verify
from semq.store.postgres.connections import SharedConnections
from semq.store.postgres.conversion import binary
from semq.store.postgres.lease import WRITER
from semq.store.postgres.ledger_partitions import drop_before, oldest
from semq.store.postgres.store import PostgresStore
from semq.store.rows import Event, LedgerLine, Side
from semq.store.unit import Unit
from tests.conftest import new_database_of
from tests.store.jobs import Job
from tests.store.postgres.test_store import opened

NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
TODAY, YESTERDAY = NOON.date(), (NOON - timedelta(1)).date()
FIRST, LAST = date(2001, 1, 1), TODAY + timedelta(9)


def line(name: str, at: datetime = NOON) -> LedgerLine:
    return LedgerLine(int(at.timestamp() * 1000), Side.SENDER, Event.ACCEPTED, name, "1.56001", detail="…", digest=b"d")


async def write(store: PostgresStore, *units: Sequence[LedgerLine]) -> None:
    """Write each group of lines in a commit of its own."""
    for lines in units:

        def decide(unit: Unit, lines: Sequence[LedgerLine] = lines) -> None:
            unit.ledger.extend(lines)

        job = Job(decide)
        store.post(job)
        async with asyncio.timeout(60):
            await job.over.wait()
        assert job.results == [None]


def check(database: str, head: ChainLink | None = None, first: date = FIRST, last: date = LAST) -> Verified:
    with psycopg.connect(database) as connection:
        return verify(connection, first, last, head)


async def filled(database: str) -> ChainLink:
    """Write lines of two days, not in order of time, in several commits; open the store twice.

    Return the end of the chain, as the second store has it.
    """
    async with opened(database) as store:
        await write(store, [line("a"), line("b")], [line("c", NOON - timedelta(1)), line("d"), line("e")])
    async with opened(database) as store:
        await write(store, [line(f"f{n}") for n in range(12)], [line("g")], [line("h")])
        assert store.chain.head is not None
        return store.chain.head


async def test_commits_extend_the_chain_over_days_and_restarts(database: str) -> None:
    head = await filled(database)
    verified = check(database, head)
    assert verified.lines == 19
    assert verified.head == head
    assert check(database, head, YESTERDAY, YESTERDAY).lines == 1
    assert check(database, head, TODAY, TODAY).lines == 18
    assert check(database, head, date(2001, 1, 1), date(2001, 1, 2)) == Verified(0, 0, head)


async def test_a_line_is_packed_once_for_the_chain_and_for_its_table(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed: list[object] = []

    def counted(values: Sequence[object], transformer: object, out: bytearray) -> None:
        packed.append(values[0])
        format_row_binary(values, transformer, out)

    async with opened(database) as store:
        monkeypatch.setattr(binary, "format_row_binary", counted)
        await write(store, [line(str(n)) for n in range(100)])
        head = store.chain.head
    assert len(packed) == len(set(packed)) == 100
    assert check(database, head).lines == 100


async def test_a_long_day_has_many_links(database: str) -> None:
    async with opened(database) as store:
        await write(store, [line(str(n)) for n in range(LINES_MAX - 1)], [line("x"), line("y")])
        await write(store, [line(str(n)) for n in range(2 * LINES_MAX)])
        head = store.chain.head
    verified = check(database, head)
    assert (verified.lines, verified.links) == (3 * LINES_MAX + 1, 4)


async def test_refused_work_leaves_no_gap_in_the_chain(database: str) -> None:
    async with opened(database) as store:
        await write(store, [line("a")])
        bad = Job(lambda unit: unit.ledger.append(line("b\0ad")))
        store.post(bad)
        await write(store, [line("c")])
        assert bad.results[0] is not None
        assert check(database, store.chain.head).lines == 2


NEXT = "(SELECT min(number) FROM semq_ledger WHERE number > (SELECT number FROM semq_ledger WHERE lk0 = 'f3'))"
TAMPERING = {
    "changes a line": "UPDATE semq_ledger SET detail = 'other' WHERE lk0 = 'f3'",
    "changes a moment": "UPDATE semq_ledger SET at = at + interval '1 microsecond' WHERE lk0 = 'f3'",
    "changes a digest": "UPDATE semq_ledger SET digest = '' WHERE lk0 = 'f3'",
    "moves a line to another day": "UPDATE semq_ledger SET at = at - interval '1 day' WHERE lk0 = 'f3'",
    "deletes a line": "DELETE FROM semq_ledger WHERE lk0 = 'f3'",
    "deletes the first line": "DELETE FROM semq_ledger WHERE lk0 = 'a'",
    "deletes the last line": "DELETE FROM semq_ledger WHERE lk0 = 'h'",
    "deletes everything": "DELETE FROM semq_ledger",
    "inserts a line": "INSERT INTO semq_ledger SELECT number + 1000000, at, side, event, 'new', target, att, lk1,"
    " app_domain, app_type, app_subtype, app_key, digest, size, detail FROM semq_ledger WHERE lk0 = 'a'",
    "inserts a line before all": "INSERT INTO semq_ledger SELECT -5, at, side, event, 'new', target, att, lk1,"
    " app_domain, app_type, app_subtype, app_key, digest, size, detail FROM semq_ledger WHERE lk0 = 'a'",
    "doubles a line": "INSERT INTO semq_ledger SELECT * FROM semq_ledger WHERE lk0 = 'f3'",
    "swaps two lines": f"UPDATE semq_ledger SET number = CASE lk0 WHEN 'f3' THEN {NEXT} ELSE"
    " (SELECT number FROM semq_ledger WHERE lk0 = 'f3') END WHERE lk0 IN ('f3', 'f4')",
    "deletes a day": f"DELETE FROM semq_ledger WHERE at < '{TODAY}'",
    "deletes a day with its link": f"DELETE FROM semq_ledger WHERE at < '{TODAY}';"
    f" DELETE FROM semq_chain WHERE day < '{TODAY}'",
    "deletes a link": "DELETE FROM semq_chain WHERE place = 1",
    "deletes the first link with its lines": "DELETE FROM semq_ledger WHERE lk0 IN ('a', 'b');"
    " DELETE FROM semq_chain WHERE place = 1",
    "changes a link": "UPDATE semq_chain SET count = count + 1",
    "changes the hash of the link before": "UPDATE semq_chain SET before = hash",
    "cuts off the end": f"DELETE FROM semq_ledger WHERE number >= (SELECT max(first) FROM semq_chain);"
    f" DELETE FROM semq_chain WHERE first = (SELECT max(first) FROM semq_chain WHERE day = '{TODAY}')",
}


@pytest.fixture(scope="module")
def original(postgres: EmbeddedPostgres) -> Iterator[tuple[str, ChainLink]]:
    with new_database_of(postgres, template=DATABASE) as url:
        head = asyncio.run(filled(url))
        with psycopg.connect(url) as connection:
            name = connection.info.dbname
        yield name, head


@pytest.mark.parametrize("tampering", TAMPERING)
def test_a_check_of_the_chain_detects_a_changed_ledger(
    postgres: EmbeddedPostgres, original: tuple[str, ChainLink], tampering: str
) -> None:
    name, head = original
    with new_database_of(postgres, template=name) as url:
        with psycopg.connect(url) as connection:
            connection.execute(TAMPERING[tampering].encode())
        with pytest.raises(LedgerChanged):
            check(url, head)


async def test_a_writer_notices_that_its_link_was_changed(database: str) -> None:
    async with opened(database) as store:
        await write(store, [line("a")])
        with psycopg.connect(database) as connection:
            connection.execute("UPDATE semq_chain SET count = 100")
        job = Job(lambda unit: unit.ledger.append(line("b")))
        store.post(job)
        async with asyncio.timeout(60):
            await job.over.wait()
        assert job.results[0] is not None


async def test_a_start_makes_the_chain_for_a_ledger_without_links(database: str) -> None:
    await filled(database)
    with psycopg.connect(database) as connection:
        connection.execute("DELETE FROM semq_chain")
    async with opened(database) as store:
        await write(store, [line("i")])
        assert check(database, store.chain.head).lines == 20


async def test_a_start_needs_one_connection_if_the_ledger_is_empty(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    connect = PostgresStore._connect

    async def note_and_connect(store: PostgresStore, name: str = WRITER) -> psycopg.AsyncConnection[Any]:
        names.append(name)
        return await connect(store, name)

    monkeypatch.setattr(PostgresStore, "_connect", note_and_connect)
    for _ in range(2):
        async with opened(database, rest=SharedConnections(1, 3600.0, 60.0)):  # one connection for all stores
            pass
    assert names == [WRITER] * 2


async def test_days_that_are_no_longer_kept_do_not_break_the_chain(database: str) -> None:
    head = await filled(database)
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        await drop_before(connection, TODAY)
    with psycopg.connect(database) as connection_:
        first = oldest(connection_)
    assert first is not None
    assert check(database, head, first).lines == (18 if first == TODAY else 19)


async def test_the_hash_of_an_earlier_check_must_still_be_in_the_chain(database: str) -> None:
    head = await filled(database)
    async with opened(database) as store:
        await write(store, [line("later")])
    with psycopg.connect(database) as connection:
        assert verify(connection, FIRST, LAST, None, (head.last, head.hash)).lines == 20
        for known in ((head.last, bytes(32)), (head.last + 7_000_000, head.hash)):
            with pytest.raises(LedgerChanged):
                verify(connection, FIRST, LAST, None, known)
