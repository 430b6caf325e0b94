"""Run folders: every run of a business date is kept unchanged, and a pointer names the current one.

reports/business_date=2026-11-20/
  run=20261121T021503Z-7f3a9c21-4d0e/  output of ``job``; complete when _RESULT.json exists
  CURRENT                              the name of the current run, replaced as a whole
"""

import json
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from semq.clock import Clock
from spark_reconcile.days import Calendar
from spark_reconcile.errors import NoSuchRun
from spark_reconcile.extracts.manifest import canonical, date_folder
from spark_reconcile.storage import Place

CURRENT, RESULT, SUMMARY, METRICS = "CURRENT", "_RESULT.json", "summary.json", "metrics.prom"
METRICS_FILE = "semq-reconcile.prom"
_METRICS_MAX = 1 << 20  # bytes; the labels are closed sets and a bounded number of nodes
_MOMENT = "%Y%m%dT%H%M%SZ"
_RUN = re.compile(r"run=([0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}-[0-9a-f]{4})")
_JSON_MAX = 64 << 20  # bytes; every summary is smaller
Facts = dict[str, Any]  #: a JSON object of a run, perhaps of another version
History = list[tuple[date, Facts]]  #: published summaries, oldest first


class Run(NamedTuple):
    """One run of one business date."""

    day: date
    name: str
    place: Place

    @property
    def began(self) -> datetime:
        """The time of the start, in whole seconds."""
        return datetime.strptime(self.name.partition("-")[0], _MOMENT).replace(tzinfo=UTC)

    @property
    def result(self) -> Facts:
        """The result; empty if the run did not end."""
        return read_json(self.place / RESULT)

    @property
    def verdicts(self) -> Place:
        """The table of verdicts; missing if the run failed before it was written."""
        return self.place / "verdicts.parquet"

    @property
    def summary(self) -> Facts:
        """The summary; empty if the run failed before it was written."""
        return read_json(self.place / SUMMARY)


def begin(reports: Place, day: date, clock: Clock, fingerprint: str, began: datetime | None = None) -> Run:
    """Create an empty run folder; its name has the time of the start and the fingerprint of the inputs.

    ``began``: time of the start in UTC, before the inputs were collected; by default the present time.
    """
    moment = (began or clock.wall()).strftime(_MOMENT)
    name = f"{moment}-{fingerprint[:8]}-{clock.uuid().hex[:4]}"
    place = reports / date_folder(day) / f"run={name}"
    place.make()
    return Run(day, name, place)


def remove_staging(reports: Place, day: date, staging: str) -> None:
    """Remove the ``staging`` folders of killed runs of a date. The caller holds the lock of the date.

    On an object store, no lock distinguishes killed from working runs, so nothing is removed.
    """
    if reports.is_local:
        for run in of_date(reports, day):
            (run.place / staging).remove()


def finish(run: Run, result: Facts) -> None:
    """Write the result: from then on the run is complete and never changed."""
    (run.place / RESULT).write(canonical(result))


def point_to(reports: Place, run: Run) -> None:
    """Make this run the current one of its date."""
    (reports / date_folder(run.day) / CURRENT).write(f"{run.name}\n".encode())


def copy_metrics(reports: Place, day: date, file: str) -> None:
    """Replace ``file`` by the metrics of the current run of a date, unless a later date has a run.

    ``file``: empty for METRICS_FILE in the folder of the runs; none on an object store.

    The file gets mode 0644, because the collector is another user. Raises OSError.
    """
    run = current(reports, day)
    if not file and reports.is_local:
        file = str(reports / METRICS_FILE)
    if not file or run is None or any(later > day and current(reports, later) for later in dates(reports)):
        return
    Place.at(file).write((run.place / METRICS).read(_METRICS_MAX))
    Path(file).chmod(0o644)


def current(reports: Place, day: date) -> Run | None:
    """Return the current run of a date; None if no run was published, or its folder no longer exists."""
    pointer = reports / date_folder(day) / CURRENT
    if not pointer.exists():
        return None
    name = pointer.read(200).decode("ascii", "replace").strip()
    return next((run for run in of_date(reports, day) if run.name == name), None)


def final(reports: Place, day: date, calendar: Calendar) -> Run | None:
    """Return the current run of a date if it began after the end of the date; else None."""
    run = current(reports, day)
    return run if run is not None and run.began.timestamp() * 1000 >= calendar.window(day).end else None


def find(reports: Place, day: date, name: str) -> Run:
    """Return the run of a date with this name; ``current`` is the current one. Raises NoSuchRun."""
    if name == "current":
        run = current(reports, day)
        if run is None:
            raise NoSuchRun("No run of this date has been published.", business_date=day.isoformat())
        return run
    place = reports / date_folder(day) / f"run={name}"
    if not _RUN.fullmatch(place.name) or not place.exists():
        raise NoSuchRun(business_date=day.isoformat(), run=name[:80])
    return Run(day, name, place)


def of_date(reports: Place, day: date) -> list[Run]:
    """Return all runs of a date, oldest first."""
    folders = (reports / date_folder(day)).folders()
    return [Run(day, match[1], folder) for folder in folders if (match := _RUN.fullmatch(folder.name))]


def dates(reports: Place) -> list[date]:
    """Return the business dates that have a folder, oldest first."""
    days = []
    for folder in reports.folders():
        try:
            days.append(date.fromisoformat(folder.name.removeprefix("business_date=")))
        except ValueError:
            continue
    return days


def history(reports: Place, day: date, days: int) -> History:
    """Return the published summaries of the last ``days`` dates before ``day``, oldest first."""
    summaries = []
    for step in range(days, 0, -1):
        earlier = day - timedelta(days=step)
        run = current(reports, earlier)
        if run is not None and (summary := run.summary):
            summaries.append((earlier, summary))
    return summaries


def read_json(place: Place) -> Facts:
    """Read a JSON object of a run; empty if it is missing or damaged, because an old run must not stop a new one."""
    if not place.exists():
        return {}
    try:
        content = json.loads(place.read(_JSON_MAX))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
