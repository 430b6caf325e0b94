"""Run folders of the reconciliation."""

from pathlib import Path

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
    assert (run.outcome, dict(run.summary)) == ("running", {})
    (run_folder / "_RESULT.json").write_text('{"exit_code": ["no", "number"]}')
    damaged = runs.find(folder, DAY, RUN)
    assert damaged is not None
    assert damaged.outcome == "failed"
    assert runs.exceptions(run, lambda row: True, 0, 5) == ([], None)
    assert runs.find(folder, DAY, "../../run=x") is None
    assert runs.of_date(folder, "..") == []
    assert "never" not in runs.dates(folder)
    assert runs.dates(tmp_path / "nothing here") == []
