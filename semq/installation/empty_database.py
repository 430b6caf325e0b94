"""Empty databases for new nodes: copies of one database that has all tables and no rows.

Making a database cluster and the tables takes more than a second of processor time. Tests set the environment variable
``EMPTY_DATABASE_FOLDER`` to a folder: the database is made there once, and new nodes get copies of it. Without the
variable, each node makes its own database.
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
from semq.store.postgres.schema_version import fingerprint

FOLDER_VARIABLE = "EMPTY_DATABASE_FOLDER"  # environment variable
CLUSTER, PASSWORD = "data", "password"  # parts that are copied


def copy_empty_database(data_dir: Path) -> None:
    """Copy the empty database into a data directory, unless it has a database or the variable is not set."""
    folder, home = os.environ.get(FOLDER_VARIABLE), EmbeddedPostgres(data_dir).home
    if not folder or home.exists():
        return
    source = _home_of_original(Path(folder))
    unfinished = home.with_name("postgres.new")
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a process that was killed
    unfinished.mkdir(mode=0o700, parents=True)
    shutil.copy2(source / PASSWORD, unfinished / PASSWORD)
    # Without times and permissions, which Postgres does not use and which take as long as the contents.
    shutil.copytree(source / CLUSTER, unfinished / CLUSTER, copy_function=shutil.copyfile)
    unfinished.rename(home)


def _home_of_original(folder: Path) -> Path:
    """Return the folder of the database to copy; make it if none is for this Postgres, these tables and this date.

    The date matters, because the ledger has a partition for each day.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    today = SystemClock().wall().date()
    original = folder / f"{find_programs().version}-{fingerprint()}-{today}"
    with locked(folder / "lock"):
        if not original.exists():
            unfinished = original.with_name("new")
            shutil.rmtree(unfinished, ignore_errors=True)  # left by a process that was killed
            with EmbeddedPostgres(unfinished) as server, ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, _fill(server.url)).result()  # the caller may be in an event loop
            _delete_maps(EmbeddedPostgres(unfinished).data)
            unfinished.rename(original)
    return EmbeddedPostgres(original).home


def _delete_maps(cluster: Path) -> None:
    """Delete the maps of free space and visibility, a seventh of the files. Postgres makes them when needed."""
    for pattern in ("base/*/*_fsm", "base/*/*_vm"):
        for file in cluster.glob(pattern):
            file.unlink()


async def _fill(url: str) -> None:
    """Create the tables, and the partitions of the ledger that every node makes at its start."""
    from semq.store.postgres.migration import upgrade  # imports Alembic, which takes long

    upgrade(url)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await make_ahead(connection, SystemClock().wall().date())
