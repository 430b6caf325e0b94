"""Requirements of a node in its database: each wrong state, on a real server, at the start, in doctor and in health."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from semq.config import load
from semq.errors import SemqError
from semq.store.postgres import ledger_partitions, migration
from semq.store.postgres.conditions import requirements
from semq.store.postgres.errors import (
    DatabaseReadOnly,
    EncodingUnfit,
    FunctionsOpen,
    LimitsUnfit,
    LocksOpen,
    PartitionsMissing,
    RightsMissing,
    RolesUnlimited,
    SchemaTooOld,
    StoreReplaced,
)
from tests.store.embedded.replication import replicated
from tests.store.postgres.conditions.role_database import (
    CONFIG,
    RoleDatabase,
    doctor,
    health,
    note_in_chinese,
    running,
    start_and_stop,
)


def unmet(place: RoleDatabase) -> list[str]:
    """Return the names of the requirements that the role's database does not meet."""
    with psycopg.connect(place.url, autocommit=True) as connection:
        return [requirement.name for requirement, _ in requirements.unmet(connection)]


async def test_a_role_without_rights_beyond_its_database_starts_a_node(place: RoleDatabase) -> None:
    """Only a superuser can take the advisory locks from other roles: doctor says so, and health is well."""
    async with running(place.settings()) as node:
        await node.requirements.check()
        assert node.requirements.unmet == []
        assert unmet(place) == ["others' locks"]
        assert LocksOpen.code in doctor(place.settings())


