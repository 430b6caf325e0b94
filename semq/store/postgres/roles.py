"""Roles for applications that use the database of a node, limited to the calls in the guide to SQL.

The rights ``send`` and ``receive`` allow functions, which run with the rights of the owner of the tables. The right
``read`` allows reading the queues and the ledger, without payloads.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import conninfo, sql
from sqlalchemy import URL

from semq.store.files import write_safely
from semq.store.postgres.errors import RoleRefused, SchemaOpen
from semq.store.reader import ENDED_IF_SUSPENDED, connection_parameters, is_unavailable, unavailable
from semq.store.submission_tables import tb_0031_submit

NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_STATUS = ("EXECUTE ON FUNCTION {s}.semq_status(bigint)", "EXECUTE ON FUNCTION {s}.semq_status(text)")
SUBMIT_COLUMNS = ", ".join(c.name for c in tb_0031_submit.columns if c.name not in ("payload", "headers", "envelope"))
# Right | privileges; {s} is the schema of the tables.
RIGHTS: dict[str, tuple[str, ...]] = {
    "send": ("EXECUTE ON FUNCTION {s}.semq_send", *_STATUS),
    "receive": (
        "EXECUTE ON FUNCTION {s}.semq_receive",
        "EXECUTE ON FUNCTION {s}.semq_piece",
        "EXECUTE ON FUNCTION {s}.semq_done",
        "EXECUTE ON FUNCTION {s}.semq_park",
    ),
    "read": (
        "SELECT ON {s}.tb_0031, {s}.tb_0030, {s}.semq_ledger, {s}.tb_0031_taken, {s}.tb_0031_renamed, {s}.tb_0031_wait",
        f"SELECT ({SUBMIT_COLUMNS}) ON {{s}}.tb_0031_submit",
        *_STATUS,
    ),
}

FUNCTIONS = ("semq_send", "semq_status", "semq_receive", "semq_piece", "semq_done", "semq_park")
OPEN_FUNCTIONS = (  # those that every role may call
    "SELECT DISTINCT p.proname::text FROM pg_proc p JOIN pg_class c ON c.relnamespace = p.pronamespace,"
    " aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a"
    " WHERE c.oid = to_regclass('tb_0031') AND a.grantee = 0 AND p.proname = ANY(%(functions)s) ORDER BY 1"
)
CONNECTIONS = 20  # connection limit of a new role: one application must not take the connections of the others


def grant(url: str, role: str, rights: Sequence[str], password: str, keep: Callable[[], None] = lambda: None) -> bool:
    """Give rights to a role. Create a missing role, with this password and a schema of its own.

    Return whether the role was created. ``keep`` stores the password of a new role before the commit: if it raises,
    no role is created. Raises RoleRefused, SchemaOpen, StoreUnavailable, and the errors of ``keep``.
    """
    with _owner_connection(url, role) as connection:
        schema = _schema(connection)
        _refuse_open(connection, "public")
        is_new = _existing_role(connection, role) is None
        if not is_new:
            _refuse_open(connection, role)
        else:
            name = sql.Identifier(role)
            _make_role(connection, role, password)
            with connection.transaction():
                connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(name))
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {0} AUTHORIZATION {0}").format(name))
            connection.execute(sql.SQL("REVOKE {} FROM CURRENT_USER").format(name))
        _close_functions(connection, schema)
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, sql.Identifier(role)))
        _apply(connection, "GRANT {} TO {}", role, rights, schema)
        if is_new:
            keep()
    return is_new


def restore_role(url: str, role: str, data_dir: Path) -> None:
    """Make a role with the password that was kept, or with a new one. Raises RoleRefused, StoreUnavailable, OSError."""
    with _owner_connection(url, role) as connection:
        if not _file(data_dir, role).exists():
            keep_password(data_dir, role, new_password())
        _make_role(connection, role, _file(data_dir, role).read_text().strip())


def _make_role(connection: "psycopg.Connection", role: str, password: str) -> None:
    connection.execute(
        sql.SQL(
            "CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION CONNECTION LIMIT {} PASSWORD {}"
        ).format(sql.Identifier(role), sql.Literal(CONNECTIONS), sql.Literal(password))
    )


def revoke(url: str, role: str, rights: Sequence[str]) -> None:
    """Revoke rights of a role, and keep the role. Raises RoleRefused, StoreUnavailable."""
    with _owner_connection(url, role) as connection:
        schema = _schema(connection)
        if _existing_role(connection, role) is None:
            raise RoleRefused("There is no such role.", role=role)
        kept = [right for right in _held_rights(connection, role) if right not in rights]
        _apply(connection, "REVOKE {} FROM {}", role, rights, schema)
        _apply(connection, "GRANT {} TO {}", role, kept, schema)  # some privileges belong to two rights


def _held_rights(connection: "psycopg.Connection", role: str) -> list[str]:
    functions = {"send": "semq_send", "receive": "semq_receive"}  # a function of this right only
    rights = [
        right
        for right, function in functions.items()
        if connection.execute(
            "SELECT has_function_privilege(%s, p.oid, 'EXECUTE') FROM pg_proc p WHERE p.proname = %s", (role, function)
        ).fetchone()
        == (True,)
    ]
    can_read = connection.execute("SELECT has_table_privilege(%s, 'tb_0031', 'SELECT')", (role,)).fetchone()
    return [*rights, "read"] if can_read == (True,) else rights


def rights_of(url: str, role: str) -> list[str]:
    """Return the present rights of a role. Raises RoleRefused, StoreUnavailable."""
    with _owner_connection(url, role) as connection:
        return _held_rights(connection, role)


def new_password() -> str:
    """Return a new password."""
    return secrets.token_urlsafe(24)


def logins(url: str) -> list[str]:
    """Return the names of all roles of the server that may log in. Raises StoreUnavailable."""
    with _open_connection(url) as connection:
        return [str(name) for (name,) in connection.execute("SELECT rolname FROM pg_roles WHERE rolcanlogin")]


def keep_password(data_dir: Path, role: str, password: str) -> None:
    """Store the password of a role in a file that only the node's user may read."""
    write_safely(_file(data_dir, role), f"{password}\n".encode(), 0o600)


