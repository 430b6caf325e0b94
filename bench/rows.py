"""The rows that a phase really changed at each node, as Postgres itself has counted them.

Read from ``pg_stat_user_tables`` (rows inserted, updated, deleted) and ``pg_stat_database`` (transactions). Backends
report these late, some only when they next do something, so a reading waits until the statistics agree with the rows
that are there. Used by ``phases``; ``floor`` repeats what is found here.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

PATIENCE_S = 60.0
LOOK_S = 0.1
STATISTICS = """
    SELECT CASE WHEN relname LIKE 'semq_ledger%' THEN 'semq_ledger' ELSE relname END AS name,
        sum(n_tup_ins)::bigint, sum(n_tup_upd)::bigint, sum(n_tup_del)::bigint
    FROM pg_stat_user_tables GROUP BY 1"""
COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
QUEUES = ("tb_0031", "tb_0030")
PROOF = (*QUEUES, "semq_ledger")  # tables whose rows are counted to see that the statistics are complete

Urls = Mapping[str, str]  # node to database


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to the rows of one table."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def since(self, earlier: "Changes") -> "Changes":
        """What has happened after an earlier reading."""
        return Changes(self.inserted - earlier.inserted, self.updated - earlier.updated, self.deleted - earlier.deleted)

    def __bool__(self) -> bool:
        return bool(self.inserted or self.updated or self.deleted)


@dataclass(frozen=True, slots=True)
class Reading:
    """The statistics of one database at one moment, or the difference of two."""

    tables: Mapping[str, Changes] = field(default_factory=dict)
    commits: int = 0

    def since(self, earlier: "Reading") -> "Reading":
        """What has happened after an earlier reading."""
        tables = {name: changes.since(earlier.tables.get(name, Changes())) for name, changes in self.tables.items()}
        return Reading({name: changes for name, changes in tables.items() if changes}, self.commits - earlier.commits)

    def per_message(self, messages: int) -> dict[str, list[float]]:
        """As it is printed: by table, inserted, updated and deleted rows for each message."""
        return {
            name: [round(n / messages, 3) for n in (c.inserted, c.updated, c.deleted)]
            for name, c in sorted(self.tables.items())
        }


async def read(urls: Urls) -> dict[str, Reading]:
    """One reading of each database, when all is counted. Raises TimeoutError."""
    readings = {}
    async with asyncio.timeout(PATIENCE_S):
        for name, url in urls.items():
            async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
                readings[name] = await _read(connection)
    return readings


async def wait_clean(urls: Urls) -> None:
    """Wait until no node has a row in tb_0031 or tb_0030: every queue is clean. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_S):
        for url in urls.values():
            async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
                for table in QUEUES:
                    # Another process empties it: there is nothing here to be woken by.
                    while (await _one(connection, f"SELECT EXISTS (SELECT FROM {table})"))[0]:  # noqa: ASYNC110
                        await asyncio.sleep(LOOK_S)


async def _read(connection: psycopg.AsyncConnection[Any]) -> Reading:
    while True:
        rows = await (await connection.execute(STATISTICS)).fetchall()
        tables = {name: Changes(inserted, updated, deleted) for name, inserted, updated, deleted in rows}
        if all([await _is_complete(connection, name, tables[name]) for name in PROOF]):
            return Reading(tables, (await _one(connection, COMMITS))[0])
        await asyncio.sleep(LOOK_S)


async def _is_complete(connection: psycopg.AsyncConnection[Any], table: str, changes: Changes) -> bool:
    (there,) = await _one(connection, f"SELECT count(*) FROM {table}")
    return bool(changes.inserted - changes.deleted == there)


async def _one(connection: psycopg.AsyncConnection[Any], statement: str) -> tuple[Any, ...]:
    row = await (await connection.execute(statement)).fetchone()
    assert row is not None
    return tuple(row)
