"""Checks of a node's database and of a hub's control database: connection, durability, version of the tables."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from semq.cli.checkup.finding import FAILING, OK, WARNING, Finding, failing
from semq.cli.checkup.machine import is_there
from semq.config.settings import Settings
from semq.errors import SemqError
from semq.foreign_text import shortened
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres import roles, schema_version
from semq.store.postgres.durability import verify_settings
from semq.store.postgres.errors import SchemaTooOld

CONNECT_S = 5
SKEW_S_MAX = 2.0
NODE_CONNECTIONS = 8  # connections of a node: writer, readers, listener, extract


def check(settings: Settings) -> Iterator[Finding]:
    """Check the configured database, or the embedded one if it runs."""
    url = settings.database.dsn
    if url is None:
        url = EmbeddedPostgres(settings.data_dir).running_url() if is_there(settings.data_dir) else None
        if url is None:
            yield Finding("database", OK, "its own Postgres, which starts with the node; it does not run now")
            return
    found = list(_server(url, "database.url"))
    yield from found
    if found[-1].check != "database":  # connected, and it takes writes
        yield _tables(url, settings)


def check_control(settings: Settings) -> Iterator[Finding]:
    """Check the control database, which the instances of a hub share, if it has an address of its own."""
    section = settings.cluster
    if section is not None and section.control is not None:
        for one in _server(section.control.get_secret_value(), "cluster.control"):
            yield replace(one, check=f"control {one.check}")


def _server(url: str, key: str) -> Iterator[Finding]:
    """Check the server at an address, which the key ``key`` of the configuration has."""
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_S, autocommit=True) as connection:
            yield from _checked(connection, key, has_hosts="," in str(conninfo_to_dict(url).get("host", "")))
    except psycopg.Error as error:
        advice = f"Start the server, or correct {key}; a firewall may block the connection."
        yield Finding("database", FAILING, shortened(" ".join(str(error).split()), 300), advice)


def _checked(connection: psycopg.Connection[Any], key: str, *, has_hosts: bool) -> Iterator[Finding]:
    version = connection.info.parameter_status("server_version")
    [standby] = connection.execute("SELECT pg_is_in_recovery()").fetchone() or (False,)
    if standby:
        advice = f"Let {key} lead to the primary (target_session_attrs=read-write)."
        yield Finding("database", FAILING, f"Postgres {version} is a standby that takes no writes", advice)
        return
    try:
        verify_settings(connection)
        yield Finding("database", OK, f"Postgres {version}, committed data is durable")
    except SemqError as error:
        yield failing("database", error)
    if has_hosts:
        yield _replication(connection)
    yield _clock(connection)
    yield _connections(connection)
    yield from _rights(connection)


def _replication(connection: psycopg.Connection[Any]) -> Finding:
    """Check whether a commit waits for a standby."""
    [names] = connection.execute("SELECT current_setting('synchronous_standby_names')").fetchone() or ("",)
    if names:
        return Finding("replication", OK, f"synchronous_standby_names = {names}")
    detail = "asynchronous: a promoted standby may lack the last commits"
    advice = "Set synchronous_standby_names at all hosts; OPERATIONS.md, *A server that fails over*."
    return Finding("replication", WARNING, detail, advice)


def _clock(connection: psycopg.Connection[Any]) -> Finding:
    before = time.time()
    [theirs] = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone() or (before,)
    skew_s = theirs - (before + time.time()) / 2
    if abs(skew_s) > SKEW_S_MAX:
        advice = "Let both machines set their clocks by NTP: traces and reconciliation compare times."
        return Finding("database clock", WARNING, f"{skew_s:+.1f} s from the clock of this machine", advice)
    return Finding("database clock", OK, f"{skew_s * 1000:+.0f} ms from the clock of this machine")


def _connections(connection: psycopg.Connection[Any]) -> Finding:
    row = connection.execute(
        "SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),"
        " current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
    ).fetchone()
    used, most = row or (0, 0)
    detail = f"{used} of {most} in use"
    if most - used < NODE_CONNECTIONS:
        return Finding(
            "connections", WARNING, detail, "Raise max_connections of the server, or find the programs that hold them."
        )
    return Finding("connections", OK, detail)


def _rights(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    if (schema := roles.open_schema(connection)) is not None:
        detail = f"every role may create objects in schema {schema}, where the calls of applications look for theirs"
        yield Finding("database rights", WARNING, detail, roles.closing(schema))


def _tables(url: str, settings: Settings) -> Finding:
    try:
        schema_version.check(url)
    except SchemaTooOld as error:
        if settings.database.migrate:
            return Finding(
                "tables", OK, f"{error.facts['found']}; the next start brings them to {schema_version.head()}"
            )
        return failing("tables", error)
    except SemqError as error:
        return failing("tables", error)
    return Finding("tables", OK, schema_version.head())
