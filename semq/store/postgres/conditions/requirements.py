"""Requirements of a node in its database: one list for the start, ``semq doctor`` and health.

``durability`` has the settings without which a COMMIT may be lost; formats and limits of a session are set by
``semq.store.reader`` for each connection, whatever the role or the database prescribe. The rest is here.

| requirement   | without it                                                                                         |
|---------------|----------------------------------------------------------------------------------------------------|
| writable      | no start: SEMQ-3029; a running node waits                                                          |
| encoding      | no start: texts could not be stored, or not be read: SEMQ-3026                                     |
| tables        | no start: the role must read and change all tables of SEMQ: SEMQ-3027                              |
| locks         | no start: the role needs the advisory locks: SEMQ-3027                                             |
| schema        | no upgrade, and no partition of the ledger: SEMQ-3027                                              |
| owner         | likewise                                                                                           |
| connections   | limits of the role or of the database are too low: SEMQ-3030                                       |
| timeout       | the server ends the transactions of the node: SEMQ-3030                                            |
| others' locks | roles of applications may fill the lock table of the server: SEMQ-3031, by doctor alone           |
| roles         | a role of an application may take all connections: SEMQ-3033                                       |
| functions     | roles of applications may call nothing, or everything: SEMQ-3025                                   |

A pooler in front of the server is recognised by the number of the session, which it does not pass on (SEMQ-3028).
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from os import dup
from socket import SHUT_RDWR, socket
from threading import Timer
from typing import NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo

from semq.errors import SemqError
from semq.store.postgres import statements as statements  # this import completes the metadata
from semq.store.postgres.errors import (
    DatabaseReadOnly,
    EncodingUnfit,
    FunctionsOpen,
    LimitsUnfit,
    LocksOpen,
    PoolerUnfit,
    RightsMissing,
    RolesUnlimited,
)
from semq.store.postgres.roles import FUNCTIONS, OPEN_FUNCTIONS
from semq.store.postgres.schema_version import VERSION_TABLE
from semq.store.tables import metadata

CONNECTIONS = 8  # connections that a node needs: writer, readers, listener, extract
WAIT_S = 5  # a session of the node that waits longer for a lock is a finding
LOCKS_SHARE = 4  # a session that holds more than the lock table divided by this is a finding
OPEN_S = 60  # a transaction with advisory locks that is open for longer is a finding
PROBE_S = 5
ADVISORY = "p.pronamespace = 'pg_catalog'::regnamespace AND p.proname LIKE 'pg\\_%%advisory%%'"
# The tables of SEMQ alone: an application may have tables in the same schema.
OF_SCHEMA = (
    "c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('semq_version'))"
    " AND (c.relname = ANY(%(tables)s) OR EXISTS"
    " (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid AND i.inhparent = to_regclass('semq_ledger')))"
)


class Requirement(NamedTuple):
    """A requirement, as a query that returns one text for each fault."""

    name: str
    is_needed: bool  #: False: the node works without it, and says so
    error: type[SemqError]
    query: str
    is_in_health: bool = True  #: False: on many managed servers nobody can change it


REQUIREMENTS = (
    Requirement(
        "writable", True, DatabaseReadOnly,
        "SELECT CASE WHEN pg_is_in_recovery() THEN 'it is a standby' ELSE 'default_transaction_read_only is on' END"
        " WHERE pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on'",
    ),
    Requirement(
        "encoding", True, EncodingUnfit,
        "SELECT current_setting('server_encoding') WHERE current_setting('server_encoding') <> 'UTF8'",
    ),
    Requirement(
        "tables", True, RightsMissing,
        "SELECT format('SELECT, INSERT, UPDATE, DELETE ON %%s TO %%I', c.oid::regclass, current_user) FROM pg_class c"
        f" WHERE {OF_SCHEMA} AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')"
        " AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')) ORDER BY 1",
    ),
    Requirement(
        "locks", True, RightsMissing,
        "SELECT format('EXECUTE ON FUNCTION %%s TO %%I', p.oid::regprocedure, current_user) FROM pg_proc p"
        f" WHERE {ADVISORY} AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1",
    ),
    Requirement(
        "schema", False, RightsMissing,
        "SELECT format('CREATE ON SCHEMA %%I TO %%I', s.name, current_user) FROM (SELECT coalesce((SELECT n.nspname"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass('semq_version')),"
        " current_schema(), 'public') AS name) s WHERE NOT has_schema_privilege(s.name, 'CREATE')",
    ),
    Requirement(
        "owner", False, RightsMissing,
        "SELECT format('%%I TO %%I', pg_get_userbyid(c.relowner), current_user) FROM pg_class c"
        f" WHERE {OF_SCHEMA} AND NOT pg_has_role(c.relowner, 'USAGE') GROUP BY 1",
    ),
    Requirement(
        "connections", False, LimitsUnfit,
        "SELECT format('%%s may have %%s connections, the node needs %(connections)s', l.name, l.most) FROM ("
        "SELECT format('role %%I', rolname) AS name, rolconnlimit AS most FROM pg_roles WHERE rolname = current_user"
        " AND NOT rolsuper"
        " UNION ALL SELECT format('database %%I', datname), datconnlimit FROM pg_database WHERE datname ="
        " current_database() UNION ALL SELECT 'the server', current_setting('max_connections')::int"
        ") l WHERE l.most BETWEEN 0 AND %(connections)s - 1",
    ),
    Requirement(
        "timeout", False, LimitsUnfit,
        "SELECT 'transaction_timeout is ' || current_setting('transaction_timeout', true)"
        " WHERE coalesce(current_setting('transaction_timeout', true), '0') NOT IN ('0', '')",
    ),
    Requirement(
        "others' locks", False, LocksOpen,
        f"SELECT 'pg_advisory_lock and others' FROM pg_proc p WHERE {ADVISORY} AND EXISTS (SELECT FROM"
        " aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = 0) LIMIT 1",
        is_in_health=False,
    ),
    Requirement(
        "roles", False, RolesUnlimited,
        "SELECT DISTINCT r.rolname::text FROM pg_proc p JOIN pg_class c ON c.relnamespace = p.pronamespace,"
        " aclexplode(p.proacl) a JOIN pg_roles r ON r.oid = a.grantee WHERE c.oid = to_regclass('tb_0031')"
        " AND p.proname IN ('semq_send', 'semq_receive') AND r.oid <> p.proowner AND r.rolcanlogin AND NOT r.rolsuper"
        " AND r.rolconnlimit = -1 ORDER BY 1",
    ),
    Requirement("functions", False, FunctionsOpen, OPEN_FUNCTIONS),
)  # fmt: skip
# Sessions that hinder the node or receivers: those for whose locks the node waits, those that hold much of the lock
# table, and those with advisory locks, mostly of received documents, in a transaction that is long. How long, only
# pg_monitor and superusers see.
HINDERING = """
    SELECT format('the node waits for a lock of %%s (process %%s of the server)',
        coalesce(nullif(o.application_name, ''), o.usename), o.pid)
    FROM pg_locks w CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS b (pid)
    JOIN pg_stat_activity o ON o.pid = b.pid JOIN pg_stat_activity s ON s.pid = w.pid
    WHERE NOT w.granted AND s.usename = current_user AND w.waitstart < clock_timestamp() - %(wait_s)s * interval '1 s'
    UNION
    SELECT format('%%s (role %%s, process %%s of the server) holds %%s locks of about %%s that the server has',
        coalesce(nullif(a.application_name, ''), 'a session'), a.usename, l.pid, l.held, l.room)
    FROM (
        SELECT pid, count(*) AS held, current_setting('max_locks_per_transaction')::int
            * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) AS room
        FROM pg_locks WHERE pid IS NOT NULL AND NOT fastpath GROUP BY pid
    ) l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.held > l.room / %(share)s AND a.usename <> current_user
    UNION
    SELECT format('%%s (role %%s, process %%s of the server) has advisory locks, as of received documents, in a'
        ' transaction open for %%s s',
        coalesce(nullif(a.application_name, ''), 'a session'), a.usename, a.pid,
        round(extract(epoch FROM clock_timestamp() - a.xact_start)))
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.usename <> current_user
        AND a.xact_start < clock_timestamp() - %(open_s)s * interval '1 s'
        AND EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory' AND l.granted)"""