def url_for(url: str, role: str, data_dir: Path, *, embedded: bool) -> str:
    """Return the URL of a role for SQLAlchemy and libpq, with the password if ``keep_password`` has stored it.

    For an embedded server, the URL has the TCP port, because only the node's user may use the socket. Raises
    RoleRefused.
    """
    check_name(role)
    facts = conninfo.conninfo_to_dict(url)
    file = _file(data_dir, role)
    query = {
        name: str(value)
        for name, value in facts.items()
        if name not in ("user", "password", "host", "port", "dbname") and value is not None
    }
    host, port = "127.0.0.1" if embedded else str(facts.get("host") or ""), str(facts.get("port") or "")
    if host.startswith("/"):
        host, query["host"] = "", host
    elif "," in host:  # several hosts, in the form that both SQLAlchemy and libpq can read
        query |= {"host": host, "port": port} if port else {"host": host}
        host, port = "", ""
    address = URL.create(
        "postgresql",
        username=role,
        password=file.read_text().strip() if file.exists() else None,
        host=host or None,
        port=int(port) if port else None,
        database=str(facts.get("dbname") or ""),
        query=query,
    )
    return address.render_as_string(hide_password=False)


def check_name(role: str) -> None:
    """Check that a role has a plain name. Raises RoleRefused."""
    if NAME.fullmatch(role) is None or role.startswith("pg_"):
        raise RoleRefused(
            "A role name has at most 63 lower-case letters, digits and underscores,"
            " and must not begin with a digit or pg_.",
            role=role[:80],
        )


def _file(data_dir: Path, role: str) -> Path:
    return data_dir / "roles" / role


