"""A store on Postgres whose notifications and faults are recorded, and work that tests post to it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from semq.clock import SystemClock
from semq.errors import SemqError, Unavailable
from semq.store.postgres.owner import NOWHERE, Owner
from semq.store.postgres.store import PostgresStore
from semq.store.unit import Recovered, Unit
from tests.store.jobs import ALL_NEEDS, Job, accept


class NotifiedStore:
    """A store, the faults that ended it, and the channels on which Postgres notified it."""

    def __init__(self, url: str, owner: str = "one", place: str = NOWHERE) -> None:
        self.url = url
        self.faults: list[SemqError] = []
        self.channels: list[str] = []
        self.lost = asyncio.Event()
        self.was_notified = asyncio.Event()
        this_process = Owner("1.10008", "host", owner, place)
        self.store = PostgresStore(url, owner=this_process, clock=SystemClock(), lost=self._lose, notified=self._note)

    def _lose(self, fault: SemqError) -> None:
        self.faults.append(fault)
        self.lost.set()

    def _note(self, channel: str) -> None:
        self.channels.append(channel)
        self.was_notified.set()

    async def do(self, *jobs: Job) -> list[Exception | None]:
        """Post work, wait until all of it has ended, and return the error of each piece; None: it was committed."""
        for job in jobs:
            self.store.post(job)
        for job in jobs:
            await job.over.wait()
        assert all(len(job.results) == 1 for job in jobs)
        return [job.results[0] for job in jobs]

    async def reopen(self) -> Recovered:
        """Start the store again; repeat this until the database answers."""
        while True:
            try:
                return await self.store.start()
            except Unavailable:
                await asyncio.sleep(0.03)

    @property
    def backend_pid(self) -> int:
        """The process id of the server's process for this store."""
        wire = self.store._wire
        assert wire is not None
        return wire.pid


# A trigger with the error of a server that has used up its transaction ids. {}: the event
NO_TRANSACTIONS = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE EXCEPTION 'database is not accepting commands' USING ERRCODE = 'program_limit_exceeded'; END $$;
CREATE TRIGGER refuse BEFORE {} FOR EACH ROW EXECUTE FUNCTION refuse()"""


@asynccontextmanager
async def open_notified_store(url: str, owner: str = "one", place: str = NOWHERE) -> AsyncIterator[NotifiedStore]:
    notified = NotifiedStore(url, owner, place)
    await notified.store.start()
    try:
        yield notified
    finally:
        await notified.store.stop()


def accepting(number: int, then: Callable[[], Any] = lambda: None) -> Job:
    """Return work that accepts a document. ``then`` runs at the end of its decision."""

    def decide(unit: Unit) -> None:
        accept(unit, number, 1)
        then()

    return Job(decide, ALL_NEEDS)


def raising(error: Exception) -> Job:
    """Return work that stages a document, then raises ``error``."""

    def decide(unit: Unit) -> None:
        accept(unit, 999, 1)
        raise error

    return Job(decide, ALL_NEEDS)


def stored(url: str) -> list[int]:
    """Return the ids of the rows of tb_0031."""
    return column(url, "SELECT object_id FROM tb_0031 ORDER BY object_id")


def column(url: str, statement: str) -> list[Any]:
    """Return the first column of the rows that a query returns."""
    with psycopg.connect(url, autocommit=True) as connection:
        return [row[0] for row in connection.execute(statement.encode()).fetchall()]


def versions_of_rows(url: str) -> list[Any]:
    """Return the place of each row and the transactions that wrote or locked it, except the lease, which is renewed.

    The transaction counter of the server is not used, because other databases and autovacuum raise it, too.
    """
    tables = column(url, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
    version = "SELECT '{0} ' || ctid::text || xmin::text || xmax::text FROM {0}"
    union = " UNION ALL ".join(version.format(table) for table in tables if table != "store_lease")
    return sorted(column(url, union))


def run(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


async def until_true(database: str, question: str) -> None:
    """Repeat a query until it returns true."""
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        while True:
            row = await (await connection.execute(question.encode())).fetchone()
            if row is not None and row[0]:
                return
            await connection.execute("SELECT pg_sleep(0.01)")
