"""Requirements of a node in its database: each wrong state, on a real server, at the start, in doctor and in health."""

import asyncio
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo, sql

from local_node.node import LocalNode
from semq.cli.checkup import database as checkup
from semq.clock import SystemClock
from semq.config import load
from semq.config.settings import Settings
from semq.errors import SemqError
from semq.store.embedded.process import free_port
from semq.store.postgres import ledger_partitions, migration
from semq.store.postgres.conditions import requirements
from semq.store.postgres.errors import (
    DatabaseReadOnly,
    EncodingUnfit,
    FunctionsOpen,
    LimitsUnfit,
    LocksOpen,
    PartitionsMissing,
    PoolerUnfit,
    RightsMissing,
    RolesUnlimited,
    SchemaTooOld,
    StoreReplaced,
    StoreUnavailable,
)
from semq.store.reader import connection_parameters, missing_settings

CONFIG = """
[node]
kind = "local"
id = "10008"
data_dir = "data"
[amqp]
port = 0
[hub]
url = "amqp://127.0.0.1:1"
password = "no hub is needed here"
[database]
url = "{url}"
"""


class RoleDatabase:
    """An empty database that belongs to a role without further rights, and the folder of its node."""

    def __init__(self, superuser_url: str, role: str, folder: Path) -> None:
        self.superuser_url, self.role, self.folder = superuser_url, role, folder
        self.name = str(conninfo.conninfo_to_dict(superuser_url)["dbname"])
        self.url = conninfo.make_conninfo(superuser_url, user=role, password="secret")

    def run(self, *statements: str) -> None:
        """Run statements as the superuser; {role} and {name} are the role and the database."""
        with psycopg.connect(self.superuser_url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.format(role=self.role, name=self.name).encode())

    def settings(self) -> Settings:
        file = self.folder / "node.toml"
        facts = conninfo.conninfo_to_dict(self.url)
        address = f"postgresql://{self.role}:secret@/{self.name}?host={facts['host']}&port={facts['port']}"
        file.write_text(CONFIG.format(url=address))
        return load(file, {})


@pytest.fixture
def place(empty_database: str, tmp_path: Path) -> Iterator[RoleDatabase]:
    role = f"node_{os.getpid()}_{secrets.token_hex(3)}"
    here = RoleDatabase(empty_database, role, tmp_path)
    here.run(
        "CREATE ROLE {role} LOGIN PASSWORD 'secret'",
        "CREATE ROLE {role}_erp LOGIN",
        "ALTER DATABASE {name} OWNER TO {role}",
        "ALTER SCHEMA public OWNER TO {role}",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    )
    yield here
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(sql.Identifier(here.name)))
        connection.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(sql.Identifier(role)))
        connection.execute(sql.SQL("DROP OWNED BY {}, {}").format(sql.Identifier(role), sql.Identifier(f"{role}_erp")))
        connection.execute(sql.SQL("DROP ROLE {}, {}").format(sql.Identifier(role), sql.Identifier(f"{role}_erp")))


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[LocalNode]:
    node = LocalNode(settings, SystemClock())
    try:
        await node.start()
        yield node
    finally:
        await node.stop()


async def start_and_stop(settings: Settings) -> None:
    async with running(settings):
        pass


def doctor(settings: Settings) -> str:
    """Return the faults that ``semq doctor`` finds in the database."""
    found = [finding for finding in checkup.check(settings) if finding.verdict != "ok"]
    return "; ".join(f"{finding.detail} — {finding.advice}" for finding in found)


async def health(node: LocalNode) -> str:
    return "; ".join(check.detail for check in await node.checks() if check.name == "database")


async def test_a_role_without_rights_beyond_its_database_starts_a_node(place: RoleDatabase) -> None:
    async with running(place.settings()) as node:
        await node.requirements.check()
        # Only a superuser can take the advisory locks from other roles.
        assert [LocksOpen.code in text for text in node.requirements.unmet] == [True]


