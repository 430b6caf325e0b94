"""Upgrade of a database to this version of SEMQ.

Tables are upgraded by the revisions in the package ``semq.store.migrations``, functions and views by their present
texts in ``semq.store.sql``.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
from alembic import command, op
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

import semq.store.sql
from semq.store import migrations
from semq.store.postgres.conditions.durability import refuse_old_server
from semq.store.postgres.errors import SchemaBusy
from semq.store.postgres.schema_version import VERSION_TABLE, head, refuse_unknown
from semq.store.reader import connection_parameters, is_unavailable, unavailable

LOCK = 0x53454D51  # "SEMQ": one upgrade at a time, in all processes
# LOCK_MS is below the deadlock_timeout of Postgres (1 s), so that the upgrade gives way, and not the node.
LOCK_MS, PAUSE_S, TRIES = 500, 0.25, 20
IDLE_S_MAX = 60  # the server ends the session of an upgrading process that is suspended for so long
# In the order in which they use others.
FUNCTIONS = ("guards.sql", "rights.sql", "headers.sql", "submission.sql", "inbox.sql")
# Functions of applications run with the rights of the owner of the tables, so a caller's temporary table (searched
# last) must not replace a table of the node: they get this search path.
SEARCH_PATH = "SELECT set_config('search_path', format('%I, pg_temp', current_schema()), true);\n"
LOCK_HOLDERS = """
    SELECT DISTINCT format('%s (process %s of the server)', coalesce(nullif(a.application_name, ''), a.usename), a.pid)
    FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid JOIN pg_class c ON c.oid = l.relation
    WHERE l.granted AND l.pid <> pg_backend_pid() AND a.datname = current_database()
        AND c.relnamespace = current_schema()::regnamespace
    LIMIT 5"""


def engine_of(url: str) -> Engine:
    """Return a SQLAlchemy engine for a URL in the form of libpq."""

    def connect() -> psycopg.Connection:
        return psycopg.connect(**connection_parameters(url, "semq-upgrade"))

    return create_engine("postgresql+psycopg://", creator=connect, poolclass=NullPool)


def upgrade(url: str) -> str:
    """Upgrade the tables to this version, each revision in a transaction of its own; return their revision.

    Only one process upgrades at a time. Revisions that were applied before an error stay.

    Raises ServerTooOld, SchemaTooNew, SchemaBeforeRelease, SchemaBusy if the tables are in use, and StoreUnavailable.
    """
    with _connected(url) as connection:
        refuse_old_server(_driver(connection).info.server_version)
        with connection.begin():
            for limit in ("idle_session_timeout", "idle_in_transaction_session_timeout"):
                connection.execute(text(f"SET {limit} = '{IDLE_S_MAX}s'"))
            connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": LOCK})  # until the connection ends
            current = _revision(connection)
        refuse_unknown(current)
        if current == head():
            return current
        for script in reversed(list(_scripts().iterate_revisions("head", current or "base"))):
            _apply(connection, script.revision)
    return head()


def _apply(connection: Connection, revision: str) -> None:
    """Apply one revision as soon as its locks are free, and the functions with the newest one. Raises SchemaBusy."""
    used_by = ""
    for _ in range(TRIES):
        try:
            with connection.begin():
                connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_MS}"))
                command.upgrade(_config(connection), revision)
                if revision == head():
                    _driver(connection).execute((SEARCH_PATH + functions_text()).encode())
        except (psycopg.OperationalError, OperationalError) as error:
            if not isinstance(getattr(error, "orig", error), LockNotAvailable | DeadlockDetected):
                raise
        else:
            return
        with connection.begin():
            used_by = ", ".join(connection.execute(text(LOCK_HOLDERS)).scalars())
            connection.execute(text("SELECT pg_sleep(:pause)"), {"pause": PAUSE_S})
    raise SchemaBusy(revision=revision, used_by=used_by or "unknown")


def functions_text() -> str:
    """Return the statements that create or replace all functions, views and triggers."""
    folder = Path(semq.store.sql.__file__).parent
    return "\n".join((folder / name).read_text("utf-8") for name in FUNCTIONS)


def run(statements: str) -> None:
    """Execute statements, separated by semicolons. For revisions: in their transaction."""
    _driver(op.get_bind()).execute(statements.encode())


def _driver(connection: Connection) -> psycopg.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    """Yield a connection. Raises StoreUnavailable."""
    try:
        with closing(engine_of(url).connect()) as connection:
            yield connection
    except Exception as error:
        if not is_unavailable(error):
            raise
        raise unavailable(error) from error


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())
