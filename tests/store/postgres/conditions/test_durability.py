"""Servers that may lose data or are too old are refused; the unsafe setting may be the server's or the role's."""

from pathlib import Path

import psycopg
import pytest

from semq.store.embedded.errors import NotDurable, ServerTooOld
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres.conditions import durability
from semq.store.postgres.conditions.durability import verify_settings


def test_the_embedded_server_is_durable(empty_database: str) -> None:
    with psycopg.connect(empty_database) as connection:
        verify_settings(connection)


def test_a_role_with_asynchronous_commits_is_refused(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as admin:
        admin.execute("CREATE ROLE hasty LOGIN PASSWORD 'x'")
        admin.execute("ALTER ROLE hasty SET synchronous_commit = off")
    try:
        with psycopg.connect(empty_database, user="hasty", password="x") as connection:
            with pytest.raises(NotDurable) as refusal:
                verify_settings(connection)
        assert refusal.value.facts == {"synchronous_commit": "off"}
    finally:
        with psycopg.connect(empty_database, autocommit=True) as admin:
            admin.execute("DROP ROLE hasty")


def test_every_wrong_setting_is_named_at_once(tmp_path: Path) -> None:
    unsafe = {"fsync": "off", "full_page_writes": "off"}
    with EmbeddedPostgres(tmp_path, overrides=unsafe) as server, psycopg.connect(server.url) as connection:
        with pytest.raises(NotDurable) as refusal:
            verify_settings(connection)
    assert refusal.value.facts == unsafe


def test_an_old_server_is_refused(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "MIN_SERVER_VERSION", 99_00_00)
    with psycopg.connect(empty_database) as connection:
        with pytest.raises(ServerTooOld) as refusal:
            verify_settings(connection)
        assert refusal.value.facts["version"] == connection.info.server_version
