"""Checks of a node's database.

A separate control database of a hub is checked in the same way, except for its tables.
"""

import time
from collections.abc import Iterator

import psycopg
from msgspec.structs import replace
from psycopg.conninfo import conninfo_to_dict

from semq.cli.checkup.finding import FAILING, OK, WARNING, Finding, failing
from semq.cli.checkup.machine import exists
from semq.config.settings import Settings
from semq.errors import SemqError
from semq.foreign_text import shortened
from semq.service.database import NodeDatabase
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres import lease, roles, schema_version
from semq.store.postgres.conditions import requirements
from semq.store.postgres.conditions.durability import verify_settings
from semq.store.postgres.conditions.inspection import refuse_other_store
from semq.store.postgres.errors import SchemaTooOld
from semq.store.reader import connection_parameters, remedy_of_refusal

CONNECT_S = 5
SKEW_S_MAX = 2.0  # largest difference of the clocks without a warning


def check(settings: Settings) -> Iterator[Finding]:
    """Check the configured database; without one, the embedded server if it runs."""
    url = settings.database.dsn
    if url is None:
        url = EmbeddedPostgres(settings.data_dir).running_url() if exists(settings.data_dir) else None
        if url is None:
            yield Finding("database", OK, "an embedded Postgres, which starts with the node; it does not run now")
            return
    findings = list(_server(url, "database.url"))
    yield from findings
    if findings[-1].check != "database":  # later checks followed, so the server was reached and accepts writes
        yield _tables(url, settings)


def check_control(settings: Settings) -> Iterator[Finding]:
    """Check the control database, unless it is the database of this instance."""
    section = settings.cluster
    if section is not None and section.control is not None:
        for finding in _server(section.control.get_secret_value(), "cluster.control"):
            yield replace(finding, check=f"control {finding.check}")


def _server(url: str, key: str) -> Iterator[Finding]:
    """Check the server at ``url``, which is the value of the setting ``key``."""
    try:
        parameters = connection_parameters(url, "semq-doctor") | {"connect_timeout": CONNECT_S}
        with psycopg.connect(**parameters, autocommit=True) as connection:
            yield from _checks_of(connection, key, has_several_hosts="," in str(conninfo_to_dict(url).get("host", "")))
    except psycopg.Error as error:
        advice = f"Start the server, or correct {key}; a firewall may block the connection."
        yield _finding_of_failed_query("database", error, remedy_of_refusal(str(error)) or advice)


def _finding_of_failed_query(check_: str, error: psycopg.Error, advice: str) -> Finding:
    return Finding(check_, FAILING, shortened(" ".join(str(error).split()), 300), advice)


def _checks_of(connection: psycopg.Connection, key: str, *, has_several_hosts: bool) -> Iterator[Finding]:
    version = connection.info.parameter_status("server_version")
    [standby] = connection.execute("SELECT pg_is_in_recovery()").fetchone() or (False,)
    if standby:
        advice = f"Name the primary in {key}, or several hosts: the one that accepts writes is used."
        yield Finding("database", FAILING, f"Postgres {version} is a standby, which accepts no writes", advice)
        return
    try:
        verify_settings(connection)
        if requirements.is_pooled(connection):
            requirements.refuse_pooled_transactions(connection)
        yield Finding("database", OK, f"Postgres {version}, committed data is durable")
    except SemqError as error:
        yield failing("database", error)
    if has_several_hosts:
        yield _replication(connection)
    yield _clock(connection)
    yield _connections(connection)
    for requirement, fault in requirements.unmet(connection):
        verdict = FAILING if requirement.is_needed else WARNING
        yield Finding(requirement.name, verdict, shortened(" ".join(str(fault).split()), 300), fault.remedy)
    for hindrance in requirements.hindrances(connection):
        yield Finding("locks", WARNING, hindrance, "End that session, or wait for the end of its transaction.")
    yield from _rights(connection)


def _replication(connection: psycopg.Connection) -> Finding:
    """Check whether a commit waits for a standby."""
    [names] = connection.execute("SELECT current_setting('synchronous_standby_names')").fetchone() or ("",)
    if names:
        return Finding("replication", OK, f"synchronous_standby_names = {names}")
    detail = "asynchronous: a promoted standby may lack the last commits"
    advice = "Set synchronous_standby_names at all hosts; the operator's guide, *A server that fails over*."
    return Finding("replication", WARNING, detail, advice)


def _clock(connection: psycopg.Connection) -> Finding:
    before = time.time()
    [server_time] = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone() or (before,)
    skew_s = server_time - (before + time.time()) / 2
    if abs(skew_s) > SKEW_S_MAX:
        advice = "Set the clocks of both machines by NTP: traces and reconciliation compare their times."
        return Finding("database clock", WARNING, f"{skew_s:+.1f} s from the clock of this machine", advice)
    return Finding("database clock", OK, f"{skew_s * 1000:+.0f} ms from the clock of this machine")


def _connections(connection: psycopg.Connection) -> Finding:
    try:
        row = connection.execute(
            "SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),"
            " current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
        ).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return Finding("connections", OK, "not visible to this role")
    used, allowed = row or (0, 0)
    detail = f"{used} of {allowed} in use, the node needs {requirements.CONNECTIONS}"
    if allowed - used < requirements.CONNECTIONS:
        advice = "Raise max_connections of the server, or close connections of other programs."
        return Finding("connections", WARNING, detail, advice)
    return Finding("connections", OK, detail)


def _rights(connection: psycopg.Connection) -> Iterator[Finding]:
    if (schema := roles.open_schema(connection)) is not None:
        detail = f"every role may create objects in schema {schema}; the SQL calls of applications could run them"
        yield Finding("database rights", WARNING, detail, roles.remedy_for_open_schema(schema))


def _tables(url: str, settings: Settings) -> Finding:
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_S, autocommit=True) as connection:
            lease.refuse_other_node(connection, str(settings.own_store))
            refuse_other_store(connection, NodeDatabase(settings).known_store)
            schema_version.refuse_other(schema_version.revision_of(connection))
    except SchemaTooOld as error:
        if settings.database.migrate:
            detail = f"{error.facts['found']}; the next start migrates them to {schema_version.head()}"
            return Finding("tables", OK, detail)
        return failing("tables", error)
    except SemqError as error:
        return failing("tables", error)
    except psycopg.Error as error:
        return _finding_of_failed_query("tables", error, "Give the node's role the rights on its tables, then repeat.")
    return Finding("tables", OK, schema_version.head())
