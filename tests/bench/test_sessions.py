"""``./run bench sessions --institutions``: played nodes log in by certificate and stay online."""

import json

import pytest

from bench.errors import NoFigures
from bench.sessions import main, online
from tests.bench.runs import finished


def test_all_institutions_are_online_and_stay_so() -> None:
    done = finished("sessions", "--institutions", "12", "--idle", "1", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["sessions"], found["retries"]) == (12, 0)
    assert set(found) >= {"kib_per_session", "login_storm_s", "idle_cpu_percent"}


def test_more_sessions_than_open_files_are_refused() -> None:
    with pytest.raises(NoFigures, match="ulimit -n"):
        online._allow_connections(10**9)


def test_one_kind_has_to_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert "--institutions" in capsys.readouterr().err
