"""The partitions of semq_ledger, one per day (UTC): created ahead, dropped when their retention period has ended.

A line for a day without a partition is stored in ``semq_ledger_other``, so that an insert never fails. When the day's
partition is created, its lines are moved there.
"""

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta

import psycopg
from psycopg import sql

from semq.store.reader import SUSPENDED_MS

AHEAD_DAYS = 3
LOCK_WAIT_MS = 2000
OTHER = "semq_ledger_other"

PARTITIONS = """
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'semq_ledger'::regclass ORDER BY 1"""
# Names are compared in Python: with a comparison, the query would take longer to plan than to run.
_NAME = re.compile("semq_ledger_[0-9]{8}")


def partition_of(day: date) -> str:
    """Return the name of a day's partition."""
    return f"semq_ledger_{day:%Y%m%d}"


def day_of(partition: str) -> date:
    """Return the day of a partition."""
    return datetime.strptime(partition.rpartition("_")[2], "%Y%m%d").replace(tzinfo=UTC).date()


async def partitions(connection: psycopg.AsyncConnection) -> list[str]:
    """Return the existing partitions, oldest first."""
    return _of_days(await (await connection.execute(PARTITIONS)).fetchall())


def oldest(connection: psycopg.Connection) -> date | None:
    """Return the day of the oldest partition; None without partitions."""
    names = _of_days(connection.execute(PARTITIONS.encode()).fetchall())
    return day_of(names[0]) if names else None


def is_missing(connection: psycopg.Connection, day: date) -> bool:
    """Return whether a day has no partition, although the store has been opened on it."""
    return partition_of(day) not in _of_days(connection.execute(PARTITIONS.encode()).fetchall())


def _of_days(rows: Iterable[tuple[str]]) -> list[str]:
    return [name for (name,) in rows if _NAME.fullmatch(name)]


async def make_ahead(connection: psycopg.AsyncConnection, today: date, days: int = AHEAD_DAYS) -> list[str]:
    """Create the missing partitions from yesterday to ``days`` days after ``today``; return their names."""
    existing = set(await partitions(connection))
    missing = [day for day in (today + timedelta(n) for n in range(-1, days + 1)) if partition_of(day) not in existing]
    return [await _make(connection, day) for day in missing]


async def drop_before(connection: psycopg.AsyncConnection, first_kept: date) -> list[str]:
    """Drop the partitions of days before ``first_kept``; return their names. Delete lines of these days in ``OTHER``,
    too.

    Links of the chain are kept, because each link contains the hash of the link before it.
    """
    expired = [name for name in await partitions(connection) if day_of(name) < first_kept]
    for name in expired:
        async with _limited_transaction(connection):
            await connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
    edge = datetime(first_kept.year, first_kept.month, first_kept.day, tzinfo=UTC)
    await connection.execute(sql.SQL("DELETE FROM {} WHERE at < %s").format(sql.Identifier(OTHER)), [edge])
    return expired


async def _make(connection: psycopg.AsyncConnection, day: date) -> str:
    """Create one partition. ATTACH instead of CREATE … PARTITION OF does not block the writer."""
    name = partition_of(day)
    first, next_ = (datetime(d.year, d.month, d.day, tzinfo=UTC) for d in (day, day + timedelta(1)))
    steps = (
        "CREATE TABLE {name} (LIKE semq_ledger INCLUDING ALL)",
        # ATTACH fails while lines of this day are in ``OTHER``.
        """WITH moved AS (DELETE FROM {other} WHERE at >= {first} AND at < {next} RETURNING *)
        INSERT INTO {name} SELECT * FROM moved""",
        "ALTER TABLE semq_ledger ATTACH PARTITION {name} FOR VALUES FROM ({first}) TO ({next})",
    )
    words = {
        "name": sql.Identifier(name),
        "other": sql.Identifier(OTHER),
        "first": sql.Literal(first.isoformat()),
        "next": sql.Literal(next_.isoformat()),
    }
    async with _limited_transaction(connection):
        for step in steps:
            await connection.execute(sql.SQL(step).format(**words))
    return name


@asynccontextmanager
async def _limited_transaction(connection: psycopg.AsyncConnection) -> AsyncIterator[None]:
    """Make a transaction that fails if a lock is not free soon, and ends if this process is suspended.

    Otherwise other processes would also have to wait.
    """
    async with connection.transaction():
        for name, limit_ms in ("lock_timeout", LOCK_WAIT_MS), ("idle_in_transaction_session_timeout", SUSPENDED_MS):
            await connection.execute(f"SET LOCAL {name} = {limit_ms:d}".encode())
        yield
