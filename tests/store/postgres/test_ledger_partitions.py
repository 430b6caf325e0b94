"""Partitions of the ledger, one for each day: created ahead, created late, and dropped, while lines are written."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from semq.store.postgres import ledger_partitions
from semq.store.postgres.ledger_partitions import OTHER, day_of, drop_before, make_ahead, partition_of, partitions
from semq.store.rows import Event, LedgerLine, Side
from tests.store.jobs import Job
from tests.store.postgres.notified_store import NotifiedStore, column, open_notified_store

DAY = date(2031, 3, 1)


def test_a_partition_is_named_by_its_day() -> None:
    assert partition_of(DAY) == "semq_ledger_20310301"
    assert day_of(partition_of(DAY)) == DAY


async def connect(url: str) -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(url, autocommit=True)


def ms(day: date, *, plus: int = 0) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000) + plus


async def write(notified: NotifiedStore, *at: int) -> None:
    lines = [LedgerLine(when, Side.HUB, Event.STORED, f"at {when}") for when in at]
    assert await notified.do(Job(lambda unit: unit.ledger.extend(lines))) == [None]


def partitions_of_lines(url: str) -> dict[str, str]:
    with psycopg.connect(url) as connection:
        return dict(connection.execute("SELECT lk0, tableoid::regclass::text FROM semq_ledger").fetchall())


async def test_a_line_is_in_the_partition_of_its_day_to_the_millisecond(database: str) -> None:
    async with (
        open_notified_store(database) as notified,
        await connect(database) as connection,
    ):
        made = await make_ahead(connection, DAY, days=2)
        assert made == [partition_of(DAY + timedelta(n)) for n in (-1, 0, 1, 2)]
        edges = (ms(DAY, plus=-1), ms(DAY), ms(DAY + timedelta(1), plus=-1), ms(DAY + timedelta(1)))
        await write(notified, *edges)
        days = (DAY - timedelta(1), DAY, DAY, DAY + timedelta(1))
        assert partitions_of_lines(database) == {
            f"at {at}": partition_of(day) for at, day in zip(edges, days, strict=True)
        }
        assert await make_ahead(connection, DAY, days=2) == []


async def test_a_line_without_a_partition_is_moved_when_its_partition_is_made(database: str) -> None:
    async with (
        open_notified_store(database) as notified,
        await connect(database) as connection,
    ):
        await write(notified, ms(DAY), ms(DAY + timedelta(5)))
        assert set(partitions_of_lines(database).values()) == {OTHER}
        await make_ahead(connection, DAY, days=0)
        assert partitions_of_lines(database) == {
            f"at {ms(DAY)}": partition_of(DAY),
            f"at {ms(DAY + timedelta(5))}": OTHER,
        }
        await write(notified, ms(DAY, plus=1))
        assert partitions_of_lines(database)[f"at {ms(DAY, plus=1)}"] == partition_of(DAY)


async def test_partitions_of_old_days_are_dropped(database: str) -> None:
    async with (
        open_notified_store(database),
        await connect(database) as connection,
    ):
        await make_ahead(connection, DAY, days=0)
        kept = await partitions(connection)
        await make_ahead(connection, date(2001, 1, 1), days=1)
        assert await drop_before(connection, date(2001, 1, 2)) == ["semq_ledger_20001231", "semq_ledger_20010101"]
        assert await partitions(connection) == ["semq_ledger_20010102", *kept]


async def test_old_lines_that_never_had_a_partition_are_deleted_too(database: str) -> None:
    async with (
        open_notified_store(database) as notified,
        await connect(database) as connection,
    ):
        await write(notified, ms(DAY), ms(DAY + timedelta(5)))
        await drop_before(connection, DAY + timedelta(1))
        assert list(partitions_of_lines(database)) == [f"at {ms(DAY + timedelta(5))}"]


async def test_the_creation_of_a_partition_never_delays_the_writer(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a long query reads the whole ledger, the creation fails."""
    monkeypatch.setattr(ledger_partitions, "LOCK_WAIT_MS", 50)
    async with (
        open_notified_store(database) as notified,
        await connect(database) as connection,
    ):
        with psycopg.connect(database) as report:
            report.execute("SELECT count(*) FROM semq_ledger")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                await make_ahead(connection, DAY, days=0)
            await write(notified, ms(DAY))
        assert await make_ahead(connection, DAY, days=0) != []
        assert column(database, f"SELECT count(*) FROM {partition_of(DAY)}") == [1]


async def test_a_process_that_is_suspended_while_it_drops_a_partition_delays_no_other(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_partitions, "SUSPENDED_MS", 1000)
    async with open_notified_store(database) as notified, await connect(database) as connection:
        name = (await make_ahead(connection, DAY, days=0))[0]
        drop = sql.SQL("DROP TABLE {}").format(sql.Identifier(name))

        async def suspended() -> None:
            async with ledger_partitions._limited_transaction(connection):
                await connection.execute(drop)
                await write(notified, ms(DAY - timedelta(1)))
                await connection.execute(drop)

        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            await suspended()
        assert list(partitions_of_lines(database).values()) == [name]


async def test_lines_are_numbered_in_the_order_of_commits(database: str) -> None:
    async with open_notified_store(database) as notified:
        for at in range(5):
            await write(notified, ms(DAY, plus=9 - at), ms(DAY, plus=100))
        numbers: list[Any] = column(database, "SELECT number FROM semq_ledger ORDER BY number")
        assert numbers == list(range(numbers[0], numbers[0] + 10))
        assert column(database, "SELECT lk0 FROM semq_ledger ORDER BY number")[::2] == [
            f"at {ms(DAY, plus=9 - at)}" for at in range(5)
        ]