FACTS: dict[str, int | list[str]] = {
    "connections": CONNECTIONS,
    "wait_s": WAIT_S,
    "share": LOCKS_SHARE,
    "open_s": OPEN_S,
    "tables": [VERSION_TABLE, *sorted(metadata.tables)],
    "functions": list(FUNCTIONS),
}


def unmet(
    connection: "psycopg.Connection", requirements: Iterable[Requirement] = REQUIREMENTS
) -> Iterator[tuple[Requirement, SemqError]]:
    """Yield each requirement that the database does not meet, with its error."""
    for requirement in requirements:
        if found := _texts(connection, requirement.query):
            yield requirement, requirement.error(found=found)


def _texts(connection: "psycopg.Connection", query: str) -> list[str]:
    """Return the first texts of a query; none if it reads a view of the server that is hidden from the role."""
    try:
        return [text for (text,) in connection.execute(query.encode(), FACTS).fetchmany(5)]
    except psycopg.errors.InsufficientPrivilege:
        return []


def check(connection: "psycopg.Connection", *, is_upgrade: bool = False) -> None:
    """Check what the node needs at its start. ``is_upgrade``: also what an upgrade of the tables needs.

    Raises PoolerUnfit, DatabaseReadOnly, EncodingUnfit and RightsMissing.
    """
    if is_pooled(connection):
        refuse_pooled_transactions(connection)
    needed = [row for row in REQUIREMENTS if row.is_needed or (is_upgrade and row.name in ("schema", "owner"))]
    for _, error in unmet(connection, needed):
        raise error


