"""Run folders of the reconciliation."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from semq.console import runs
from tests.console.scene import DAY, RUN, write_runs


def test_runs_are_found_with_outcome_figures_and_exceptions_in_pages(tmp_path: Path) -> None:
    write_runs(tmp_path)
    assert runs.dates(tmp_path) == [DAY, "2026-11-19"]
    run = runs.find(tmp_path, DAY, RUN)
    assert run is not None
    assert (run.outcome, run.is_current, runs.counts_by_kind(run.summary)) == (
        "breached", True, {"fine": 40, "open": 0, "exception": 2},
    )  # fmt: skip
    first_page, next_row = runs.exceptions(run, lambda row: True, 0, 1)
    second_page, end = runs.exceptions(run, lambda row: True, next_row or 0, 5)
    assert (len(first_page), len(second_page), next_row, end) == (1, 1, 1, None)
    assert first_page[0]["Message (LK0)"].startswith("1.10008.")  # without the apostrophe
    assert [run.day for run in runs.trend(tmp_path, 5)] == ["2026-11-19", DAY]


def test_the_current_run_is_shown_also_if_a_newer_one_was_killed(tmp_path: Path) -> None:
    write_runs(tmp_path)
    (tmp_path / f"business_date={DAY}" / "run=20261122T021503Z-0000000a-0001").mkdir()
    killed, *_ = runs.of_date(tmp_path, DAY)
    run = runs.shown(runs.of_date(tmp_path, DAY))
    assert run is not None
    assert (run.name, killed.outcome) == (RUN, "failed")


def test_damaged_files_count_as_empty_and_other_folders_are_not_read(tmp_path: Path) -> None:
    write_runs(tmp_path / "reports")
    (tmp_path / "run=x").mkdir()
    run_folder = tmp_path / "reports" / f"business_date={DAY}" / f"run={RUN}"
    (run_folder / "summary.json").write_text("[1")
    (run_folder / "_RESULT.json").unlink()
    (run_folder / "exceptions.csv").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "reports" / "business_date=never").mkdir()
    folder = tmp_path / "reports"
    run = runs.find(folder, DAY, RUN)
    assert run is not None
    assert (run.outcome, dict(run.summary)) == ("failed", {})
    (run_folder / "_RESULT.json").write_text('{"exit_code": ["no", "number"]}')
    damaged = runs.find(folder, DAY, RUN)
    assert damaged is not None
    assert damaged.outcome == "failed"
    assert runs.exceptions(run, lambda row: True, 0, 5) == ([], None)
    assert runs.find(folder, DAY, "../../run=x") is None
    assert runs.of_date(folder, "..") == []
    assert "never" not in runs.dates(folder)
    assert runs.dates(tmp_path / "nothing here") == []


@contextmanager
def being_run(of_day: Path) -> Iterator[None]:
    of_day.mkdir(exist_ok=True)
    with (of_day / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_the_newest_date_is_shown_also_if_its_run_was_refused_failed_or_killed(tmp_path: Path) -> None:
    configuration = tmp_path / "hub.toml"
    configuration.write_text('[reconcile]\nreports = "reports"\n')
    settings: Any = SimpleNamespace(reconcile={"reports": "reports"}, file=configuration)
    reports = tmp_path / "reports"

    def newest() -> tuple[str, str]:
        found = runs.newest(settings, date(2026, 11, 22))
        assert found is not None
        return found["day"], found["outcome"]

    assert runs.newest(settings, date(2026, 11, 22)) is None
    write_runs(reports)
    assert newest() == (DAY, "breached")
    next_day = reports / "business_date=2026-11-21"
    with being_run(next_day):  # before the run has a folder
        assert newest() == (DAY, "breached")
    assert newest() == ("2026-11-21", "failed")  # refused, or a source was missing
    run = next_day / "run=20261122T021500Z-00000000-0000"
    run.mkdir()
    with being_run(next_day):
        assert runs.of_date(reports, "2026-11-21")[0].outcome == "running"
        assert newest() == (DAY, "breached")
    assert newest() == ("2026-11-21", "failed")  # killed
    (run / "_RESULT.json").write_text(json.dumps({"exit_code": 1}))
    assert newest() == ("2026-11-21", "failed")
    again = next_day / "run=20261122T031500Z-00000000-0000"
    again.mkdir()
    (again / "_RESULT.json").write_text(json.dumps({"exit_code": 0}))
    (next_day / "CURRENT").write_text(again.name.removeprefix("run="))
    assert newest() == ("2026-11-21", "met")
    (reports / "business_date=2062-11-20").mkdir()  # somebody mistyped a date
    assert newest() == ("2026-11-21", "met")


def test_documents_of_earlier_dates_are_not_counted_in_the_trend_as_in_that_of_the_report() -> None:
    carried = {"verdicts": {"NOT_DELIVERED": 5, "MATCHED": 1}, "found_now": {"NOT_DELIVERED": 3}}
    counts = runs.counts_by_kind({"verdicts": {"MATCHED": 9, "PARKED": 1}, "carried": carried})
    assert counts == {"fine": 9, "open": 0, "exception": 1}
