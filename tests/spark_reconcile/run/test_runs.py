"""Run folders: names, the pointer, and the runs that count as history."""

from datetime import timedelta
from pathlib import Path

import pytest

from spark_reconcile.errors import NoSuchRun
from spark_reconcile.extracts.manifest import canonical, date_folder
from spark_reconcile.run import runs
from spark_reconcile.storage import Place
from tests.spark_reconcile.office import DAY, StandingClock


def test_a_run_counts_only_when_the_pointer_names_it(tmp_path: Path, clock: StandingClock) -> None:
    reports = Place.at(tmp_path)
    first = runs.begin(reports, DAY, clock, "ab" * 32)
    second = runs.begin(reports, DAY, clock, "ab" * 32)
    assert first.name != second.name
    assert first.name.startswith("20261121T120000Z-abababab-")
    assert runs.current(reports, DAY) is None
    assert first.result == {}
    runs.finish(first, {"outcome": "met"})
    runs.point_to(reports, first)
    assert runs.find(reports, DAY, "current") == first
    assert runs.find(reports, DAY, second.name) == second
    assert first.result == {"outcome": "met"}
    assert [run.name for run in runs.of_date(reports, DAY)] == sorted([first.name, second.name])


def test_staging_folders_are_removed_and_their_runs_stay(tmp_path: Path, clock: StandingClock) -> None:
    reports = Place.at(tmp_path)
    run = runs.begin(reports, DAY, clock, "ab" * 32)
    (run.place / "_staging").make()
    runs.remove_staging(reports, DAY, "_staging")
    assert runs.of_date(reports, DAY) == [run]
    assert run.place.folders() == []


def test_a_pointer_to_a_removed_run_is_ignored(tmp_path: Path, clock: StandingClock) -> None:
    reports = Place.at(tmp_path)
    run = runs.begin(reports, DAY, clock, "ab" * 32)
    runs.point_to(reports, run)
    run.place.remove()
    assert runs.current(reports, DAY) is None
    assert runs.history(reports, DAY + timedelta(days=1), 3) == []


def test_the_metrics_of_the_newest_date_are_at_one_place_for_every_user(tmp_path: Path, clock: StandingClock) -> None:
    reports, file = Place.at(tmp_path / "reports"), tmp_path / "collector" / "semq-reconcile.prom"
    for day, expected in ((DAY, "0"), (DAY + timedelta(days=1), "1"), (DAY, "1")):
        run = runs.begin(reports, day, clock, "ab" * 32)
        (run.place / runs.METRICS).write(str((day - DAY).days).encode())
        runs.point_to(reports, run)
        runs.copy_metrics(reports, day, str(file))
        assert file.read_text() == expected
        assert file.stat().st_mode & 0o777 == 0o644
    runs.copy_metrics(reports, DAY, "")


@pytest.mark.parametrize("damage", [b'{"messages": 1', b"\xff", b"", b"[]"])
def test_unreadable_summaries_of_old_runs_are_omitted(tmp_path: Path, clock: StandingClock, damage: bytes) -> None:
    reports = Place.at(tmp_path)
    run = runs.begin(reports, DAY, clock, "ab" * 32)
    runs.point_to(reports, run)
    (run.place / runs.SUMMARY).write(damage)
    assert runs.history(reports, DAY + timedelta(days=1), 3) == []
    assert run.summary == {}


@pytest.mark.parametrize("name", ["current", "20261121T120000Z-abababab-0000", "../../etc", ""])
def test_a_missing_run_is_reported(tmp_path: Path, name: str) -> None:
    with pytest.raises(NoSuchRun):
        runs.find(Place.at(tmp_path), DAY, name)


def test_the_history_has_the_published_runs_of_earlier_dates(tmp_path: Path, clock: StandingClock) -> None:
    reports = Place.at(tmp_path)
    for back, published in ((1, True), (2, False), (3, True), (20, True)):
        run = runs.begin(reports, DAY - timedelta(days=back), clock, "cd" * 32)
        (run.place / runs.SUMMARY).write(canonical({"messages": back}))
        if published:
            runs.point_to(reports, run)
    (tmp_path / "notes").mkdir()
    assert [summary["messages"] for _, summary in runs.history(reports, DAY, 14)] == [3, 1]
    assert runs.dates(reports) == [DAY - timedelta(days=back) for back in (20, 3, 2, 1)]
    assert (tmp_path / date_folder(DAY - timedelta(days=1)) / "CURRENT").read_text().count("\n") == 1
