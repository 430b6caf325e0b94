"""Nights without people: missed dates, late extracts, retention, and a run that is killed."""

import os
import signal
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from semq.clock import SystemClock
from spark_reconcile import nightly
from spark_reconcile.extracts.manifest import date_folder
from spark_reconcile.progress import Progress
from spark_reconcile.run import runs
from spark_reconcile.run.job import RunRequest, run
from spark_reconcile.run.runs import Run
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, HUB, Office, OfficeMessage, StandingClock
from tests.waiting import until_sync

NEXT = DAY + timedelta(days=1)


def published(settings: ReconcileSettings, day: date, clock: StandingClock) -> Run:
    """Publish an empty run of a date."""
    reports = Place.at(settings.reports)
    new = runs.begin(reports, day, clock, "f" * 64)
    runs.finish(new, {"outcome": "met"})
    runs.point_to(reports, new)
    return new


def test_a_night_looks_at_the_last_dates_that_may_have_extracts(office: Office) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    assert nightly.due(office.settings, NEXT) == [NEXT]
    office.extract()
    assert nightly.due(office.settings, NEXT) == [DAY, NEXT]
    later = DAY + timedelta(days=30)
    assert nightly.due(office.settings, later) == [later - timedelta(days=back) for back in range(6, -1, -1)]


def test_a_late_extract_makes_its_date_and_all_later_ones_due_again(office: Office, spark: SparkSession) -> None:
    for number, receiver in enumerate(("1.b", "1.c"), 1):
        office.write(OfficeMessage(number, receiver=receiver), FORWARD_COURSE)
    office.extract(only=["1.a", "1.b", HUB])
    office.advance(1)
    office.extract(NEXT, only=["1.a", "1.b", HUB])
    settings = office.settings

    def judged() -> list[bool]:
        return [nightly.is_up_to_date(settings, day) for day in (DAY, NEXT)]

    def night() -> None:
        for day in (DAY, NEXT):
            if not nightly.is_up_to_date(settings, day):
                run(settings, RunRequest(day), office.clock, Progress(SystemClock()), spark)

    assert judged() == [False, False]
    night()
    assert judged() == [True, True]
    office.extract(only=["1.c"])
    assert judged()[0] is False
    night()
    assert judged() == [True, True]
    current = runs.current(Place.at(settings.reports), DAY)
    assert current is not None
    assert current.summary["verdicts"]["MATCHED"] == 2
    assert len(runs.of_date(Place.at(settings.reports), NEXT)) == 2


def test_old_extracts_and_runs_are_removed_but_not_the_newest_published_date(office: Office) -> None:
    settings = replace(office.settings, extracts_keep_days=10, runs_keep_days=20, superseded_keep_days=5)
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    first, second = published(settings, DAY, office.clock), published(settings, DAY, office.clock)
    assert nightly.remove_old(settings, NEXT) == []
    assert nightly.remove_old(settings, DAY + timedelta(days=9)) == [f"run={first.name}"]
    assert nightly.remove_old(settings, DAY + timedelta(days=11)) == [date_folder(DAY)]
    assert not Path(office.settings.extracts, date_folder(DAY)).exists()
    assert nightly.remove_old(settings, DAY + timedelta(days=99)) == []
    assert second.place.exists()
    office.clock.now = datetime(2026, 12, 30, tzinfo=UTC)
    published(settings, DAY + timedelta(days=39), office.clock)
    assert nightly.remove_old(settings, DAY + timedelta(days=39)) == [date_folder(DAY)]
    never = replace(settings, extracts_keep_days=0, runs_keep_days=0, superseded_keep_days=0)
    assert nightly.remove_old(never, DAY + timedelta(days=9999)) == []


def test_a_killed_run_leaves_the_published_one_and_the_next_night_repeats_it(
    office: Office, spark: SparkSession
) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    settings, reports = office.settings, Place.at(office.settings.reports)
    old = published(settings, DAY, office.clock)
    folder = Path(settings.reports, date_folder(DAY))
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "spark_reconcile", "run", "--business-date", f"{DAY}", "--extracts", settings.extracts,
         "--reports", settings.reports, "--master", "local[1]", "--memory", "768m"],
        stderr=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            until_sync(lambda: any(folder.glob("run=*/_staging/*")) or process.poll() is not None)
            assert process.poll() is None
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert runs.current(reports, DAY) == old
    assert (folder / "CURRENT").read_text() == f"{old.name}\n"
    killed = next(each for each in runs.of_date(reports, DAY) if each != old)
    assert not killed.result
    assert not nightly.is_up_to_date(settings, DAY)
    result = run(settings, RunRequest(DAY), office.clock, Progress(SystemClock()), spark)
    assert result.outcome in ("met", "implausible")
    assert not (killed.place / "_staging").exists()
    assert (folder / "CURRENT").read_text() == f"{result.run}\n"


def test_a_schedule_starts_nights_and_tries_again_when_nothing_was_published(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, slept, said = office.clock, list[float](), list[str]()
    codes = iter([69, 0])
    program = "import sys; sys.exit(int(sys.argv[1]))"

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now += timedelta(seconds=seconds)

    def started(text: str) -> None:
        said.append(text)
        monkeypatch.setattr(nightly, "COMMAND", (sys.executable, "-c", program, f"{next(codes, 'x')}"))

    started("")
    with pytest.raises(StopIteration):
        nightly.keep_schedule(
            office.settings, [], clock, lambda text: started(text) if len(said) < 3 else _stop(), sleep
        )
    assert said[1] == "the night ended with status 69; the next is at 2026-11-21T12:15:00+00:00"
    assert said[2] == "the night ended with status 0; the next is at 2026-11-22T04:15:00+00:00"
    assert max(slept) == nightly.CHECK_S


def _stop() -> None:
    raise StopIteration
