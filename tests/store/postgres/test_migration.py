"""Migrations: the tables that they create, and upgrades beside working nodes; names and plans of the statements."""

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from psycopg import conninfo
from sqlalchemy import Connection, text

import semq.store.sql
from semq.store import migrations
from semq.store.broker.statements import BROKER
from semq.store.embedded.cluster import DATABASE
from semq.store.embedded.errors import ServerTooOld
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres import migration, schema_version
from semq.store.postgres.conditions import durability
from semq.store.postgres.errors import SchemaBeforeRelease, SchemaBusy, SchemaTooNew, StoreUnavailable
from semq.store.postgres.pipeline import OPTIONS
from semq.store.postgres.schema_version import VERSION_TABLE, head
from semq.store.postgres.statements import LOAD, QUERY, STATEMENTS, WRITE
from semq.store.reader import KEEPALIVE
from semq.store.tables import EXTERNAL, STORAGE, metadata
from tests.conftest import new_database_of
from tests.store.postgres.test_statements import insert_waiting


def test_an_empty_database_is_upgraded_and_a_repetition_changes_nothing(empty_database: str) -> None:
    assert migration.upgrade(empty_database) == head()
    assert schema_version.current(empty_database) == head()
    assert migration.upgrade(empty_database) == head()


@pytest.mark.parametrize(("version", "refusal"), [("9999", SchemaTooNew), ("0030", SchemaBeforeRelease)])
def test_a_schema_that_this_version_does_not_know_is_refused(
    database: str, version: str, refusal: type[Exception]
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '{version}'".encode())
    with pytest.raises(refusal):
        migration.upgrade(database)
    assert schema_version.current(database) == version


def test_an_old_server_is_refused_before_an_upgrade(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "MIN_SERVER_VERSION", 99_00_00)
    with pytest.raises(ServerTooOld):
        migration.upgrade(empty_database)
    assert schema_version.current(empty_database) is None


def test_simultaneous_upgrades_wait_for_one_another(empty_database: str) -> None:
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(migration.upgrade, [empty_database] * 3)) == [head()] * 3
    schema_version.check(empty_database)


def test_an_upgrade_does_not_wait_for_a_suspended_process(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "IDLE_S_MAX", 1)
    suspended, resumed = Event(), Event()
    apply = migration._apply

    def suspend(connection: Connection, revision: str) -> None:
        monkeypatch.setattr(migration, "_apply", apply)
        monkeypatch.setattr(migration, "IDLE_S_MAX", 600)  # for the second upgrade
        suspended.set()
        resumed.wait()
        apply(connection, revision)

    monkeypatch.setattr(migration, "_apply", suspend)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(migration.upgrade, empty_database)
        assert suspended.wait(60)
        try:
            assert migration.upgrade(empty_database) == head()
        finally:
            resumed.set()
        with pytest.raises(StoreUnavailable):
            first.result()


def test_the_session_of_an_upgrade_has_a_name_and_notices_a_lost_server(empty_database: str) -> None:
    with migration.engine_of(empty_database).connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        parameters = driver.info.get_parameters()
    assert parameters["application_name"] == "semq-upgrade"
    assert KEEPALIVE.items() <= {name: int(value) for name, value in parameters.items() if value.isdigit()}.items()


def test_a_database_that_cannot_be_upgraded_is_reported_in_the_words_of_the_driver(postgres: Any) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        migration.upgrade(postgres.url_of("no_such_database"))
    assert str(caught.value.facts["fault"]).endswith('database "no_such_database" does not exist')


