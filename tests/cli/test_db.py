"""The tables of a database: too old, too new, brought up to date."""

from pathlib import Path

import psycopg
import pytest

from tests.cli.command import semq, semq_process


@pytest.fixture
def config(tmp_path: Path, empty_database: str) -> str:
    file = tmp_path / "hub.toml"
    file.write_text(f'[node]\nkind = "platform"\nid = "hub"\n[database]\nurl = "{empty_database}"\nmigrate = false\n')
    return str(file)


def test_an_empty_database_is_brought_up_to_date(config: str) -> None:
    before = semq("db", "current", "--config", config, "--json").data
    assert before["revision"] is None
    semq("db", "check", "--config", config).fails(78, "SEMQ-3010")
    assert semq("db", "upgrade", "--config", config, "--json").data == {"before": None, "revision": before["needed"]}
    assert semq("db", "upgrade", "--config", config, "--json").data["before"] == before["needed"]
    assert semq("db", "check", "--config", config, "--json").data["ok"]
    assert before["needed"] in semq("database", "check", "--config", config).out


def test_a_newer_database_is_left_alone(config: str, empty_database: str) -> None:
    assert semq("db", "upgrade", "--config", config).status == 0
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("UPDATE semq_version SET version_num = '9999'")
    for command in ("check", "upgrade"):
        semq("db", command, "--config", config).fails(78, "SEMQ-3011")
    semq_process("platform", "run", "--config", config).fails(78, "SEMQ-3011")


def test_an_older_database_is_not_opened_where_that_is_not_wanted(config: str) -> None:
    semq_process("platform", "run", "--config", config).fails(78, "SEMQ-3010")


def test_no_database_is_not_now(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    url = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=2"
    file.write_text(f'[node]\nkind = "platform"\nid = "hub"\n[database]\nurl = "{url}"\n')
    semq("db", "check", "--config", str(file)).fails(69, "SEMQ-3001")


def test_an_embedded_database_is_started_for_as_long_as_it_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text('[node]\nkind = "platform"\nid = "hub"\ndata_dir = "data"\n')
    assert semq("db", "upgrade", "--config", str(file)).status == 0
    assert not (tmp_path / "data" / "postgres" / "data" / "postmaster.pid").exists()
