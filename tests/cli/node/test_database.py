"""``semq db``: empty databases, tables of newer versions, the embedded server, roles."""

import os
import re
from pathlib import Path

import psycopg
import pytest

from semq.installation.empty_database import copy_empty_database
from tests.cli.command import node_process, semq


@pytest.fixture
def config(tmp_path: Path, empty_database: str) -> str:
    file = tmp_path / "hub.toml"
    database = f'[database]\nurl = "{empty_database}"\nmigrate = false\n'
    file.write_text(f'[node]\nkind = "platform"\nid = "hub"\n[amqp]\nport = 0\n{database}')
    return str(file)


def test_an_empty_database_is_brought_up_to_date(config: str) -> None:
    before = semq("db", "current", "--config", config, "--json").data
    assert before["revision"] is None
    semq("db", "check", "--config", config).fails(78, "SEMQ-3010")
    assert semq("db", "upgrade", "--config", config, "--json").data == {"before": None, "revision": before["needed"]}
    assert semq("db", "upgrade", "--config", config, "--json").data["before"] == before["needed"]
    assert semq("db", "check", "--config", config, "--json").data["ok"]
    assert before["needed"] in semq("database", "check", "--config", config).out


def test_a_newer_database_is_refused(config: str, empty_database: str) -> None:
    assert semq("db", "upgrade", "--config", config).status == 0
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("UPDATE semq_version SET version_num = '9999'")
    for command in ("check", "upgrade"):
        semq("db", command, "--config", config).fails(78, "SEMQ-3011")
    node_process("node", "run", "--config", config).fails(78, "SEMQ-3011")


def test_without_migrate_a_node_does_not_open_an_empty_database(config: str) -> None:
    node_process("node", "run", "--config", config).fails(78, "SEMQ-3010")


def test_an_unavailable_database_ends_with_status_69(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    url = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=2"
    file.write_text(f'[node]\nkind = "platform"\nid = "hub"\n[database]\nurl = "{url}"\n')
    semq("db", "check", "--config", str(file)).fails(69, "SEMQ-3001")


def test_an_embedded_database_runs_only_during_the_command(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text('[node]\nkind = "platform"\nid = "hub"\ndata_dir = "data"\n')
    copy_empty_database(tmp_path / "data")
    assert semq("db", "upgrade", "--config", str(file)).status == 0
    assert not (tmp_path / "data" / "postgres" / "data" / "postmaster.pid").exists()


def test_a_role_whose_password_cannot_be_stored_is_not_created(
    config: str, empty_database: str, tmp_path: Path
) -> None:
    Path(config).write_text(Path(config).read_text().replace('id = "hub"', 'id = "hub"\ndata_dir = "data"'))
    assert semq("db", "upgrade", "--config", config).status == 0
    role, passwords = f"cli_full_{os.getpid()}", tmp_path / "data" / "roles"
    passwords.parent.mkdir()
    passwords.write_text("no folder")
    try:
        semq("db", "grant", role, "--send", "--config", config).fails(78, "SEMQ-2012")
        passwords.unlink()
        assert semq("db", "grant", role, "--send", "--config", config, "--json").data["made"]
        url = semq("db", "url", "--role", role, "--libpq", "--config", config).out.strip()
        with psycopg.connect(url) as connection:
            connection.execute("SELECT semq_send('56001', 'x')")
    finally:
        with psycopg.connect(empty_database, autocommit=True) as connection:
            for statement in (f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}"):
                connection.execute(statement.encode())


def test_a_node_whose_role_may_not_create_roles_gives_rights_to_one_that_an_administrator_has_made(
    config: str, empty_database: str
) -> None:
    owner, role = (f"cli_{kind}_{os.getpid()}" for kind in ("owner", "made"))
    with psycopg.connect(empty_database, autocommit=True) as connection:
        try:
            connection.execute(f"CREATE ROLE {owner} LOGIN PASSWORD 'x'".encode())
            connection.execute(f"ALTER DATABASE {connection.info.dbname} OWNER TO {owner}".encode())
            url = re.sub("//[^@]*@", f"//{owner}:x@", empty_database)
            Path(config).write_text(Path(config).read_text().replace(empty_database, url))
            assert semq("db", "upgrade", "--config", config).status == 0
            semq("db", "grant", role, "--send", "--config", config).fails(
                1, "SEMQ-3023", "an administrator of the server"
            )
            connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'y'".encode())
            assert semq("db", "grant", role, "--send", "--config", config).out == f"{role} may: send\n"
        finally:
            connection.execute(f"REASSIGN OWNED BY {owner} TO CURRENT_USER".encode())
            for each in (role, owner):
                connection.execute(f"DROP OWNED BY {each} CASCADE; DROP ROLE {each}".encode())


def test_a_role_for_an_application_is_granted_used_and_revoked(config: str, empty_database: str) -> None:
    assert semq("db", "upgrade", "--config", config).status == 0
    role = f"cli_{os.getpid()}"
    try:
        semq("db", "grant", role, "--config", config).fails(1, "SEMQ-2216")
        made = semq("db", "grant", role, "--send", "--config", config, "--json").data
        assert made == {"role": role, "made": True, "rights": ["send"]}
        again = semq("db", "grant", role, "--receive", "--config", config)
        assert again.out == f"{role} may: send, receive\n"
        url = semq("db", "url", "--role", role, "--libpq", "--config", config).out.strip()
        with psycopg.connect(url) as connection:
            connection.execute("SELECT semq_send('56001', 'x')")
        result = semq("db", "url", "--role", f"{role}x", "--config", config)
        result.fails(1, "SEMQ-3023", f"There is no such role; did you mean {role}?")
        revoked = semq("db", "grant", role, "--revoke", "--config", config, "--json").data
        assert revoked["rights"] == []
        semq("db", "grant", "Bad Name", "--send", "--config", config).fails(1, "SEMQ-3023")
        owner = semq("db", "url", "--config", config)
        assert owner.out.startswith("postgresql+psycopg://")
        assert "semq db grant" in owner.err
    finally:
        with psycopg.connect(empty_database, autocommit=True) as connection:
            for statement in (f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}"):
                connection.execute(statement.encode())
