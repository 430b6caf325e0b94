"""Copies of an empty database: one original for all processes, and none without the variable."""

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from semq.installation.configuration import HUB, STANDBY, ApplicationLogin, InstallationPlan
from semq.installation.empty_database import FOLDER_VARIABLE, copy_empty_database
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres.schema_version import check

COPY = "import sys; from pathlib import Path; from semq.installation import empty_database as e; e.copy_empty_database(Path(sys.argv[1]))"  # noqa: E501


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "empty"))
    return tmp_path


def cluster_id(data_dir: Path) -> bytes:
    """Return the identifier of a cluster, the beginning of its control file."""
    return (EmbeddedPostgres(data_dir).data / "global" / "pg_control").read_bytes()[:8]


def test_processes_copy_a_database_that_one_of_them_makes(folder: Path) -> None:
    (folder / "empty" / "new" / "postgres").mkdir(parents=True)  # left by a process that was killed
    names = [folder / "a", folder / "b"]
    copies = [subprocess.Popen([sys.executable, "-P", "-c", COPY, str(name)]) for name in names]
    assert [copy.wait() for copy in copies] == [0, 0]
    copy_empty_database(folder / "c")
    assert len({cluster_id(name) for name in (*names, folder / "c")}) == 1
    with EmbeddedPostgres(folder / "c") as server:
        check(server.url)
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT count(*) FROM tb_0031").fetchone() == (0,)
    assert len(list((folder / "empty").glob("*-*"))) == 1


def test_a_data_directory_with_a_database_stays_as_it_is(folder: Path) -> None:
    (folder / "a" / "postgres").mkdir(parents=True)
    copy_empty_database(folder / "a")
    assert not (folder / "empty").exists()


def test_without_the_variable_nothing_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE)
    places = InstallationPlan({"a": "10008"}, ApplicationLogin("app", "secret")).write(tmp_path)
    assert not [place for place in places.values() if place.data_dir.exists()]


def test_processes_with_a_shared_store_get_no_database() -> None:
    plan = InstallationPlan({}, ApplicationLogin("app", "secret"), instances=2, shared_database="postgresql://h/x")
    assert [name for name in (HUB, "hub-2", STANDBY) if plan.has_server(name)] == [HUB]
