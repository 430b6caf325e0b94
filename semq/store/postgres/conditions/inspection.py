"""State of a database before a store is opened there, and its unmet requirements afterwards (``requirements``)."""

from datetime import date
from typing import NamedTuple

import psycopg
from sqlalchemy import Connection

from semq.store.postgres import lease, ledger_partitions
from semq.store.postgres.conditions import requirements
from semq.store.postgres.errors import PartitionsMissing, StoreReplaced
from semq.store.postgres.schema_version import head, revision_of


class Found(NamedTuple):
    """State of a database before the store is opened."""

    revision: str | None  #: of the tables; None: there are none
    is_pooled: bool


def inspect(connection: Connection, node: str, expected: str | None, *, is_migrated: bool) -> Found:
    """Return what a database has. ``expected``: identity of the store that ``node`` has opened last; None: unknown.
    ``is_migrated``: other tables than those of this version would be upgraded now.

    Raises StoreForeign, StoreReplaced, and the errors of ``requirements.check``.
    """
    driver = connection.execution_options(isolation_level="AUTOCOMMIT").connection.driver_connection
    assert driver is not None
    requirements.check(driver)
    lease.refuse_other_node(driver, node)
    refuse_other_store(driver, expected)
    revision = revision_of(driver)
    if is_migrated and revision != head():
        requirements.check(driver, is_upgrade=True)
    return Found(revision, requirements.is_pooled(driver))


def refuse_other_store(connection: "psycopg.Connection", expected: str | None) -> None:
    """Raise StoreReplaced if the database has another store than ``expected``, or none; None: any store will do."""
    if expected is not None and (found := store_uuid(connection)) != expected:
        path = connection.execute("SELECT current_setting('search_path')").fetchone()
        raise StoreReplaced(expected=expected, found=found, search_path=path[0] if path else "")


def store_uuid(connection: "psycopg.Connection") -> str | None:
    """Return the identity of the store in a database; None if none has been opened there."""
    if connection.execute("SELECT to_regclass('semq_meta') IS NOT NULL").fetchone() != (True,):
        return None
    row = connection.execute("SELECT store_uuid::text FROM semq_meta").fetchone()
    return str(row[0]) if row is not None else None


def findings(connection: Connection, today: date) -> list[str]:
    """Return, for health, what the database lacks on this date (UTC), and who hinders the node."""
    driver = connection.execution_options(isolation_level="AUTOCOMMIT").connection.driver_connection
    assert driver is not None
    missing = ledger_partitions.is_missing(driver, today)
    partitions = [PartitionsMissing(partition=ledger_partitions.partition_of(today)).advice()] if missing else []
    return [*requirements.findings(driver), *partitions]