# What is wrong before the first start | statements, error
BEFORE: dict[str, tuple[tuple[str, ...], type[SemqError]]] = {
    "no CREATE in public": (("ALTER SCHEMA public OWNER TO CURRENT_USER",), RightsMissing),
    "a database for reading": (("ALTER DATABASE {name} SET default_transaction_read_only = on",), DatabaseReadOnly),
    "a role for reading": (("ALTER ROLE {role} SET default_transaction_read_only = on",), DatabaseReadOnly),
    "no advisory locks": (("REVOKE EXECUTE ON FUNCTION pg_advisory_lock(bigint) FROM PUBLIC",), RightsMissing),
}


@pytest.mark.parametrize("wrong", BEFORE)
async def test_a_first_start_is_refused_with_the_words_of_doctor(place: RoleDatabase, wrong: str) -> None:
    statements, error = BEFORE[wrong]
    place.run(*statements)
    with pytest.raises(error) as caught:
        await start_and_stop(place.settings())
    found = doctor(place.settings())
    assert caught.value.code in found
    assert caught.value.remedy in found


# What is wrong at a later start | statements, error
AFTER: dict[str, tuple[tuple[str, ...], type[SemqError]]] = {
    "restored by a superuser without owners": (
        ("REASSIGN OWNED BY {role} TO CURRENT_USER", "ALTER DATABASE {name} OWNER TO {role}"), RightsMissing,
    ),
    "one right of one table": (("REVOKE DELETE ON tb_0030_done FROM {role}",), RightsMissing),
    "one right of a table of hubs": (("REVOKE SELECT ON node_token FROM {role}",), RightsMissing),
    "search_path lost": (
        ("CREATE SCHEMA elsewhere", "ALTER ROLE {role} SET search_path = elsewhere",
         "ALTER SCHEMA elsewhere OWNER TO {role}"), StoreReplaced,
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", AFTER)
async def test_a_later_start_is_refused_with_the_words_of_doctor(place: RoleDatabase, wrong: str) -> None:
    await start_and_stop(place.settings())
    statements, error = AFTER[wrong]
    place.run(*statements)
    with pytest.raises(error) as caught:
        await start_and_stop(place.settings())
    found = doctor(place.settings())
    assert caught.value.code in found
    assert caught.value.remedy in found
    tables = "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('elsewhere')"
    with psycopg.connect(place.superuser_url) as connection:
        assert connection.execute(tables.encode()).fetchone() == (0,)  # no second, empty store


async def test_tables_of_others_in_the_schema_do_not_matter(place: RoleDatabase) -> None:
    await start_and_stop(place.settings())
    place.run(*(f"CREATE TABLE {name} (a int)" for name in ("web_orders", "semq_ledger_backup", "broker_fees")))
    async with running(place.settings()) as node:
        assert RightsMissing.code not in await health(node)
        assert RightsMissing.code not in doctor(place.settings())


HIDDEN = "pg_stat_activity, pg_locks, pg_roles, pg_database"


async def test_views_of_the_server_that_the_role_may_not_read_stop_no_start(place: RoleDatabase) -> None:
    place.run(f"REVOKE SELECT ON {HIDDEN} FROM PUBLIC")
    place.run("ALTER ROLE {role} CONNECTION LIMIT 7")
    async with running(place.settings()) as node:
        assert LocksOpen.code in await health(node)
    found = doctor(place.settings())
    assert LocksOpen.code in found
    assert "permission denied" not in found


async def test_a_node_that_does_not_migrate_needs_no_rights_to_do_so(place: RoleDatabase) -> None:
    await start_and_stop(place.settings())
    place.run("ALTER SCHEMA public OWNER TO CURRENT_USER", "DELETE FROM semq_version")
    settings = place.settings()
    settings = settings.model_copy(update={"database": settings.database.model_copy(update={"migrate": False})})
    with pytest.raises(SchemaTooOld):
        await start_and_stop(settings)


async def test_an_empty_note_of_the_store_is_none(place: RoleDatabase) -> None:
    await start_and_stop(place.settings())
    note = place.settings().data_dir / "store"
    identity = note.read_text()
    note.write_text("")
    await start_and_stop(place.settings())
    assert note.read_text() == identity


async def test_an_empty_store_is_accepted_for_other_numbers_only(place: RoleDatabase) -> None:
    """A hub whose store is retired begins another one, which its configuration names by numbers and database."""
    await start_and_stop(place.settings())
    place.run("DROP SCHEMA public CASCADE", "CREATE SCHEMA public AUTHORIZATION {role}")
    with pytest.raises(StoreReplaced):
        await start_and_stop(place.settings())
    settings = place.settings()
    other = settings.model_copy(update={"node": settings.node.model_copy(update={"semq_db_id": 2})})
    await start_and_stop(other)
    await start_and_stop(other)


# What a node can do without | statements, code and words in doctor and health
WITHOUT: dict[str, tuple[tuple[str, ...], type[SemqError], str]] = {
    "no CREATE": (("ALTER SCHEMA public OWNER TO CURRENT_USER",), RightsMissing, "CREATE ON SCHEMA public"),
    "connections of the role": (("ALTER ROLE {role} CONNECTION LIMIT 7",), LimitsUnfit, "7 connections"),
    "connections of the database": (("ALTER DATABASE {name} CONNECTION LIMIT 7",), LimitsUnfit, "7 connections"),
    "a role without a limit": (
        ("GRANT EXECUTE ON FUNCTION semq_receive TO {role}_erp",), RolesUnlimited, "_erp",
    ),
    "functions open": (("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO PUBLIC",), FunctionsOpen, "semq_send"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WITHOUT)
async def test_a_node_serves_without_it_and_says_so_in_health_and_doctor(place: RoleDatabase, wrong: str) -> None:
    await start_and_stop(place.settings())
    statements, error, words = WITHOUT[wrong]
    place.run(*statements)
    async with running(place.settings()) as node:
        for found in await health(node), doctor(place.settings()):
            assert error.code in found
            assert words in found


# Formats and limits that a DBA may set for a role or a database; a node sets its own for each session.
SETTINGS = (
    "DateStyle = 'German'", "IntervalStyle = 'iso_8601'", "bytea_output = 'escape'", "client_encoding = 'LATIN1'",
    "default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on",
    "statement_timeout = '1ms'", "lock_timeout = '1ms'",
    "idle_in_transaction_session_timeout = '1ms'", "idle_session_timeout = '1ms'",
    "standard_conforming_strings = off", "timezone = 'Asia/Kathmandu'", "search_path = public",
)  # fmt: skip


async def test_formats_and_limits_of_the_role_do_not_matter(place: RoleDatabase) -> None:
    place.run(*(f"ALTER ROLE {{role}} SET {setting}" for setting in SETTINGS))
    async with running(place.settings()) as node:
        verdicts = {check.name: check.verdict for check in await node.checks()}
        assert verdicts["store"] == "ok"
        accepted = await note_in_chinese(node)
        assert accepted == "订单"


async def note_in_chinese(node: LocalNode) -> str:
    """Note a text in the ledger by the writer, and read it by a reader."""
    from semq.engine.core import note_lines
    from semq.store.rows import Event, LedgerLine, Side

    done = asyncio.Event()
    line = LedgerLine(node.engine.core.now_ms(), Side.SENDER, Event.OPERATOR, "", "1.56001", detail="订单")
    node.store.post(note_lines([line], done.set))
    async with asyncio.timeout(20):
        await done.wait()
    return str(await node.store.execute(_last_detail))


def _last_detail(connection: object) -> str:
    from sqlalchemy import Connection, text

    assert isinstance(connection, Connection)
    return str(connection.execute(text("SELECT detail FROM semq_ledger ORDER BY number DESC LIMIT 1")).scalar_one())


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_that_is_not_utf8_is_refused(place: RoleDatabase, encoding: str) -> None:
    other = f"{place.name}_{encoding.lower()}"
    place.run(f"CREATE DATABASE {other} OWNER {{role}} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    try:
        changed = RoleDatabase(conninfo.make_conninfo(place.superuser_url, dbname=other), place.role, place.folder)
        with pytest.raises(EncodingUnfit, match=encoding):
            await start_and_stop(changed.settings())
        assert EncodingUnfit.code in doctor(changed.settings())
    finally:
        place.run(f"DROP DATABASE {other}")


# What keeps partitions of the ledger from being made
HINDERING_PARTITIONS: dict[str, tuple[str, ...]] = {
    "an event trigger": (
        "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no changes today'; END $$",
        "CREATE EVENT TRIGGER refuse_{name} ON ddl_command_start EXECUTE FUNCTION refuse()",
    ),
    "a table of the name": (),
    "no CREATE": ("ALTER SCHEMA public OWNER TO CURRENT_USER",),
}


@pytest.mark.parametrize("hindrance", HINDERING_PARTITIONS)
async def test_a_partition_that_cannot_be_made_stops_no_start(place: RoleDatabase, hindrance: str) -> None:
    await start_and_stop(place.settings())
    today = ledger_partitions.partition_of(datetime.now(UTC).date())
    place.run(f"DROP TABLE {today}", *HINDERING_PARTITIONS[hindrance])
    if hindrance == "a table of the name":
        place.run(f"CREATE TABLE {today} (a int)", f"ALTER TABLE {today} OWNER TO {{role}}")
    try:
        async with running(place.settings()) as node:
            assert PartitionsMissing.code in await health(node)
            assert await note_in_chinese(node) == "订单"  # in the default partition
            housekeeping = next(job for job in node.clockwork.jobs if job.name == "housekeeping")
            assert housekeeping.make_due is not None
            housekeeping.make_due()
            await node.clockwork._run(housekeeping)
            assert node.clockwork.records["housekeeping"].error
            assert "housekeeping" in next(check.detail for check in await node.checks() if check.name == "jobs")
    finally:
        if hindrance == "an event trigger":
            place.run("DROP EVENT TRIGGER refuse_{name}")


async def test_a_publication_of_all_tables_hinders_neither_partitions_nor_deletions(place: RoleDatabase) -> None:
    await start_and_stop(place.settings())
    today = ledger_partitions.partition_of(datetime.now(UTC).date())
    async with running(place.settings()) as node:
        await note_in_chinese(node)
    row = f"INSERT INTO semq_ledger_other SELECT * FROM {today} LIMIT 1"
    detach = f"ALTER TABLE semq_ledger DETACH PARTITION {today}"
    place.run(detach, row, f"DROP TABLE {today}", "CREATE PUBLICATION everything FOR ALL TABLES")
    async with running(place.settings()) as node:
        assert PartitionsMissing.code not in await health(node)
    with psycopg.connect(place.superuser_url) as connection:
        assert connection.execute(f"SELECT count(*) FROM {today}".encode()).fetchone() == (1,)
        without = (
            "SELECT c.relname FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace"
            " AND c.relreplident = 'd'"
            " AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)"
        )
        tables = {name for (name,) in connection.execute(without)}
    assert [name for name in tables if not name.startswith("semq_ledger_2")] == []  # these are dropped as a whole


def test_the_requirements_name_who_keeps_the_node_waiting(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "FACTS", requirements.FACTS | {"wait_s": 0})
    with (
        psycopg.connect(database, application_name="a report") as holder,
        psycopg.connect(database) as waiter,
        psycopg.connect(database, autocommit=True) as observer,
        ThreadPoolExecutor() as threads,
    ):
        holder.execute("LOCK tb_0030")
        waiting = threads.submit(waiter.execute, "SELECT count(*) FROM tb_0030")
        while not (found := requirements.hindrances(observer)):
            observer.execute("SELECT pg_sleep(0.01)")
        holder.rollback()
        waiting.result()
    assert "a report" in found[0]


def test_the_requirements_name_who_holds_much_of_the_lock_table(
    place: RoleDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(place.url) as holder, psycopg.connect(place.superuser_url, autocommit=True) as observer:
        holder.execute("CREATE TABLE one (a int)")
        assert requirements.hindrances(observer) == []
        monkeypatch.setattr(requirements, "FACTS", requirements.FACTS | {"share": 1_000_000})
        [found] = requirements.hindrances(observer)
        holder.rollback()
    assert place.role in found


def test_the_requirements_name_who_keeps_received_documents(
    place: RoleDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "FACTS", requirements.FACTS | {"open_s": 0})
    with psycopg.connect(place.url) as receiver, psycopg.connect(place.superuser_url, autocommit=True) as observer:
        receiver.execute("SELECT pg_advisory_xact_lock(1)")
        [found] = requirements.hindrances(observer)
        receiver.rollback()
        assert place.role in found
        assert requirements.hindrances(observer) == []


POOLER = """
[databases]
{name} = host=127.0.0.1 port={port} dbname={name}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {pooler_port}
unix_socket_dir =
auth_type = plain
auth_file = {folder}/users
pool_mode = {mode}
"""
OPTIONS = "ignore_startup_parameters = options"
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


@contextmanager
def pooled(place: RoleDatabase, mode: str, more: str) -> Iterator[RoleDatabase]:
    """Start PgBouncer in front of a database."""
    assert PGBOUNCER is not None
    facts, port = conninfo.conninfo_to_dict(place.superuser_url), free_port(None)
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)  # PgBouncer, which does not run as root, reads the files
        (folder / "users").write_text(f'"{place.role}" "secret"\n')
        text = POOLER.format(name=place.name, port=facts["port"], pooler_port=port, folder=folder, mode=mode)
        (folder / "ini").write_text(text + more)
        as_nobody = ["-u", "nobody"] if os.getuid() == 0 else []
        process = subprocess.Popen([PGBOUNCER, "-q", *as_nobody, folder / "ini"], stderr=subprocess.DEVNULL)
        try:
            while not _accepts(port):
                assert process.poll() is None
            through = conninfo.make_conninfo(place.superuser_url, host="127.0.0.1", port=port)
            yield RoleDatabase(through, place.role, place.folder)
        finally:
            process.terminate()
            process.wait()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed")
@pytest.mark.parametrize(
    ("mode", "more", "refusal"),
    [("transaction", "", StoreUnavailable), ("session", "", StoreUnavailable), ("transaction", OPTIONS, PoolerUnfit)],
)
async def test_a_pooler_is_named_with_its_remedy(
    place: RoleDatabase, mode: str, more: str, refusal: type[SemqError]
) -> None:
    with pooled(place, mode, more) as through:
        with pytest.raises(refusal) as caught:
            await start_and_stop(through.settings())
        assert caught.value.remedy == PoolerUnfit.remedy
        assert PoolerUnfit.remedy in doctor(through.settings())


@pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed")
async def test_a_node_works_through_a_pooler_in_session_mode(place: RoleDatabase) -> None:
    place.run("ALTER ROLE {role} SET DateStyle = 'German'")
    with pooled(place, "session", OPTIONS) as through:
        async with running(through.settings()) as node:
            assert await note_in_chinese(node) == "订单"


def test_settings_that_a_pooler_has_dropped_are_made_again(database: str) -> None:
    parameters = connection_parameters(database, "semq-test")
    with psycopg.connect(database) as connection:
        connection.execute("SET DateStyle = 'German'")
        connection.execute(*missing_settings(parameters["options"]))
        for name, value in (("DateStyle", "ISO"), ("default_transaction_isolation", "read committed")):
            row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
            assert str(row and row[0]).startswith(value)


def test_an_upgrade_by_a_role_with_its_own_schema_needs_no_other(place: RoleDatabase) -> None:
    place.run("ALTER SCHEMA public OWNER TO CURRENT_USER", "CREATE SCHEMA {role} AUTHORIZATION {role}")
    migration.upgrade(place.url)
    with psycopg.connect(place.url) as connection:
        assert connection.execute("SELECT 'tb_0031'::regclass::text").fetchone() is not None