# What is wrong before the first start | statements, error, name of the requirement
BEFORE: dict[str, tuple[tuple[str, ...], type[SemqError], str]] = {
    "no CREATE in public": (("ALTER SCHEMA public OWNER TO CURRENT_USER",), RightsMissing, "schema"),
    "a database for reading": (
        ("ALTER DATABASE {name} SET default_transaction_read_only = on",), DatabaseReadOnly, "writable",
    ),
    "a role for reading": (
        ("ALTER ROLE {role} SET default_transaction_read_only = on",), DatabaseReadOnly, "writable",
    ),
    "no advisory locks": (("REVOKE EXECUTE ON FUNCTION pg_advisory_lock(bigint) FROM PUBLIC",), RightsMissing, "locks"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", BEFORE)
async def test_a_first_start_is_refused_with_the_words_of_doctor(place: RoleDatabase, wrong: str) -> None:
    statements, error, name = BEFORE[wrong]
    place.run(*statements)
    assert name in unmet(place)
    with pytest.raises(error) as caught:
        await start_and_stop(place.settings())
    found = doctor(place.settings())
    assert caught.value.code in found
    assert caught.value.remedy in found


# What is wrong at a later start | statements, error, name of the requirement; empty: it is the identity of the store
AFTER: dict[str, tuple[tuple[str, ...], type[SemqError], str]] = {
    "restored by a superuser without owners": (
        ("REASSIGN OWNED BY {role} TO CURRENT_USER", "ALTER DATABASE {name} OWNER TO {role}"), RightsMissing, "tables",
    ),
    "one right of one table": (("REVOKE DELETE ON tb_0030_done FROM {role}",), RightsMissing, "tables"),
    "one right of a table of hubs": (("REVOKE SELECT ON node_token FROM {role}",), RightsMissing, "tables"),
    "search_path lost": (
        ("CREATE SCHEMA elsewhere", "ALTER ROLE {role} SET search_path = elsewhere",
         "ALTER SCHEMA elsewhere OWNER TO {role}"), StoreReplaced, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", AFTER)
async def test_a_later_start_is_refused_with_the_words_of_doctor(place: RoleDatabase, wrong: str) -> None:
    await start_and_stop(place.settings())
    statements, error, name = AFTER[wrong]
    place.run(*statements)
    assert not name or name in unmet(place)
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
        assert "permission denied" not in await health(node)
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


# What a node can do without | statements, code and words in doctor and health, name of the requirement
WITHOUT: dict[str, tuple[tuple[str, ...], type[SemqError], str, str]] = {
    "no CREATE": (("ALTER SCHEMA public OWNER TO CURRENT_USER",), RightsMissing, "CREATE ON SCHEMA public", "schema"),
    "tables of another owner": (
        ("REASSIGN OWNED BY {role} TO CURRENT_USER", "ALTER DATABASE {name} OWNER TO {role}",
         "GRANT ALL ON SCHEMA public TO {role}", "GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}",
         "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}",
         "GRANT ALL ON ALL FUNCTIONS IN SCHEMA public TO {role}"),
        RightsMissing, "TO {role}", "owner",
    ),
    "connections of the role": (("ALTER ROLE {role} CONNECTION LIMIT 7",), LimitsUnfit, "7 connections", "connections"),
    "connections of the database": (
        ("ALTER DATABASE {name} CONNECTION LIMIT 7",), LimitsUnfit, "7 connections", "connections",
    ),
    "a role without a limit": (
        ("GRANT EXECUTE ON FUNCTION semq_receive TO {role}_erp",), RolesUnlimited, "_erp", "roles",
    ),
    "functions open": (
        ("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO PUBLIC",), FunctionsOpen, "semq_send", "functions",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WITHOUT)
async def test_a_node_serves_without_it_and_says_so_in_health_and_doctor(place: RoleDatabase, wrong: str) -> None:
    await start_and_stop(place.settings())
    statements, error, words, name = WITHOUT[wrong]
    place.run(*statements)
    assert name in unmet(place)
    await _served_without(place, error, words.format(role=place.role))


async def _served_without(place: RoleDatabase, error: type[SemqError], words: str) -> None:
    async with running(place.settings()) as node:
        for found in await health(node), doctor(place.settings()):
            assert error.code in found
            assert words in found


async def test_a_limit_of_the_servers_transactions_is_said(place: RoleDatabase) -> None:
    await start_and_stop(place.settings())
    limit = "ALTER ROLE {role} SET transaction_timeout = '10min'"
    with psycopg.connect(place.superuser_url) as connection:
        is_known = connection.info.server_version >= 17_00_00
    if not is_known:
        with pytest.raises(psycopg.errors.UndefinedObject):
            place.run(limit)
        return
    place.run(limit)
    assert "timeout" in unmet(place)
    await _served_without(place, LimitsUnfit, "transaction_timeout is 10min")


async def test_a_standby_is_refused_at_the_start_and_by_doctor(tmp_path: Path) -> None:
    with replicated(tmp_path, synchronous=False) as pair:
        facts = conninfo.conninfo_to_dict(pair.standby.url_of("semq", tcp=True))
        address = "postgresql://{user}:{password}@{host}:{port}/semq".format(**facts)
        file = tmp_path / "node.toml"
        file.write_text(CONFIG.format(url=address))
        settings = load(file, {})
        with pytest.raises(DatabaseReadOnly) as caught:
            await start_and_stop(settings)
        assert caught.value.facts["found"] == ["it is a standby"]
        assert "standby" in doctor(settings)
        with psycopg.connect(address, autocommit=True) as connection:
            assert next(requirements.unmet(connection))[0].name == "writable"


# Requirements whose wrong state is not a row of a table above | test
ALONE = {
    "encoding": "test_a_database_that_is_not_utf8_is_refused",
    "others' locks": "test_a_role_without_rights_beyond_its_database_starts_a_node",
    "timeout": "test_a_limit_of_the_servers_transactions_is_said",
}


def test_each_requirement_has_a_test_that_makes_the_wrong_state() -> None:
    in_tables = {row[-1] for table in (BEFORE, AFTER, WITHOUT) for row in table.values()} - {""}
    assert {row.name for row in requirements.REQUIREMENTS} == in_tables | ALONE.keys()
    assert all(callable(globals()[test]) for test in ALONE.values())


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


def test_an_upgrade_by_a_role_with_its_own_schema_needs_no_other(place: RoleDatabase) -> None:
    place.run("ALTER SCHEMA public OWNER TO CURRENT_USER", "CREATE SCHEMA {role} AUTHORIZATION {role}")
    migration.upgrade(place.url)
    with psycopg.connect(place.url) as connection:
        assert connection.execute("SELECT 'tb_0031'::regclass::text").fetchone() is not None
