"""One night without people: the dates that are due, what is kept, and the schedule.

A date is due if it has no final run, if its run judged the open messages of another run than the present one before it,
or if an extract has arrived that its run has not seen. Dates are run oldest first, so that missed nights and late
extracts carry their open messages on.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date, timedelta

from semq.clock import Clock
from semq.service.nightly_extract import next_after
from spark_reconcile.errors import BeingRun
from spark_reconcile.extracts.manifest import date_folder
from spark_reconcile.run import runs
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.sources import late
from spark_reconcile.sources.evidence import carried_run, fingerprint_of
from spark_reconcile.storage import Place

CHECK_S = 20.0  # between two looks at the clock, which may be set
RETRY_S = 900.0  # from a night that published nothing to the next try
COMMAND = (sys.executable, "-P", "-m", "spark_reconcile", "nightly")
PUBLISHED = (0, 3, 7)  # exit statuses of nights that are not tried again


def due(settings: ReconcileSettings, last: date) -> list[date]:
    """Return the dates to look at, oldest first: the last ``catch_up_days`` up to ``last`` that may have extracts."""
    delivered = [day for day in runs.dates(Place.at(settings.extracts)) if day <= last]
    first = max(last - timedelta(days=settings.catch_up_days - 1), min(delivered, default=last))
    return [first + timedelta(days=step) for step in range((last - first).days + 1)]


def is_up_to_date(settings: ReconcileSettings, day: date) -> bool:
    """Return whether the present run of a date is final and nothing has changed since that it would judge."""
    extracts, reports = Place.at(settings.extracts), Place.at(settings.reports)
    run = runs.final(reports, day, settings.calendar)
    if run is None or late.has_unseen(extracts, reports, day):
        return False
    carried_from = run.result.get("carried_from")  # older versions did not write it
    return carried_from is None or carried_from == fingerprint_of(carried_run(settings, day))


def remove_old(settings: ReconcileSettings, last: date) -> list[str]:
    """Remove extracts and runs that need not be kept; return their names. On an object store, nothing is removed.

    The newest published date is kept in any case, because the next run carries its open messages.
    """
    extracts, reports = Place.at(settings.extracts), Place.at(settings.reports)
    removed: list[str] = []
    if extracts.is_local and settings.extracts_keep_days:
        oldest = last - timedelta(days=settings.extracts_keep_days)
        removed += [_removed(extracts / date_folder(day)) for day in runs.dates(extracts) if day < oldest]
    if reports.is_local:
        removed += _remove_runs(reports, settings, last)
    return removed


def _remove_runs(reports: Place, settings: ReconcileSettings, last: date) -> list[str]:
    days = runs.dates(reports)
    newest = max((day for day in days if runs.current(reports, day)), default=last)
    removed = []
    for day in days:
        try:
            with (reports / date_folder(day)).lock():
                if settings.runs_keep_days and day < min(newest, last - timedelta(days=settings.runs_keep_days)):
                    removed.append(_removed(reports / date_folder(day)))
                elif settings.superseded_keep_days:
                    oldest = last - timedelta(days=settings.superseded_keep_days)
                    removed += [
                        _removed(run.place)
                        for run in runs.of_date(reports, day)
                        if run != runs.current(reports, day) and run.began.date() < oldest
                    ]
        except BeingRun:
            continue
    return removed


def _removed(place: Place) -> str:
    place.remove()
    return place.name


def keep_schedule(
    settings: ReconcileSettings,
    arguments: Sequence[str],
    clock: Clock,
    print_message: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Start ``semq reconcile nightly`` every day at ``at``, as a process of its own; never returns.

    The first night is at once, because nights may have been missed. A night that published nothing is tried again.
    """
    moment = clock.wall()
    while True:
        while (now := clock.wall()) < moment:
            sleep(min(CHECK_S, (moment - now).total_seconds()))
        with subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.DEVNULL) as night:
            try:
                status = night.wait()
            except KeyboardInterrupt:
                night.terminate()
                raise
        now = clock.wall()
        moment = next_after(now, settings.at, settings.zone)
        if status not in PUBLISHED:
            moment = min(moment, now + timedelta(seconds=RETRY_S))
        print_message(f"the night ended with status {status}; the next is at {moment.isoformat(timespec='seconds')}")
