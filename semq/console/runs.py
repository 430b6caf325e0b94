"""The run folders of the reconciliation, which ``spark_reconcile`` writes; read here without Spark or Arrow.

Only folders on this machine are read. A missing or unreadable file counts as empty.
"""

import csv
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from semq.config.settings import Settings
from spark_reconcile.errors import BadSettings
from spark_reconcile.judgement.verdicts import VERDICT
from spark_reconcile.settings import load

PARTNERS = "partners"  # folder of a run: a page for each institution with exceptions
FILE_MAX = 64 << 20  # bytes of a JSON file
CSV_ROWS_MAX = 1_000_000  # rows of a file that are read
# Exit status of the run | outcome
OUTCOME_OF_EXIT_STATUS = {0: "met", 3: "breached", 4: "missing", 7: "partial", 65: "refused"}
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
# File that may be downloaded | media type
DOWNLOADS = {
    "report.html": "text/html", "report.zh.html": "text/html", "exceptions.xlsx": XLSX, "pairs.xlsx": XLSX,
    "exceptions.csv": "text/csv", "pairs.csv": "text/csv", "summary.json": "application/json",
}  # fmt: skip


class RunFolder(Struct, frozen=True):
    """A run of the reconciliation for a business date."""

    day: str
    name: str
    path: Path
    is_current: bool  #: the file CURRENT of its date names the run
    is_running: bool  #: the run has not ended, and a process has the lock of its date
    result: Mapping[str, Any]  #: content of _RESULT.json; empty until the run has ended
    summary: Mapping[str, Any]  #: content of summary.json

    @property
    def outcome(self) -> str:
        """The outcome of the run: a key of ``words.OUTCOMES``."""
        if not self.result:
            return "running" if self.is_running else "failed"
        status = self.result.get("exit_code")
        return OUTCOME_OF_EXIT_STATUS.get(status, "failed") if isinstance(status, int) else "failed"

    @property
    def files(self) -> list[str]:
        """The names of the files that may be downloaded."""
        return [name for name in DOWNLOADS if (self.path / name).is_file()]

    @property
    def partner_pages(self) -> list[str]:
        """The names of the pages that can be sent to partners."""
        return sorted(path.name for path in (self.path / PARTNERS).glob("*.html"))


def reports_folder(settings: Settings) -> Path | None:
    """Return the folder of reports; None without a usable [reconcile], or if the folder is not on this machine."""
    if not settings.reconcile or settings.file is None:
        return None
    try:
        reports = load(settings.file).reports
    except BadSettings:
        return None
    if "://" in reports and not reports.startswith("file://"):
        return None
    return Path(reports.removeprefix("file://"))


def dates(folder: Path) -> list[str]:
    """Return the business dates that have runs, the newest first."""
    names = [path.name.removeprefix("business_date=") for path in _folders(folder, "business_date=")]
    return sorted((name for name in names if _is_date(name)), reverse=True)


def of_date(folder: Path, day: str) -> list[RunFolder]:
    """Return the runs of a date, the newest first."""
    if not _is_date(day):
        return []
    of_day = folder / f"business_date={day}"
    current = _text(of_day / "CURRENT").strip()
    runs: list[RunFolder] = []
    for path in sorted(_folders(of_day, "run="), reverse=True):
        name, result = path.name.removeprefix("run="), _json(path / "_RESULT.json")
        is_running = not runs and not result and _is_locked(of_day)  # only the newest run can be running
        runs.append(RunFolder(day, name, path, name == current, is_running, result, _json(path / "summary.json")))
    return runs


def shown(of_date: list[RunFolder]) -> RunFolder | None:
    """Return the current run of a date, else the newest one; None without runs."""
    return next((run for run in of_date if run.is_current), of_date[0] if of_date else None)


def outcome_of_date(folder: Path, day: str, run: RunFolder | None) -> str:
    """Return the outcome of a date; ``run``: the one that is shown. Without a run, a process had no usable extracts."""
    if run is not None:
        return run.outcome
    return "running" if _is_locked(folder / f"business_date={day}") else "failed"


def find(folder: Path, day: str, name: str) -> RunFolder | None:
    """Return a run by date and name; None if there is no such run."""
    return next((run for run in of_date(folder, day) if run.name == name), None)


def newest(settings: Settings, today: date) -> dict[str, str] | None:
    """Return date and outcome of the newest date whose run has ended; None without such a date.

    A folder of a date in the future counts only if it has a current run. ``today``: in UTC.
    """
    folder = reports_folder(settings)
    if folder is None:
        return None
    last = str(today + timedelta(days=1))  # in some time zones it is tomorrow
    for day in dates(folder):
        run = shown(of_date(folder, day))
        outcome = outcome_of_date(folder, day, run)
        if outcome != "running" and (day <= last or (run is not None and run.is_current)):
            return {"day": day, "outcome": outcome}
    return None


def trend(folder: Path, days: int) -> list[RunFolder]:
    """Return the current runs of the newest ``days`` dates, the oldest first."""
    return [run for day in reversed(dates(folder)[:days]) for run in of_date(folder, day) if run.is_current]


def counts_by_kind(summary: Mapping[str, Any]) -> dict[str, int]:
    """Return how many documents of the date are fine, open or exceptions, as in the trend of the report."""
    counts = {"fine": 0, "open": 0, "exception": 0}
    for verdict, count in (summary.get("verdicts") or {}).items():
        if verdict in VERDICT:
            counts[VERDICT[verdict].kind] += int(count)
    return counts


def exceptions(
    run: RunFolder, matches: Callable[[Mapping[str, str]], bool], first_row: int, limit: int
) -> tuple[list[dict[str, str]], int | None]:
    """Return at most ``limit`` exceptions that ``matches`` accepts, from row ``first_row`` on, and the first row of the
    next page; None at the end of the file.
    """
    page: list[dict[str, str]] = []
    for number, row in enumerate(_rows_of_csv(run.path / "exceptions.csv")):
        if number < first_row or not matches(row):
            continue
        if len(page) == limit:
            return page, number
        page.append(row)
    return page, None


def _rows_of_csv(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows about messages, without the apostrophes that mark texts for spreadsheets."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            for row in islice(csv.DictReader(stream), CSV_ROWS_MAX):
                if row.get("Message (LK0)"):
                    yield {str(name): str(value or "").removeprefix("'") for name, value in row.items() if name}
    except (OSError, csv.Error, UnicodeDecodeError):
        return


def _is_locked(of_day: Path) -> bool:
    """Return whether a process reconciles a date. To find out, this takes its lock for a moment."""
    try:
        descriptor = os.open(of_day / ".lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(descriptor)
    return False


def _folders(parent: Path, prefix: str) -> list[Path]:
    try:
        return [path for path in parent.iterdir() if path.name.startswith(prefix) and path.is_dir()]
    except OSError:
        return []


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == len("2026-11-20")  # Python also reads other forms of ISO 8601


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")[:200]
    except (OSError, UnicodeDecodeError):
        return ""


def _json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > FILE_MAX:
            return {}
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
