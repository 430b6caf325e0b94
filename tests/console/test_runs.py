"""Run folders of the reconciliation: read as written, and no other files of the machine; a damaged run is left out or
empty.
"""

from pathlib import Path

from semq.console import runs
from tests.console.scene import DAY, RUN, write_runs


def test_runs_are_found_with_outcome_figures_and_exceptions_in_pages(tmp_path: Path) -> None:
    write_runs(tmp_path)
    assert runs.dates(tmp_path) == [DAY, "2026-11-19"]
    run = runs.find(tmp_path, DAY, RUN)
    assert run is not None
    assert (run.outcome, run.is_current, runs.kinds(run.summary)) == (
        "breached", True, {"fine": 40, "open": 0, "exception": 2},
    )  # fmt: skip
    first, place = runs.exceptions(run, lambda row: True, 0, 1)
    rest, end = runs.exceptions(run, lambda row: True, place or 0, 5)
    assert (len(first), len(rest), place, end) == (1, 1, 1, None)
    assert first[0]["Message (LK0)"].startswith("1.10008.")  # without the apostrophe for spreadsheets
    assert [one.day for one in runs.trend(tmp_path, 5)] == ["2026-11-19", DAY]


def test_damaged_folders_and_names_that_lead_elsewhere_give_nothing(tmp_path: Path) -> None:
    write_runs(tmp_path / "reports")
    (tmp_path / "run=x").mkdir()
    place = tmp_path / "reports" / f"business_date={DAY}" / f"run={RUN}"
    (place / "summary.json").write_text("[1")
    (place / "_RESULT.json").unlink()
    (place / "exceptions.csv").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "reports" / "business_date=never").mkdir()
    folder = tmp_path / "reports"
    run = runs.find(folder, DAY, RUN)
    assert run is not None
    assert (run.outcome, dict(run.summary)) == ("running", {})
    assert runs.exceptions(run, lambda row: True, 0, 5) == ([], None)
    assert runs.find(folder, DAY, "../../run=x") is None
    assert runs.of_date(folder, "..") == []
    assert "never" not in runs.dates(folder)
    assert runs.dates(tmp_path / "nothing here") == []