def findings(connection: "psycopg.Connection") -> list[str]:
    """Return, for health, each requirement that is not met, and each session that hinders the node."""
    shown = [row for row in REQUIREMENTS if row.is_in_health]
    return [*(error.advice() for _, error in unmet(connection, shown)), *hindrances(connection)]


def hindrances(connection: "psycopg.Connection") -> list[str]:
    """Return the sessions for whose locks the node waits, and those that hold much of the lock table."""
    return _texts(connection, HINDERING)


def is_pooled(connection: "psycopg.Connection") -> bool:
    """Whether a pooler such as PgBouncer is between this process and the server."""
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] != connection.info.backend_pid


def refuse_pooled_transactions(connection: "psycopg.Connection") -> None:
    """Raise PoolerUnfit if the pooler gives the server's session to another client between two transactions, or has no
    second session within PROBE_S.
    """
    info = connection.info
    url = make_conninfo(info.dsn, password=info.password, connect_timeout=PROBE_S)
    with psycopg.connect(url) as other:
        hang_up = Timer(PROBE_S, partial(_hang_up, other.fileno()))  # a pooler may let a query wait for minutes
        hang_up.start()
        try:
            [before] = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
            [taken] = other.execute("SELECT pg_backend_pid()").fetchone() or (0,)  # its transaction stays open
            [after] = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        except psycopg.OperationalError as error:
            text = "The connection pooler has too few sessions of the server for a node."
            raise PoolerUnfit(text, host=info.host, port=info.port, needed=CONNECTIONS) from error
        finally:
            hang_up.cancel()
    if taken == before or after != before:
        raise PoolerUnfit(host=info.host, port=info.port)


def _hang_up(descriptor: int) -> None:
    with suppress(OSError), socket(fileno=dup(descriptor)) as copy:
        copy.shutdown(SHUT_RDWR)
