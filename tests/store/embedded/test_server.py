"""The server that a node runs itself: created, stopped, killed, adopted, refused."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from semq.errors import SemqError
from semq.installation.empty_database import copy_empty_database
from semq.store.embedded import cluster, programs
from semq.store.embedded import identity as identities
from semq.store.embedded.errors import DataDirBusy, DataVersionMismatch, NoPostgres, RootRefused, ServerFailed
from semq.store.embedded.identity import AS_ROOT, NOBODY, SystemUser, find_identity
from semq.store.embedded.process import free_port, is_postgres_of, postmaster_of, wait_gone
from semq.store.embedded.programs import find_programs
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres.conditions.durability import verify_settings

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    folder = tmp_path_factory.mktemp("server")
    copy_empty_database(folder)
    with EmbeddedPostgres(folder, overrides={"shared_buffers": "16MB"}) as running:
        yield running


@pytest.fixture
def server(shared_server: EmbeddedPostgres) -> EmbeddedPostgres:
    """Return the running server that tests of this file share, without the table of an earlier test."""
    shared_server.start()
    with psycopg.connect(shared_server.url) as connection:
        connection.execute("DROP TABLE IF EXISTS kept")
    return shared_server


def write(url: str, number: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (number int)")
        connection.execute("INSERT INTO kept VALUES (%s)", [number])


def read(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM kept ORDER BY number")]


def pid_of(server: EmbeddedPostgres) -> int:
    pid = server.pid
    assert pid is not None
    return pid


def test_a_restart_keeps_the_rows_the_port_and_the_password(server: EmbeddedPostgres) -> None:
    url = server.url
    write(url, 1)
    server.stop()
    assert server.pid is None
    assert server.running_url() is None
    assert server.start() == url
    assert server.running_url() == url
    assert read(url) == [1]


def test_the_socket_and_the_port_require_the_password(server: EmbeddedPostgres) -> None:
    for url in (server.url_of("semq"), server.url_of("semq", tcp=True)):
        with psycopg.connect(url) as connection:
            verify_settings(connection)
            host = connection.info.host
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(url, password="wrong")
        assert host.startswith("/") is (url == server.url)
    assert (server.home / "password").stat().st_mode & 0o777 == 0o600
    assert server.home.stat().st_mode & 0o777 == 0o700


def test_the_cluster_checks_its_pages_sorts_by_code_point_and_has_short_log_files(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.url) as connection:
        result = connection.execute(
            "SELECT current_setting('data_checksums'), datcollate, pg_encoding_to_char(encoding), "
            "current_setting('wal_segment_size') "
            "FROM pg_database WHERE datname = current_database()"
        ).fetchone()
    assert result == ("on", "C.UTF-8", "UTF8", "1MB")


def test_committed_rows_survive_the_kill_of_the_postmaster(server: EmbeddedPostgres) -> None:
    write(server.url, 1)
    os.kill(pid_of(server), signal.SIGKILL)
    assert read(server.start()) == [1]


def test_a_busy_orphan_does_not_hinder_the_restart(server: EmbeddedPostgres) -> None:
    with closing(psycopg.connect(server.url)) as connection:
        orphan = connection.info.backend_pid
        os.kill(orphan, signal.SIGSTOP)  # so that it cannot notice the end of its parent
        os.kill(pid_of(server), signal.SIGKILL)
        write(server.start(), 1)
        assert not is_postgres_of(orphan, server.data)


NODE = """
import sys
from pathlib import Path
from semq.store.embedded.server import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), overrides={"shared_buffers": "16MB"})
server.start()
print(server.pid, flush=True)
sys.stdin.read()
"""


def test_a_server_whose_node_was_killed_is_adopted(tmp_path: Path) -> None:
    copy_empty_database(tmp_path)
    node = subprocess.Popen(
        [sys.executable, "-c", NODE, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    with node:
        assert node.stdout is not None
        orphan = int(node.stdout.readline())
        server = EmbeddedPostgres(tmp_path)
        with pytest.raises(DataDirBusy) as refusal:
            server.start()
        assert refusal.value.facts["pid"] == str(node.pid)
        node.kill()
    with server:
        assert server.pid == orphan
        write(server.url, 1)
    assert not is_postgres_of(orphan, server.data)


def test_lock_files_of_a_killed_server_are_ignored_if_their_process_number_is_in_use(server: EmbeddedPostgres) -> None:
    write(server.url, 1)
    lines = (server.data / "postmaster.pid").read_text().split("\n")
    port = lines[3]
    os.kill(pid_of(server), signal.SIGKILL)
    assert wait_gone([int(lines[0])], server.data, 10)
    # After a restart of the machine, the numbers may belong to other processes: here, to this test.
    (server.data / "postmaster.pid").write_text("\n".join([str(os.getpid()), *lines[1:]]))
    (server.home / "run" / f".s.PGSQL.{port}.lock").write_text(f"{os.getpid()}\n")
    assert read(server.start()) == [1]


def test_another_port_is_taken_when_the_old_one_is_in_use(server: EmbeddedPostgres) -> None:
    port = int((server.home / "port").read_text())
    server.stop()
    with socket.create_server(("127.0.0.1", port)):
        assert free_port(port) != port
        server.start()
        assert int((server.home / "port").read_text()) != port
        write(server.url_of("semq", tcp=True), 1)


def test_a_wrong_password_file_is_reported_at_once(server: EmbeddedPostgres) -> None:
    password = server.home / "password"
    kept = password.read_text()
    password.write_text("another\n")
    with pytest.raises(ServerFailed, match="Postgres refuses the connection"):
        server.start()
    password.write_text(kept)
    write(server.start(), 1)


def test_the_error_of_a_failed_start_contains_the_log_of_the_server(tmp_path: Path) -> None:
    copy_empty_database(tmp_path)
    with pytest.raises(ServerFailed) as failure:
        EmbeddedPostgres(tmp_path, overrides={"shared_buffers": "a lot"}).start()
    assert 'invalid value for parameter "shared_buffers"' in failure.value.facts["log"]


def test_an_unfinished_cluster_is_deleted_and_made_again(tmp_path: Path) -> None:
    unfinished = tmp_path / "postgres" / "data.new"
    unfinished.mkdir(parents=True)
    (unfinished / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(tmp_path) as server:
        write(server.url, 1)
    assert not unfinished.exists()


def test_an_initdb_that_outlives_a_killed_node_does_not_disturb_the_next_start(tmp_path: Path) -> None:
    unfinished = tmp_path / "postgres" / "data.new"
    unfinished.mkdir(parents=True)
    loop = f"while :; do mkdir -p {unfinished}/base/5; echo > {unfinished}/base/5/$((n += 1)); done"
    with subprocess.Popen(["sh", "-c", loop], stderr=subprocess.DEVNULL) as orphan:
        try:
            with EmbeddedPostgres(tmp_path) as server:
                write(server.url, 1)
                assert read(server.url) == [1]
        finally:
            orphan.kill()


def test_an_initdb_that_does_not_end_is_an_error_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "INITDB_S_MAX", 0.001)
    with pytest.raises(ServerFailed, match="initdb did not end"):
        EmbeddedPostgres(tmp_path).start()
    assert not (tmp_path / "postgres" / "data").exists()


def test_the_error_of_an_initdb_that_does_not_end_has_both_its_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "initdb").write_text("#!/bin/sh\necho to stdout\necho to stderr >&2\nexec sleep 60\n")
    (tmp_path / "initdb").chmod(0o755)
    monkeypatch.setattr(cluster, "INITDB_S_MAX", 1)
    fake = programs.Programs(tmp_path, 18, "18.0")
    with pytest.raises(ServerFailed) as caught:
        cluster.make_cluster(tmp_path / "data", tmp_path / "password", fake, SystemUser("this user", (), os.geteuid()))
    assert caught.value.facts["log"] == "to stdout\nto stderr"


def test_a_path_too_long_for_a_socket_makes_the_url_use_tcp(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 60) / ("y" * 60)
    copy_empty_database(folder)
    with EmbeddedPostgres(folder) as server:
        assert "127.0.0.1" in server.url
        write(server.url, 1)


def test_data_of_another_major_version_are_refused(tmp_path: Path) -> None:
    data = tmp_path / "postgres" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("9\n")
    with pytest.raises(DataVersionMismatch) as refusal:
        EmbeddedPostgres(tmp_path).start()
    assert refusal.value.facts["data"] == 9
    assert find_programs().version in refusal.value.facts["found"]
    # The refused start left no lock.
    shutil.rmtree(data)
    copy_empty_database(tmp_path / "copy")
    (tmp_path / "copy" / "postgres" / "data").rename(data)
    shutil.copy(tmp_path / "copy" / "postgres" / "password", data.with_name("password"))
    with EmbeddedPostgres(tmp_path) as server:
        write(server.url, 1)


def test_a_large_log_is_renamed_at_the_next_start(server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    server.stop()
    monkeypatch.setattr("semq.store.embedded.server.LOG_BYTES_MAX", 1)
    server.start()
    assert server.log.with_suffix(".log.1").exists()
    assert server.log.read_text().count("starting PostgreSQL") == 1


def test_programs_that_cannot_run_here_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "initdb").touch(mode=0o755)
    (tmp_path / "postgres").write_text("not a program")
    monkeypatch.setattr(programs, "WHEELS", ())
    monkeypatch.setattr(programs, "SYSTEM", (str(tmp_path),))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoPostgres):
        find_programs()


def test_older_programs_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for major in (13, 17, 16):
        folder = tmp_path / str(major) / "bin"
        folder.mkdir(parents=True)
        for name in ("initdb", "postgres"):
            (folder / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {major}.2 (some system)'\n")
            (folder / name).chmod(0o755)
    monkeypatch.setattr(programs, "WHEELS", ())
    monkeypatch.setattr(programs, "SYSTEM", (str(tmp_path / "*/bin"),))
    monkeypatch.setenv("PATH", "/nowhere")
    assert (find_programs().major, find_programs().version) == (17, "17.2")
    assert find_programs(16).major == 16
    with pytest.raises(DataVersionMismatch):
        find_programs(13)


def available_identities() -> list[SystemUser]:
    """Return the identities that this process can use on this machine."""
    postgres = find_programs().postgres
    if os.geteuid() != 0:
        return [find_identity(postgres)]
    return [identity for identity in AS_ROOT[:2] if identities._runs(identity.command(postgres, "--version"))]


def test_the_data_get_the_owner_of_the_new_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identities_here = available_identities()
    assert identities_here
    copy_empty_database(tmp_path)
    tmp_path.chmod(0o700)  # only the owner may enter here, as with /root
    for number, identity in enumerate([*identities_here, identities_here[0]]):
        monkeypatch.setattr("semq.store.embedded.server.find_identity", lambda _, chosen=identity: chosen)
        with EmbeddedPostgres(tmp_path, overrides={"shared_buffers": "16MB"}) as server:
            write(server.url, number)
            assert read(server.url) == list(range(number + 1))
            assert server.data.stat().st_uid == identity.owner


def test_an_identity_of_root_may_access_a_program_in_a_closed_folder(tmp_path: Path) -> None:
    """The test calls access(2), as Postgres does to find its own program."""
    program = tmp_path / "program"
    program.touch(0o755)
    tmp_path.chmod(0o700)
    check = "import os, sys; sys.exit(not os.access(sys.argv[1], os.X_OK))"
    for identity in available_identities():
        command = identity.command(os.path.realpath(sys.executable), "-I", "-c", check, str(program))
        assert subprocess.run(command, cwd="/", check=False).returncode == 0, identity.name


def test_root_without_another_identity_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(RootRefused):
        find_identity("/bin/true", [SystemUser("none", ("/nonexistent",), NOBODY)])


def test_no_server_is_found_in_an_empty_folder(tmp_path: Path) -> None:
    assert postmaster_of(tmp_path) is None
    assert EmbeddedPostgres(tmp_path).running_url() is None
    EmbeddedPostgres(tmp_path).stop()


def test_the_advice_of_an_error_has_its_code_and_its_remedy() -> None:
    for error in (NoPostgres(), DataDirBusy(pid=1), ServerFailed(log="x")):
        assert isinstance(error, SemqError)
        assert error.code in error.advice()
        assert error.remedy in error.advice()
