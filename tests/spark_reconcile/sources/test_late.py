"""Extracts that were delivered after the run of their date: the next run is partial and says what to repeat."""

import io
import json
from datetime import date, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from semq.clock import SystemClock
from spark_reconcile.progress import Progress
from spark_reconcile.run import runs
from spark_reconcile.run.job import RunRequest, RunResult, run
from spark_reconcile.run.runs import Run
from spark_reconcile.sources import inputs
from spark_reconcile.sources.gaps import Gap
from spark_reconcile.sources.inputs import THE_HUB, UNKNOWN_STORE
from spark_reconcile.sources.late import marked
from spark_reconcile.storage import Place
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, HOUR, HUB, Office, OfficeMessage

NEXT, LAST = DAY + timedelta(days=1), DAY + timedelta(days=2)


def test_a_run_is_partial_while_a_lost_document_could_be_found_by_repeated_runs(
    office: Office, spark: SparkSession
) -> None:
    office.write(OfficeMessage(1, at=12 * HOUR), "S:ACCEPTED@0 S:SENT@3 H:FORWARDED@24 S:FORWARDED@46")
    for number in range(3):
        office.write(OfficeMessage(2 + number, at=(9 + 24 * number) * HOUR), FORWARD_COURSE)

    def reconcile(day: date) -> RunResult:
        office.advance(1)
        return run(office.settings, RunRequest(day), office.clock, Progress(SystemClock(), io.StringIO()), spark)

    office.extract(only=["1.a", HUB])
    assert reconcile(DAY).outcome == "partial"
    office.extract(DAY, only=["1.b"])
    office.extract(NEXT)
    second = reconcile(NEXT)
    assert (second.outcome, second.exit_code, second.carried["SOURCE_MISSING"]) == ("partial", 7, 1)
    page = Path(second.report).read_text()
    assert "It was delivered after the run of its date: repeat this run and all later ones." in page
    assert f"semq reconcile backfill --from {DAY} --to {NEXT}" in page
    assert "No ledger" not in page
    assert "No extract of this date" not in page
    repeated = reconcile(DAY)
    assert (repeated.outcome, repeated.verdicts["NOT_DELIVERED"]) == ("breached", 1)
    office.extract(LAST)
    # The run of the next date still carries the message as the first run left it.
    third = reconcile(LAST)
    assert third.outcome == "partial"
    assert 'semq_reconcile_sources{state="LATE"} 1' in (Path(third.report).parent / "metrics.prom").read_text()
    assert reconcile(NEXT).carried == {"NOT_DELIVERED": 1}
    assert reconcile(LAST).outcome == "met"


def publish(office: Office, day: date) -> Run:
    """Publish a run of a date that used the extracts of this date."""
    office.clock.now += timedelta(minutes=1)
    reports = Place.at(office.settings.reports)
    result = runs.begin(reports, day, office.clock, "f" * 64)
    sources = [source.facts() for source in inputs.gather(office.extracts, [day])]
    (result.place / runs.SUMMARY).write(json.dumps({"sources": sources}).encode())
    runs.finish(result, {"outcome": "met"})
    runs.point_to(reports, result)
    return result


def late(office: Office, carried: Run | None, *names: str) -> list[str]:
    gaps = [Gap(name, day, 1) for name in names for day in (DAY, NEXT)]
    found = marked(gaps, office.extracts, Place.at(office.settings.reports), NEXT, carried)
    assert [gap[:3] for gap in found] == [gap[:3] for gap in gaps]
    assert not any(gap.is_late for gap in found if gap.day == NEXT)
    return [gap.name for gap in found if gap.is_late]


def test_an_extract_is_late_until_the_run_of_its_date_and_then_the_carried_run_has_used_it(office: Office) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    assert late(office, None, "1.b", THE_HUB) == []
    office.extract()
    names = ("1.b", "1.a.1.1", "1.a.2.1", "1.c", THE_HUB, UNKNOWN_STORE)
    assert late(office, None, *names) == ["1.b", "1.a.1.1", THE_HUB]  # no run of the date
    (office.folder("1.b") / "_manifest.json").rename(office.root / "kept")
    first = publish(office, DAY)
    assert late(office, first, *names) == []
    (office.root / "kept").rename(office.folder("1.b") / "_manifest.json")
    assert late(office, first, *names) == ["1.b"]
    carried = publish(office, NEXT)
    publish(office, DAY)
    assert late(office, carried, *names) == ["1.b", "1.a.1.1", THE_HUB]
    assert late(office, publish(office, NEXT), *names) == []


def test_extracts_that_are_unreadable_or_end_too_early_are_not_late(office: Office) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.advance(-1)
    office.extract(only=["1.a"])
    office.advance(1)
    office.extract(only=["1.b"])
    (office.folder("1.b") / "_manifest.json").write_text("{")
    assert late(office, None, "1.a", "1.b") == []


def test_an_extract_that_was_refused_and_delivered_again_is_late(office: Office) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    part = next(office.folder("1.b").glob("part-*"))
    intact = part.read_bytes()
    part.write_bytes(intact[:-1] + b"x")
    first = publish(office, DAY)
    part.write_bytes(intact)
    assert late(office, first, "1.a", "1.b") == ["1.b"]
