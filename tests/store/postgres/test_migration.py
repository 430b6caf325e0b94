"""Migrations: the tables that they create, and upgrades beside working nodes; names and plans of the statements."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import monotonic
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from psycopg import conninfo
from sqlalchemy import Connection, text

from semq.store.broker.statements import BROKER
from semq.store.embedded.cluster import DATABASE
from semq.store.embedded.errors import ServerTooOld
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres import migration, schema_version
from semq.store.postgres.conditions import durability
from semq.store.postgres.errors import SchemaBusy, SchemaTooNew, StoreUnavailable
from semq.store.postgres.pipeline import OPTIONS
from semq.store.postgres.schema_version import VERSION_TABLE, head
from semq.store.postgres.statements import LOAD, QUERY, STATEMENTS, WRITE
from semq.store.reader import KEEPALIVE
from semq.store.tables import EXTERNAL, STORAGE, metadata
from tests.conftest import new_database_of
from tests.store.postgres.test_statements import insert_waiting, set_attributes


def test_an_empty_database_is_upgraded_and_a_repetition_changes_nothing(empty_database: str) -> None:
    assert migration.upgrade(empty_database) == head()
    assert schema_version.current(empty_database) == head()
    assert migration.upgrade(empty_database) == head()


def test_a_newer_schema_is_refused(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'".encode())
    with pytest.raises(SchemaTooNew):
        migration.upgrade(database)


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


@pytest.fixture
def older_database(empty_database: str) -> str:
    with migration.engine_of(empty_database).begin() as old:
        command.upgrade(migration._config(old), "0005")
    return empty_database


def test_an_upgrade_names_a_session_that_locks_a_table_and_continues_later(
    older_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration, "TRIES", 2)
    node_url = conninfo.make_conninfo(older_database, application_name="semq 1.10008")
    with psycopg.connect(node_url) as node, psycopg.connect(older_database, autocommit=True) as other:
        node.execute("UPDATE tb_0031_submit SET token = token WHERE false")  # its lock stays until the transaction ends
        with pytest.raises(SchemaBusy) as refused:
            migration.upgrade(older_database)
        assert refused.value.facts["revision"] == "0007"
        assert "semq 1.10008" in refused.value.facts["used_by"]
        assert schema_version.current(older_database) == "0006"
        node.execute("UPDATE tb_0031_submit SET token = token WHERE false")  # the node continues to work
        other.execute("SELECT count(*) FROM tb_0031_submit")  # no session waits for the upgrade
    assert migration.upgrade(older_database) == head()
    schema_version.check(older_database)


def test_an_upgrade_gives_way_in_a_deadlock_with_a_node(older_database: str) -> None:
    """Revision 0011 locks tb_0031, then tb_0030."""
    with psycopg.connect(older_database) as node, ThreadPoolExecutor() as pool:
        with migration.engine_of(older_database).connect() as upgrading:
            for script in ("0006", "0007", "0008", "0009", "0010"):
                migration._apply(upgrading, script)
        node.execute("LOCK TABLE tb_0030 IN ROW EXCLUSIVE MODE")
        running = pool.submit(migration.upgrade, older_database)
        wait_until(older_database, "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted")
        node.execute("LOCK TABLE tb_0031 IN ROW EXCLUSIVE MODE")  # waits for the upgrade, which waits for tb_0030
        assert schema_version.current(older_database) == "0010"
        node.commit()
        assert running.result(60) == head()


def wait_until(url: str, question: str) -> None:
    """Wait until a count is not 0."""
    with psycopg.connect(url, autocommit=True) as connection:
        deadline = monotonic() + 60
        while connection.execute(question.encode()).fetchone() == (0,):
            assert monotonic() < deadline


def test_documents_recorded_before_proofs_were_stored_count_as_proved(empty_database: str) -> None:
    insert = b"INSERT INTO tb_0030_ledger (stream, sid, status) VALUES (1, %d, 410)"
    with migration.engine_of(empty_database).begin() as old:
        command.upgrade(migration._config(old), "0008")
    with psycopg.connect(empty_database) as connection:
        connection.execute(insert % 1)
    migration.upgrade(empty_database)
    with psycopg.connect(empty_database) as connection:
        connection.execute(insert % 2)
        found = connection.execute("SELECT sid, proved FROM tb_0030_ledger ORDER BY sid").fetchall()
    assert found == [(1, True), (2, False)]


def test_only_roles_that_received_before_may_read_pieces(empty_database: str) -> None:
    receives, sends = (f"{name}_{uuid4().hex}" for name in ("receives", "sends"))
    with migration.engine_of(empty_database).begin() as old:
        command.upgrade(migration._config(old), "0018")
    with psycopg.connect(empty_database, autocommit=True) as connection:
        try:
            for role, function in ((receives, "semq_receive"), (sends, "semq_send")):
                connection.execute(f"CREATE ROLE {role}; GRANT EXECUTE ON FUNCTION {function} TO {role}".encode())
            migration.upgrade(empty_database)
            may = "SELECT has_function_privilege(%s, 'semq_piece(bigint)', 'EXECUTE')"
            assert [connection.execute(may, (role,)).fetchone() for role in (receives, sends)] == [(True,), (False,)]
        finally:
            for role in (receives, sends):
                connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_a_receiver_continues_over_the_upgrade_that_replaces_its_inbox(empty_database: str) -> None:
    """Revision 0028 replaces the functions of applications and the view that they return."""
    role = f"receives_{uuid4().hex}"
    with migration.engine_of(empty_database).begin() as old:
        command.upgrade(migration._config(old), "0027")
    with psycopg.connect(empty_database, autocommit=True) as connection:
        insert_waiting(connection, "1.77001", 1, 2)
        set_attributes(connection, 1, {"user_headers": {"note": "x\0y"}})
        functions = "semq_receive, semq_done, semq_park, semq_send"
        connection.execute(f"CREATE ROLE {role}; GRANT EXECUTE ON FUNCTION {functions} TO {role}".encode())
        connection.execute(f"SET ROLE {role}".encode())
        columns = [
            column.name for column in connection.execute("SELECT * FROM semq_receive(at_most => 0)").description or ()
        ]
        with pytest.raises(psycopg.DataError):
            connection.execute("SELECT * FROM semq_receive()")
        migration.upgrade(empty_database)
        try:
            cursor = connection.execute("SELECT * FROM semq_receive(at_most => 9)")
            assert [column.name for column in cursor.description or ()] == columns
            assert [(row[0], row[columns.index("headers")]) for row in cursor] == [(1, {"note": "x\ufffdy"}), (2, None)]
            connection.execute("SELECT semq_done(1), semq_park(2), semq_send('56001', 'x')")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("SELECT * FROM semq_inbox_rows")
        finally:
            connection.execute(f"RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}".encode())


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
        version = connection.info.server_version
        explain = "EXPLAIN (GENERIC_PLAN, FORMAT JSON) " if version >= 160000 else "EXPLAIN (FORMAT JSON) "
        for name in STATEMENTS.keys() - {"begin", "commit", "rollback"}:
            ((plan,),) = connection.execute((explain + STATEMENTS[name]).encode()).fetchall()
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
