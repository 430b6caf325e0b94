"""``./run bench sessions --institutions``: simulated nodes log in by certificate and stay online."""

import json

import pytest

from bench.errors import NoFigures
from bench.sessions import main, online
from tests.bench.runs import run_bench


def test_all_institutions_are_online_and_stay_so() -> None:
    run = run_bench("sessions", "--institutions", "4", "--idle", "0.2", "--json")
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout.splitlines()[-1])
    assert (figures["sessions"], figures["retries"]) == (4, 0)
    assert set(figures) >= {"kib_per_session", "login_storm_s", "idle_cpu_percent"}


def test_more_sessions_than_open_files_are_refused() -> None:
    with pytest.raises(NoFigures, match="ulimit -n"):
        online._allow_connections(10**9)


def test_a_run_without_a_kind_of_sessions_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert "--institutions" in capsys.readouterr().err
