"""The command line: arguments, last line of output, and exit status."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from semq.errors import Misconfigured, SemqError, Unavailable
from spark_reconcile import commands, notice
from spark_reconcile.extracts.manifest import canonical
from spark_reconcile.run import runs
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, HUB, Office, OfficeMessage, StandingClock

Output = pytest.CaptureFixture[str]


def call(clock: StandingClock, capsys: Output, *arguments: str) -> tuple[int, Any]:
    code = commands.main([*arguments, "--json"], clock)
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def places(office: Office) -> list[str]:
    """Return the options with the folders of extracts and reports."""
    return ["--extracts", office.settings.extracts, "--reports", office.settings.reports]


def test_a_missing_source_is_named_with_exit_status_4(office: Office, capsys: Output) -> None:
    code, output = call(office.clock, capsys, "run", *places(office))
    assert code == output["exit_code"] == 4
    assert output["outcome"] == "sources_missing"
    assert (output["messages"], output["verdicts"], output["report"]) == (0, {}, "")
    assert "the hub" in output["error"]


def test_a_bad_extract_ends_with_exit_status_65(office: Office, capsys: Output) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    (office.folder(HUB) / "_manifest.json").write_text("{}")
    code, output = call(office.clock, capsys, "run", "--business-date", "2026-11-20", *places(office))
    assert (code, output["outcome"]) == (65, "refused")


def test_a_date_that_is_being_run_ends_with_exit_status_5(office: Office, capsys: Output) -> None:
    with (Place.at(office.settings.reports) / "business_date=2026-11-20").lock():
        code, output = call(office.clock, capsys, "run", *places(office))
    assert (code, output["outcome"]) == (5, "being_run")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run", "--business-date", "tomorrow"], 2),
        (["run", "--zone", "Mars/Olympus"], 78),
        (["run", "--config", "not-there.toml"], 78),
        (["diff", "current", "current"], 4),
        (["backfill", "--from", "2026-11-20", "--to", "2026-11-19"], 2),
        (["extract", "--node", "1.a"], 2),
        (["extract", "--node", "1.a", "--database-url", "postgresql://127.0.0.1:1/none"], 69),
    ],
)
def test_failures_have_their_exit_status(
    office: Office, capsys: Output, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int
) -> None:
    monkeypatch.delenv("SEMQ_DATABASE_URL", raising=False)
    status, output = call(office.clock, capsys, *arguments, *places(office))
    assert (status, output["outcome"]) == (code, "failed")


def test_a_folder_that_cannot_be_written_ends_with_exit_status_69(office: Office, capsys: Output) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    Path(office.settings.reports).write_text("a file is in the way")
    code, output = call(office.clock, capsys, "run", *places(office))
    assert (code, output["outcome"]) == (69, "failed")
    assert "SEMQ-6012" in output["error"]


def test_an_unexpected_error_is_reported_in_json_too(
    office: Office, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(runs, "dates", fail)
    with pytest.raises(RuntimeError):
        commands.main(["status", "--json", *places(office)], office.clock)
    output = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (output["outcome"], output["exit_code"]) == ("failed", 1)


def test_wrong_arguments_end_with_exit_status_2(capsys: Output) -> None:
    with pytest.raises(SystemExit) as caught:
        commands.main(["run", "--no-such-option"])
    assert caught.value.code == 2


def test_without_json_errors_are_plain_text_only(office: Office, capsys: Output) -> None:
    assert commands.main(["run", *places(office)], office.clock) == 4
    output = capsys.readouterr()
    assert output.out == ""
    assert "SEMQ-6003" in output.err
    assert f"extracts='{Path(office.settings.extracts).absolute()}'" in output.err
    assert "`semq reconcile collect` brings extracts there" in output.err


def test_status_marks_the_current_run_of_a_date(office: Office, capsys: Output) -> None:
    reports = Place.at(office.settings.reports)
    first, last = (runs.begin(reports, DAY, office.clock, f"{number}" * 64) for number in range(2))
    for run, outcome in ((first, "met"), (last, "breached")):
        runs.finish(run, {"outcome": outcome, "exit_code": 0, "messages": 12})
        runs.point_to(reports, run)
    code, output = call(office.clock, capsys, "status", *places(office))
    assert code == 0
    (day,) = output["dates"]
    assert day["current"] == last.name
    assert {run["outcome"] for run in day["runs"]} == {"met", "breached"}


def test_an_environment_variable_may_name_the_file_of_the_node(
    office: Office, capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "node.toml"
    file.write_text('[node]\nkind = "platform"\nid = "hub"\n[extract]\nzone = "no zone"\n')
    monkeypatch.setenv("SEMQ_CONFIG", str(file))
    code, output = call(office.clock, capsys, "extract", "--business-date", "2026-11-20")
    assert (code, "no zone" in output["error"]) == (78, True)  # the zone is in the file, so the file was read
    monkeypatch.setenv("SEMQ_CONFIG", str(file.with_name("absent.toml")))
    assert call(office.clock, capsys, "extract")[0] == 78
    monkeypatch.delenv("SEMQ_CONFIG")
    assert "The ledger is unknown" in call(office.clock, capsys, "extract")[1]["error"]


def test_status_without_runs_names_the_folder_of_the_runs(office: Office, capsys: Output) -> None:
    assert commands.main(["status", *places(office)], office.clock) == 0
    assert office.settings.reports in capsys.readouterr().err


def test_an_earlier_comparison_is_not_overwritten(office: Office, capsys: Output, tmp_path: Path) -> None:
    run = runs.begin(Place.at(office.settings.reports), DAY, office.clock, "0" * 64)
    (tmp_path / "changed.parquet").mkdir()
    code, output = call(office.clock, capsys, "diff", run.name, run.name, "--out", str(tmp_path), *places(office))
    assert (code, "changed.parquet" in output["error"]) == (2, True)


def test_backfill_skips_published_dates_and_continues_after_missing_sources(office: Office, capsys: Output) -> None:
    reports = Place.at(office.settings.reports)
    run = runs.begin(reports, DAY, office.clock, "0" * 64)
    (run.place / runs.SUMMARY).write(canonical({"messages": 0}))
    runs.point_to(reports, run)
    first, last = DAY - timedelta(days=1), DAY + timedelta(days=1)
    code, output = call(
        office.clock, capsys, "backfill", "--from", str(first), "--to", str(last), "--only-missing", *places(office)
    )
    assert code == 4
    assert [run["outcome"] for run in output["runs"]] == ["sources_missing", "kept", "sources_missing"]


def test_a_night_without_work_sends_the_report_that_was_not_sent(
    office: Office, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = Place.at(office.settings.reports)
    run = runs.begin(reports, DAY, office.clock, "0" * 64)
    result = {"business_date": f"{DAY}", "outcome": "met", "exit_code": 0, "run": run.name, "report": ""}
    runs.finish(run, result)
    runs.point_to(reports, run)
    sent: list[list[runs.Facts]] = []

    def send(settings: ReconcileSettings, results: list[runs.Facts]) -> list[str]:
        sent.append(results)
        return ["The report was not sent by mail"]

    monkeypatch.setattr(notice, "send", send)
    assert call(office.clock, capsys, "nightly", *places(office))[0] == 69
    assert sent == [[result]]


def test_an_extract_is_written_from_the_database(database: str, office: Office, capsys: Output, tmp_path: Path) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, app_domain, app_type,"
            " app_subtype, app_key, digest, size, detail)"
            " VALUES (1, '2026-11-20 10:00Z', 1, 1, '1.a.1.1.3f.1', '1.b', 0, '','d', 't', '', 'k', '', 1, 'SaveFwd=3 Ack2=1')"
        )
    (tmp_path / "salt").write_text("secret\n")
    code, output = call(
        office.clock, capsys, "extract", "--node", "1.a", "--database-url", database.replace("postgresql://", "postgresql+psycopg://"),
        "--salt-file", str(tmp_path / "salt"), *places(office),
    )  # fmt: skip
    assert code == 0
    assert (output["rows"], output["business_date"]) == (1, "2026-11-20")


def test_the_kind_of_an_error_decides_the_exit_status() -> None:
    assert [commands.exit_code_of(error) for error in (SemqError(), Unavailable(), Misconfigured())] == [1, 69, 78]
