"""Data directories of new nodes with a ready database: a copy of one that has all tables and no rows.

A node's first start makes its database cluster and creates the tables, which takes more than a second of processor
time. Where many nodes are made, as in the tests, ``$EMPTY_DATABASE_FOLDER`` names a folder, and the nodes of all
installations get copies of a database that is made there once. Without the variable, each node makes its own.
"""

import asyncio
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg

from semq.clock import SystemClock
from semq.store.embedded.programs import find_programs
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.files import locked
from semq.store.postgres.ledger_partitions import make_ahead
from semq.store.postgres.schema_version import head

VARIABLE = "EMPTY_DATABASE_FOLDER"
CLUSTER, PASSWORD = "data", "password"  # the contents of a copy; ports, logs and locks belong to one server


def copy_empty_database(data_dir: Path) -> None:
    """Copy the database into the data directory of a node that has none, if the variable is set."""
    folder, home = os.environ.get(VARIABLE), EmbeddedPostgres(data_dir).home
    if not folder or home.exists():
        return
    source = _home_of_original(Path(folder))
    beside = home.with_name("postgres.new")
    shutil.rmtree(beside, ignore_errors=True)  # left by a process that was killed
    beside.mkdir(mode=0o700, parents=True)
    shutil.copy2(source / PASSWORD, beside / PASSWORD)
    shutil.copytree(source / CLUSTER, beside / CLUSTER)
    beside.rename(home)


def _home_of_original(folder: Path) -> Path:
    """Return the folder to copy, for the present version of Postgres, version of the tables and date.

    Make the folder if it does not exist.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    today = SystemClock().wall().date()
    place = folder / f"{find_programs().version}-{head()}-{today}"
    with locked(folder / "lock"):
        if not place.exists():
            beside = place.with_name("new")
            shutil.rmtree(beside, ignore_errors=True)  # left by a process that was killed
            with EmbeddedPostgres(beside) as server, ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, _fill(server.url)).result()  # the caller may be in an event loop
            beside.rename(place)
    return EmbeddedPostgres(place).home


async def _fill(url: str) -> None:
    """Create the tables, and the partitions of the ledger that every node makes at its start."""
    from semq.store.postgres.migration import upgrade  # it imports Alembic

    upgrade(url)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await make_ahead(connection, SystemClock().wall().date())