@contextmanager
def _owner_connection(url: str, role: str) -> "Iterator[psycopg.Connection]":
    """Yield a connection of the owner. Raises StoreUnavailable; RoleRefused for a bad name or a refused statement."""
    check_name(role)
    try:
        with _open_connection(url) as connection:
            yield connection
    except psycopg.Error as error:
        if is_unavailable(error):
            raise unavailable(error) from error
        raise RoleRefused(f"Postgres refused: {error.diag.message_primary or error}", role=role) from error


def _open_connection(url: str) -> "psycopg.Connection":
    try:
        return psycopg.connect(**connection_parameters(url, "semq-roles", ENDED_IF_SUSPENDED))
    except psycopg.Error as error:
        raise unavailable(error) from error


def _schema(connection: "psycopg.Connection") -> sql.Identifier:
    row = connection.execute(
        "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.oid = to_regclass('tb_0031')"
    ).fetchone()
    if row is None:
        raise RoleRefused("The tables of the node do not exist yet; run `semq db upgrade`.")
    return sql.Identifier(str(row[0]))


def open_schema(connection: "psycopg.Connection", role: str = "public") -> str | None:
    """Return the schema of the tables if ``role`` may create objects in it, otherwise None. ``public``: every role.

    Functions and operators that a role creates there could run with the rights of the owner of the tables.
    """
    row = connection.execute(
        "SELECT n.nspname FROM pg_namespace n"
        " WHERE n.oid = coalesce((SELECT relnamespace FROM pg_class WHERE oid = to_regclass('tb_0031')),"
        " current_schema()::regnamespace) AND has_schema_privilege(%s, n.oid, 'CREATE')",
        (role,),
    ).fetchone()
    return None if row is None else str(row[0])


def _refuse_open(connection: "psycopg.Connection", role: str) -> None:
    if (schema := open_schema(connection, role)) is not None:
        raise SchemaOpen(schema=schema, role=role).with_remedy(remedy_for_open_schema(schema, role))


def remedy_for_open_schema(schema: str, role: str = "public") -> str:
    """Return the remedy for a schema in which a role may create objects."""
    return (
        f"As the owner of the database: REVOKE CREATE ON SCHEMA {schema} FROM {role}; (`semq db url` prints the owner's"
        " address). Other programs that make tables there need a schema of their own."
    )


def open_functions(connection: "psycopg.Connection") -> list[str]:
    """Return the functions for applications that every role may call, as after a restore without rights."""
    found = connection.execute(OPEN_FUNCTIONS.encode(), {"functions": list(FUNCTIONS)})
    return [str(name) for (name,) in found]


def _close_functions(connection: "psycopg.Connection", schema: sql.Identifier) -> None:
    """Revoke the functions for applications from every role, if a restore without rights has opened them."""
    if open_functions(connection):
        for part in sorted({part for parts in RIGHTS.values() for part in parts if part.startswith("EXECUTE")}):
            connection.execute(sql.SQL("REVOKE {} FROM PUBLIC").format(sql.SQL(part).format(s=schema)))


def _existing_role(connection: "psycopg.Connection", role: str) -> str | None:
    """Return the role; None if there is none. Raises RoleRefused for a superuser, and for a role with the rights
    of the owner of the tables.
    """
    row = connection.execute(
        "SELECT r.rolsuper OR pg_has_role(r.oid, c.relowner, 'USAGE')"
        " FROM pg_roles r, pg_class c WHERE r.rolname = %s AND c.oid = to_regclass('tb_0031')",
        (role,),
    ).fetchone()
    if row is None:
        return None
    if row[0]:
        raise RoleRefused(
            "This role is a superuser or has the rights of the owner of the tables; use another one.", role=role
        )
    return role


def _apply(
    connection: "psycopg.Connection", form: str, role: str, rights: Sequence[str], schema: sql.Identifier
) -> None:
    name = sql.Identifier(role)
    for right in rights:
        for part in RIGHTS[right]:
            privilege = sql.SQL(part).format(s=schema)
            connection.execute(sql.SQL(form).format(privilege, name))
