"""Fixture: an empty database of a role of its own."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.store.postgres.conditions.role_database import RoleDatabase


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
