"""The rows that each node changed in a phase, and the bytes and fsyncs of its write-ahead log, as counted by Postgres.

The sources are ``pg_stat_user_tables``, ``pg_stat_wal`` and ``pg_stat_io``. Backends report these late, some only with
their next statement, so a reading waits until the statistics agree with the rows in the tables.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg

from bench.errors import NoProgress

PATIENCE_S = 60.0  # time to wait for complete statistics; a cleanup may make no progress for half of it
POLL_S = 0.1
SAMPLE_S = 1.0
STATISTICS = """
    SELECT CASE WHEN relname LIKE 'semq_ledger%' THEN 'semq_ledger' ELSE relname END AS name,
        sum(n_tup_ins)::bigint, sum(n_tup_upd)::bigint, sum(n_tup_del)::bigint
    FROM pg_stat_user_tables GROUP BY 1"""
# Bytes and fsyncs of the log; servers before Postgres 18 count fsyncs elsewhere.
WAL = "SELECT wal_bytes::bigint, (SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal')::bigint FROM pg_stat_wal"
WAL_BEFORE_18 = "SELECT wal_bytes::bigint, wal_sync FROM pg_stat_wal"
QUEUES = ("tb_0031", "tb_0030")
CHECKED = (*QUEUES, "semq_ledger")  # tables whose rows are counted to check that the statistics are complete
# Rows in the queues, without those for the institution that is always offline (``backlog``).
QUEUED = "SELECT (SELECT count(*) FROM tb_0031 WHERE dest <> %s) + (SELECT count(*) FROM tb_0030)"
HAS_QUEUED = "SELECT EXISTS (SELECT FROM tb_0031 WHERE dest <> %s) OR EXISTS (SELECT FROM tb_0030)"
# The number of rows by the statistics, which cost the server nothing and are up to a second old.
ROWS_BY_STATISTICS = "SELECT sum(n_tup_ins - n_tup_del)::bigint FROM pg_stat_user_tables WHERE relname = ANY(%s)"

Urls = Mapping[str, str]  # the URL of each node's database, by the name of the node


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Inserted, updated and deleted rows of one table."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def since(self, earlier: "RowChanges") -> "RowChanges":
        return RowChanges(
            self.inserted - earlier.inserted, self.updated - earlier.updated, self.deleted - earlier.deleted
        )

    def __bool__(self) -> bool:
        return bool(self.inserted or self.updated or self.deleted)


@dataclass(frozen=True, slots=True)
class RowsReading:
    """The statistics of one database at one moment, or the difference of two."""

    tables: Mapping[str, RowChanges] = field(default_factory=dict)
    wal_bytes: int = 0
    fsyncs: int = 0

    def since(self, earlier: "RowsReading") -> "RowsReading":
        tables = {name: changes.since(earlier.tables.get(name, RowChanges())) for name, changes in self.tables.items()}
        return RowsReading(
            {name: changes for name, changes in tables.items() if changes},
            self.wal_bytes - earlier.wal_bytes,
            self.fsyncs - earlier.fsyncs,
        )

    def per_message(self, messages: int) -> dict[str, list[float]]:
        """Return the inserted, updated and deleted rows for each message, by table."""
        return {
            name: [round(n / messages, 3) for n in (c.inserted, c.updated, c.deleted)]
            for name, c in sorted(self.tables.items())
        }


async def read(urls: Urls) -> dict[str, RowsReading]:
    """Return a reading of each database, when its statistics are complete. Raises TimeoutError."""
    readings = {}
    async with asyncio.timeout(PATIENCE_S):
        for name, url in urls.items():
            async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
                readings[name] = await _read(connection)
    return readings


async def wait_clean(urls: Urls, absent: str) -> None:
    """Wait until no node has a row in tb_0031 or tb_0030, except for documents to ``absent``. Raises NoProgress."""
    for name, url in urls.items():
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await _wait_clean(connection, name, absent)


async def _wait_clean(connection: psycopg.AsyncConnection[Any], name: str, absent: str) -> None:
    """Wait until one node has no row. Raises NoProgress if the number of rows is constant for half of PATIENCE_S."""
    last, checked_at = -1, time.monotonic()
    while True:
        began = time.monotonic()
        if not (await _fetch_row(connection, HAS_QUEUED, (absent,)))[0]:
            return
        if began - checked_at > PATIENCE_S / 2:
            rows = (await _fetch_row(connection, QUEUED, (absent,)))[0]
            if rows == last:
                raise NoProgress(f"{rows} rows of {name} are not cleaned up.")
            last, checked_at = rows, began
        # Another process empties the tables, so this must poll, by a cheap query.
        await asyncio.sleep(max(POLL_S, 10 * (time.monotonic() - began)))


async def queued(urls: Urls, absent: str) -> int:
    """Return the number of rows in the queues of all nodes, without documents for ``absent``."""
    total = 0
    for url in urls.values():
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            total += (await _fetch_row(connection, QUEUED, (absent,)))[0]
    return total


@asynccontextmanager
async def peaks(urls: Callable[[], Urls]) -> AsyncIterator[dict[str, int]]:
    """Yield a dictionary with the largest growth of each node's queues so far, in rows."""
    highest: dict[str, int] = {}

    async def sample(name: str) -> None:
        first: int | None = None
        while True:
            # A node that the phase has stopped has no server for a while.
            with suppress(psycopg.OperationalError):
                async with await psycopg.AsyncConnection.connect(urls()[name], autocommit=True) as connection:
                    while True:
                        present = (await _fetch_row(connection, ROWS_BY_STATISTICS, (list(QUEUES),)))[0]
                        first = present if first is None else first
                        highest[name] = max(highest.get(name, 0), present - first)
                        await asyncio.sleep(SAMPLE_S)
            await asyncio.sleep(SAMPLE_S)

    tasks = [asyncio.create_task(sample(name)) for name in urls()]
    try:
        yield highest
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(connection: psycopg.AsyncConnection[Any]) -> RowsReading:
    wal = WAL if connection.info.server_version >= 180_000 else WAL_BEFORE_18
    while True:
        rows = await (await connection.execute(STATISTICS)).fetchall()
        tables = {name: RowChanges(inserted, updated, deleted) for name, inserted, updated, deleted in rows}
        if all([await _is_complete(connection, name, tables[name]) for name in CHECKED]):
            return RowsReading(tables, *await _fetch_row(connection, wal))
        await asyncio.sleep(POLL_S)


async def _is_complete(connection: psycopg.AsyncConnection[Any], table: str, changes: RowChanges) -> bool:
    (rows,) = await _fetch_row(connection, f"SELECT count(*) FROM {table}")
    return bool(changes.inserted - changes.deleted == rows)


async def _fetch_row(connection: psycopg.AsyncConnection[Any], statement: str, values: Any = ()) -> tuple[Any, ...]:
    row = await (await connection.execute(statement.encode(), values)).fetchone()
    assert row is not None
    return tuple(row)