class Release:
    """A later release, whose revisions this test adds to a copy of the package ``semq.store.migrations``."""

    def __init__(self, folder: Path, texts: Path) -> None:
        self._versions, self._texts = folder / "versions", texts

    def add(self, *statements: str) -> str:
        """Add a revision; return its number."""
        before = schema_version.head()
        number = f"{int(before) + 1:04}"
        lines = (
            f"revision, down_revision = {number!r}, {before!r}",
            "def upgrade():",
            f"    run({'; '.join(statements)!r})",
        )
        text = "\n".join(("from semq.store.postgres.migration import run", *lines))
        (self._versions / f"v{number}_test.py").write_text(text)
        schema_version.known.cache_clear()
        return number

    def change(self, file: str, old: str, new: str) -> None:
        """Change a text of functions."""
        text = (self._texts / file).read_text("utf-8")
        assert old in text
        (self._texts / file).write_text(text.replace(old, new), "utf-8")


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Release]:
    for package in (migrations, semq.store.sql):
        folder = Path(package.__file__ or "").parent
        shutil.copytree(folder, tmp_path / package.__name__, ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.setattr(package, "__file__", str(tmp_path / package.__name__ / "__init__.py"))
    yield Release(tmp_path / "semq.store.migrations", tmp_path / "semq.store.sql")
    monkeypatch.undo()
    schema_version.known.cache_clear()


def test_an_upgrade_names_a_session_that_locks_a_table_and_continues_later(
    database: str, later: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = later.add("ALTER TABLE tb_0030_done ADD COLUMN later int")
    waiting = later.add("ALTER TABLE tb_0031_submit ADD COLUMN later int")
    monkeypatch.setattr(migration, "TRIES", 2)
    node_url = conninfo.make_conninfo(database, application_name="semq 1.10008")
    with psycopg.connect(node_url) as node, psycopg.connect(database, autocommit=True) as other:
        node.execute("UPDATE tb_0031_submit SET token = token WHERE false")  # its lock stays until the transaction ends
        with pytest.raises(SchemaBusy) as refused:
            migration.upgrade(database)
        assert refused.value.facts["revision"] == waiting
        assert "semq 1.10008" in refused.value.facts["used_by"]
        assert schema_version.current(database) == done
        node.execute("UPDATE tb_0031_submit SET token = token WHERE false")  # the node continues to work
        other.execute("SELECT count(*) FROM tb_0031_submit")  # no session waits for the upgrade
    assert migration.upgrade(database) == waiting
    schema_version.check(database)


def test_an_upgrade_gives_way_in_a_deadlock_with_a_node(database: str, later: Release) -> None:
    later.add("ALTER TABLE tb_0031 ADD COLUMN later int", "ALTER TABLE tb_0030 ADD COLUMN later int")
    before = schema_version.current(database)
    with psycopg.connect(database) as node, ThreadPoolExecutor() as pool:
        node.execute("LOCK TABLE tb_0030 IN ROW EXCLUSIVE MODE")
        running = pool.submit(migration.upgrade, database)
        wait_until(database, "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted")
        node.execute("LOCK TABLE tb_0031 IN ROW EXCLUSIVE MODE")  # waits for the upgrade, which waits for tb_0030
        assert schema_version.current(database) == before
        node.commit()
        assert running.result(60) == head()


def test_a_later_release_replaces_functions_and_views_in_the_transaction_of_its_last_revision(
    database: str, later: Release
) -> None:
    """The rights of applications stay."""
    role = f"receives_{uuid4().hex}"
    with psycopg.connect(database, autocommit=True) as connection:
        insert_waiting(connection, "1.77001", 1, 2)
        functions = "semq_receive, semq_done, semq_park, semq_send"
        connection.execute(f"CREATE ROLE {role}; GRANT EXECUTE ON FUNCTION {functions} TO {role}".encode())
        connection.execute(f"SET ROLE {role}".encode())
        try:
            receive = "SELECT * FROM semq_receive(at_most => 9)"
            before = connection.execute(receive)
            columns = [column.name for column in before.description or ()]
            later.add("ALTER TABLE tb_0030 ADD COLUMN colour text DEFAULT 'blue'")
            later.add("ALTER TABLE tb_0030 RENAME colour TO hue")
            later.change(
                "inbox.sql", "AS submitted_at\nFROM semq_inbox_rows", "AS submitted_at, p.hue\nFROM semq_inbox_rows"
            )
            assert migration.upgrade(database) == head()
            after = connection.execute(receive)
            assert [column.name for column in after.description or ()] == [*columns, "hue"]
            assert [(row[0], row[-1]) for row in after] == [(1, "blue"), (2, "blue")]
            connection.execute("SELECT semq_done(1), semq_park(2), semq_send('56001', 'x')")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("SELECT * FROM semq_inbox_rows")
        finally:
            connection.execute(f"RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_functions_that_cannot_be_replaced_leave_the_database_at_the_revision_before(
    database: str, later: Release
) -> None:
    before = schema_version.current(database)
    later.add("ALTER TABLE tb_0030 ADD COLUMN colour text")
    later.change("inbox.sql", "SELECT p.bref FROM tb_0030 p", "SELECT p.no_such_column AS bref FROM tb_0030 p")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        migration.upgrade(database)
    assert schema_version.current(database) == before


def test_an_upgrade_by_a_superuser_leaves_the_advisory_locks_to_the_owner_of_the_tables(empty_database: str) -> None:
    role = f"owns_{uuid4().hex}"
    with psycopg.connect(empty_database, autocommit=True) as connection:
        try:
            connection.execute(
                f"CREATE ROLE {role} LOGIN PASSWORD 'secret'; GRANT ALL ON SCHEMA public TO {role}".encode()
            )
            migration.upgrade(empty_database)
            connection.execute(f"ALTER TABLE semq_meta OWNER TO {role}".encode())
            connection.execute((migration.SEARCH_PATH + migration.functions_text()).encode())
            may = "SELECT has_function_privilege(%s, 'pg_try_advisory_xact_lock(bigint)', 'EXECUTE')"
            assert connection.execute(may, (role,)).fetchone() == (True,)
            assert connection.execute(may, ("pg_monitor",)).fetchone() == (False,)
        finally:
            connection.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}".encode())


def functions_in(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """Return the definitions of all functions, views and triggers, with the rights on them."""
    found = connection.execute("""
        SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid) || coalesce(p.proacl::text, '') FROM pg_proc p
        WHERE p.pronamespace = current_schema()::regnamespace
        UNION ALL
        SELECT c.relname, pg_get_viewdef(c.oid) || coalesce(c.relacl::text, '') FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'v'
        UNION ALL
        SELECT t.tgname, pg_get_triggerdef(t.oid) FROM pg_trigger t WHERE NOT t.tgisinternal""")
    return dict(found.fetchall())


def test_the_database_has_the_functions_views_and_triggers_of_the_texts_and_no_others(database: str) -> None:
    texts = migration.functions_text()
    created = re.findall(r"^CREATE OR REPLACE (?:FUNCTION|VIEW|TRIGGER) (\w+)", texts, re.MULTILINE)
    assert sorted(created) == sorted(re.findall(r"^CREATE (?:OR REPLACE )?\w+ (\w+)", texts, re.MULTILINE))
    with psycopg.connect(database) as connection:
        before = functions_in(connection)
        assert sorted(name.partition("(")[0] for name in before) == sorted(created)
        connection.execute((migration.SEARCH_PATH + texts).encode())
        assert functions_in(connection) == before


def test_functions_change_only_with_a_new_revision() -> None:
    """Databases at the newest revision keep the functions that they have.

    Another revision is added (CONTRIBUTING.md); one that no recording of ``tests/versions`` has may be corrected.
    """
    newest = migration._scripts().get_revision("head").module
    assert newest.functions == sha256(migration.functions_text().encode()).hexdigest()


def wait_until(url: str, question: str) -> None:
    """Wait until a count is not 0."""
    with psycopg.connect(url, autocommit=True) as connection:
        deadline = monotonic() + 60
        while connection.execute(question.encode()).fetchone() == (0,):
            assert monotonic() < deadline


# ------------------------------------------------------------------------------------ models and migrations agree


@pytest.fixture(scope="module")
def both_schemas(postgres: EmbeddedPostgres) -> Iterator[tuple[Connection, Connection]]:
    """Yield connections to a database made by the migrations, and to one made from ``semq.store.tables``."""
    with new_database_of(postgres, DATABASE) as database, new_database_of(postgres, "template0") as empty_database:
        migrated, modelled = migration.engine_of(database), migration.engine_of(empty_database)
        with migrated.connect() as migrated_one, modelled.connect() as modelled_one:
            metadata.create_all(modelled_one)
            yield migrated_one, modelled_one


def _is_compared(object_: Any, name: str | None, type_: str, *_: Any) -> bool:
    # The partitions of the ledger are not in ``semq.store.tables``.
    return not (type_ == "table" and (name or "").startswith("semq_ledger_"))


def test_alembic_finds_no_difference_between_migrated_and_modelled_tables(
    both_schemas: tuple[Connection, Connection],
) -> None:
    options = {
        "version_table": VERSION_TABLE,
        "compare_type": True,
        "compare_server_default": True,
        "include_object": _is_compared,
    }
    context = MigrationContext.configure(both_schemas[0], opts=options)
    assert compare_metadata(context, metadata) == []


# Facts that alembic does not compare: checks, indexes with their conditions, partitioning.
CATALOG = {
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace AND contype <> 'n'""",
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "partitioning": "SELECT partrelid::regclass::text, partstrat FROM pg_partitioned_table",
}


@pytest.mark.parametrize("kind", CATALOG)
def test_migrated_and_modelled_tables_have_the_same_catalog(
    both_schemas: tuple[Connection, Connection], kind: str
) -> None:
    def rows(connection: Connection) -> list[str]:
        left_out = ("semq_ledger_", VERSION_TABLE)
        found = [tuple(row) for row in connection.execute(text(CATALOG[kind]))]
        return sorted(map(repr, (row for row in found if not row[0].startswith(left_out))))

    assert rows(both_schemas[0]) == rows(both_schemas[1]) != []


def test_migrated_tables_have_the_modelled_storage_settings(database: str) -> None:
    with psycopg.connect(database) as connection:
        stored = connection.execute(
            "SELECT relname, reloptions FROM pg_class WHERE relkind = 'r' AND reloptions IS NOT NULL"
        ).fetchall()
        assert {name: dict(option.split("=") for option in options) for name, options in stored} == STORAGE
        external = connection.execute(
            "SELECT attrelid::regclass::text, attname FROM pg_attribute"
            " WHERE attstorage = 'e' AND attrelid IN (SELECT oid FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = 'public'::regnamespace)"
        ).fetchall()
        assert sorted(external) == sorted(EXTERNAL)


def test_no_index_has_a_column_that_changes(database: str) -> None:
    """With such an index, changes of status would not be heap-only updates."""
    changing = {"ss_status", "att", "outcome", "held", "parked", "custodian", "p_ack_status", "s_ack_status"}
    changing |= {"app_status", "deliveries", "next_sid", "floor", "until", "delivery_count"}
    with psycopg.connect(database) as connection:
        for name, definition in connection.execute("SELECT indexname, indexdef FROM pg_indexes").fetchall():
            assert not changing & set(definition.replace("(", " ").replace(")", " ").replace(",", " ").split()), name


def test_every_statement_has_a_name_of_its_own() -> None:
    assert len(STATEMENTS) == len(LOAD) + len(QUERY) + len(WRITE) + len(BROKER)


def test_no_plan_reads_a_whole_table(database: str) -> None:
    """This holds even if Postgres assumes that the tables are empty. Tables with one row are excepted."""
    with psycopg.connect(database, options=OPTIONS, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute(
            "SET plan_cache_mode = force_generic_plan"
        )  # EXPLAIN (GENERIC_PLAN) is newer than Postgres 15
        for name in STATEMENTS.keys() - {"begin", "rollback"}:
            connection.execute(f"PREPARE planned AS {STATEMENTS[name]}".encode())
            count = max(map(int, re.findall(r"\$(\d+)", STATEMENTS[name])), default=0)
            values = f"({', '.join(['NULL'] * count)})" if count else ""
            ((plan,),) = connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE planned{values}".encode()).fetchall()
            connection.execute("DEALLOCATE planned")
            for node, above in _nodes(plan[0]["Plan"], None):
                if node.get("Relation Name") not in ("store_lease", "semq_meta"):
                    _check(name, node, above)


def _check(name: str, node: dict[str, Any], above: dict[str, Any] | None) -> None:
    assert node["Node Type"] != "Seq Scan", (name, node)
    if node["Node Type"] in ("Index Scan", "Index Only Scan", "Bitmap Index Scan"):
        limited = above is not None and above["Node Type"] == "Limit"
        assert "Index Cond" in node or limited, (name, node)


def _nodes(node: dict[str, Any], above: dict[str, Any] | None) -> Any:
    yield node, above
    for below in node.get("Plans", ()):
        yield from _nodes(below, node)
