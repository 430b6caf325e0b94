"""Roles of applications have exactly the rights that were granted."""

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
import pytest
from psycopg import conninfo, errors, sql
from sqlalchemy import make_url

from semq.store.postgres import roles
from semq.store.postgres.errors import RoleRefused, SchemaOpen, StoreUnavailable

ROLE = f"erp_{os.getpid()}"
SEND = "SELECT semq_send('56001', 'x')"
RECEIVE = "SELECT * FROM semq_receive()"
PIECE = "SELECT semq_piece(bref) FROM semq_receive()"
READ = "SELECT app_key FROM tb_0031"


@pytest.fixture
def role(database: str) -> Iterator[str]:
    yield ROLE
    with psycopg.connect(database, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone() is not None:
            connection.execute(sql.SQL("DROP OWNED BY {0} CASCADE").format(sql.Identifier(ROLE)))
            connection.execute(sql.SQL("DROP ROLE {0}").format(sql.Identifier(ROLE)))


def as_role(database: str) -> "psycopg.Connection[Any]":
    """Return a session that is logged in with the role."""
    return psycopg.connect(conninfo.make_conninfo(database, user=ROLE, password="secret"), autocommit=True)


@pytest.mark.parametrize(
    ("right", "allowed", "refused"),
    [("send", SEND, (RECEIVE, PIECE, READ)), ("receive", PIECE, (SEND, READ)), ("read", READ, (SEND, RECEIVE))],
)
def test_each_right_allows_its_own_statements_only(
    database: str, role: str, right: str, allowed: str, refused: tuple[str, ...]
) -> None:
    assert roles.grant(database, role, [right], "secret")
    with as_role(database) as connection:
        connection.execute(allowed)
        for statement in refused:
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(statement.encode())
    assert roles.rights_of(database, role) == [right]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM tb_0031_submit",
        "SELECT payload FROM tb_0031_body",
        "SELECT * FROM tb_0030_body",
        "SELECT * FROM semq_inbox",
        "INSERT INTO tb_0030_done (bref) VALUES (1)",
        "DELETE FROM tb_0031",
        "UPDATE tb_0031 SET outcome = 110",
        "SELECT * FROM semq_session_key",
        "SELECT * FROM semq_pieces_of('1.10008', 'x')",
        "SELECT semq_envelope('{}')",
        "CREATE TABLE public.t (a int)",
        "CREATE ROLE other",
        "ALTER FUNCTION semq_send OWNER TO CURRENT_USER",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY (SELECT 1) TO PROGRAM 'true'",
    ],
)
def test_an_application_with_all_rights_is_refused_other_statements(database: str, role: str, statement: str) -> None:
    roles.grant(database, role, list(roles.RIGHTS), "secret")
    with as_role(database) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(statement.encode())


def test_tables_of_an_application_never_replace_those_of_the_node(database: str, role: str) -> None:
    """Functions run with the owner's rights: code of the caller that they use would have these rights."""
    roles.grant(database, role, ["send", "receive"], "secret")
    with as_role(database) as connection:
        connection.execute("CREATE TABLE orders (number text)")
        for table in ("tb_0031_submit", "tb_0030_done", "tb_0030"):
            connection.execute(f"CREATE TEMPORARY TABLE {table} (number bigint, target text)".encode())
            connection.execute(f"CREATE TABLE {table} (number bigint, target text)".encode())
        connection.execute("CREATE FUNCTION pg_notify(text, text) RETURNS void LANGUAGE sql AS $$ SELECT 1/0 $$")
        connection.execute(SEND)
        connection.execute(RECEIVE)
        assert connection.execute("SELECT count(*) FROM tb_0031_submit").fetchone() == (0,)
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM tb_0031_submit").fetchone() == (1,)


