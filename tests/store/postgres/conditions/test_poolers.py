"""Connection poolers in front of the server: PgBouncer, named with its remedy or used."""

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from semq.errors import SemqError
from semq.store.embedded.process import free_port
from semq.store.postgres.conditions import requirements
from semq.store.postgres.errors import (
    PoolerUnfit,
    StoreUnavailable,
)
from semq.store.reader import connection_parameters, missing_settings
from tests.deploy.programs import PGBOUNCER
from tests.store.postgres.conditions.role_database import RoleDatabase, doctor, note_in_chinese, running, start_and_stop

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
async def test_a_pooler_with_too_few_sessions_is_refused_without_waiting_as_long_as_it_lets_a_client_wait(
    place: RoleDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "PROBE_S", 1)
    with (
        pooled(place, "session", f"{OPTIONS}\ndefault_pool_size = 1\nquery_wait_timeout = 0") as through,
        psycopg.connect(through.url, autocommit=True) as connection,
        pytest.raises(PoolerUnfit, match="too few sessions"),
    ):
        requirements.refuse_pooled_transactions(connection)


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