def test_rights_are_granted_and_revoked_one_by_one(database: str, role: str) -> None:
    assert roles.grant(database, role, ["send", "read"], "secret")
    assert not roles.grant(database, role, ["receive"], "other")
    assert roles.rights_of(database, role) == ["send", "receive", "read"]
    roles.revoke(database, role, ["read"])
    with as_role(database) as connection:
        # The right ``send`` includes this function, too.
        connection.execute("SELECT * FROM semq_status(1)")
    roles.revoke(database, role, list(roles.RIGHTS))
    assert roles.rights_of(database, role) == []
    with as_role(database) as connection:
        for statement in (SEND, RECEIVE, READ, "SELECT * FROM semq_status(1)"):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def test_the_owner_a_bad_name_and_a_missing_role_are_refused(database: str, role: str) -> None:
    owner = conninfo.conninfo_to_dict(database)["user"]
    for name in (str(owner), "pg_monitor", "Erp", "a b", 'x"; DROP', "", "x" * 64):
        with pytest.raises(RoleRefused):
            roles.grant(database, name, ["send"], "secret")
    with pytest.raises(RoleRefused):
        roles.revoke(database, role, ["send"])


def test_an_owner_who_may_not_create_roles_gets_an_error_with_the_message_of_postgres(database: str, role: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret'").format(sql.Identifier(role)))
    limited = conninfo.make_conninfo(database, user=role, password="secret")
    with pytest.raises(RoleRefused, match="permission denied"):
        roles.grant(limited, "another", ["send"], "secret")
    with pytest.raises(RoleRefused, match="permission denied"):
        roles.revoke(limited, role, ["send"])


def test_a_database_without_tables_and_an_unavailable_one_are_refused(empty_database: str, role: str) -> None:
    with pytest.raises(RoleRefused):
        roles.grant(empty_database, role, ["send"], "secret")
    with pytest.raises(StoreUnavailable):
        roles.grant("postgresql://nobody@127.0.0.1:1/none?connect_timeout=2", role, ["send"], "secret")


def test_a_suspended_grant_keeps_no_locks(database: str, role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "ENDED_IF_SUSPENDED", "-c idle_in_transaction_session_timeout=0.2s")
    apply, has_ended = roles._apply, Event()

    def suspended(*arguments: Any) -> None:
        # The row of the schema is locked: this waits for the end of the suspended session.
        with psycopg.connect(database, options="-c lock_timeout=20s") as other:
            other.execute("GRANT USAGE ON SCHEMA public TO pg_monitor")
        has_ended.set()
        apply(*arguments)

    monkeypatch.setattr(roles, "_apply", suspended)
    with pytest.raises(StoreUnavailable):
        roles.grant(database, role, ["send"], "secret")
    assert has_ended.is_set()
    monkeypatch.setattr(roles, "_apply", apply)
    assert roles.grant(database, role, ["send"], "secret")


def test_the_url_of_a_role_has_its_password_if_known_and_the_address_of_the_database(tmp_path: Path) -> None:
    roles.keep_password(tmp_path, "erp", "s/e@c")
    assert (tmp_path / "roles" / "erp").stat().st_mode & 0o777 == 0o600
    own = "postgresql://semq:p@/semq?host=%2Frun%2Fsemq&port=5999"
    assert roles.url_for(own, "erp", tmp_path, embedded=True) == "postgresql://erp:s%2Fe%40c@127.0.0.1:5999/semq"
    external = "postgresql://owner:p@db.example:5432/semq?sslmode=require"
    assert roles.url_for(external, "crm", tmp_path, embedded=False) == (
        "postgresql://crm@db.example:5432/semq?sslmode=require"
    )
    assert roles.url_for(own, "crm", tmp_path, embedded=False) == "postgresql://crm@:5999/semq?host=%2Frun%2Fsemq"
    several = "postgresql://semq:pw@one:5432,two:5433/orders?target_session_attrs=read-write"
    address = roles.url_for(several, "crm", tmp_path, embedded=False)
    assert make_url(address).query["host"] == "one,two"
    facts = conninfo.conninfo_to_dict(address)
    assert (facts["user"], facts["host"], facts["port"], facts["dbname"]) == ("crm", "one,two", "5432,5433", "orders")
    assert facts["target_session_attrs"] == "read-write"


@pytest.mark.parametrize("creator", ["PUBLIC", ROLE], ids=["public", "role"])
def test_nothing_is_granted_while_applications_may_create_objects_in_the_schema_of_the_tables(
    database: str, role: str, creator: str
) -> None:
    roles.grant(database, role, ["send"], "secret")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"GRANT CREATE ON SCHEMA public TO {creator}".encode())
    with pytest.raises(SchemaOpen) as refused:
        roles.grant(database, role, ["receive"], "secret")
    assert roles.rights_of(database, role) == ["send"]
    remedy = refused.value.remedy
    statement = remedy[remedy.index("REVOKE") : remedy.index(";")]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(statement.encode())
    roles.grant(database, role, ["receive"], "secret")
    assert roles.rights_of(database, role) == ["send", "receive"]


def test_rights_can_be_revoked_where_everybody_may_create_objects(database: str, role: str) -> None:
    roles.grant(database, role, ["send"], "secret")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    roles.revoke(database, role, ["send"])
    assert roles.rights_of(database, role) == []


CALLS = (
    SEND, RECEIVE, PIECE, "SELECT semq_done(1)", "SELECT semq_park(1)", "SELECT * FROM semq_status(1)",
    "SELECT * FROM semq_status('token')", "SELECT * FROM semq_state('1.10008.1.1.0.1.1')",
    "SELECT * FROM semq_pieces_of('1.10008', 'x')", "SELECT semq_joined(NULL)",
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_functions_that_a_restore_has_opened_refuse_a_role_without_a_grant(database: str, role: str, call: str) -> None:
    open_like_a_restore_without_rights(database)
    make_role_without_rights(database)
    with as_role(database) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(call.encode())


def test_the_next_grant_closes_functions_that_a_restore_has_opened(database: str, role: str) -> None:
    open_like_a_restore_without_rights(database)
    with psycopg.connect(database) as owner:
        assert roles.open_functions(owner) == sorted(roles.FUNCTIONS)
        owner.execute(SEND)  # the owner may call them at any time
    roles.grant(database, role, ["send"], "secret")
    with psycopg.connect(database) as owner:
        assert roles.open_functions(owner) == []
    with as_role(database) as connection:
        connection.execute(SEND)


def open_like_a_restore_without_rights(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO PUBLIC")


def make_role_without_rights(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret'").format(sql.Identifier(ROLE)))


def test_every_function_with_the_rights_of_the_owner_checks_its_caller(database: str) -> None:
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT proname, prosrc FROM pg_proc WHERE prosecdef").fetchall()
    assert {name for name, _ in rows} == set(roles.FUNCTIONS)
    assert [name for name, source in rows if f"semq_refuse_open('{name}')" not in source] == []


def test_a_role_gets_no_advisory_lock_by_any_function_of_postgres(database: str, role: str) -> None:
    roles.grant(database, role, list(roles.RIGHTS), "secret")
    with as_role(database) as connection:
        names = "SELECT oid::regprocedure::text FROM pg_proc WHERE proname LIKE 'pg%advisory%'"
        functions = [name for (name,) in connection.execute(names).fetchall()]
        assert len(functions) > 20
        may = "SELECT has_function_privilege(%s, 'EXECUTE')"
        assert [name for name in functions if connection.execute(may, (name,)).fetchone() != (False,)] == []
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("SELECT pg_advisory_lock(n) FROM generate_series(1, 20000) n")
        connection.execute(RECEIVE)


def test_of_transactions_that_submit_at_the_same_time_one_notifies(database: str, role: str) -> None:
    """A NOTIFY makes commits serial: each waits for all commits before it."""
    roles.grant(database, role, ["send"], "secret")
    listener = psycopg.connect(database, autocommit=True)
    listener.execute("LISTEN semq_submit")
    sessions = [as_role(database) for _ in range(10)]
    for session in sessions:
        session.execute("BEGIN")
        session.execute(SEND)
        session.execute(SEND)
    for session in sessions:
        session.execute("COMMIT")
    assert len(list(listener.notifies(timeout=1, stop_after=2))) == 1
    sessions[-1].execute(SEND)
    assert len(list(listener.notifies(timeout=5, stop_after=1))) == 1
    for connection in (*sessions, listener):
        connection.close()


def test_a_new_role_has_a_limit_of_connections(database: str, role: str) -> None:
    roles.grant(database, role, ["send"], "secret")
    with psycopg.connect(database) as connection:
        limit = connection.execute("SELECT rolconnlimit FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
    assert limit == (roles.CONNECTIONS,)
