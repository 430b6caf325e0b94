"""The run folders of the reconciliation, as written by ``spark_reconcile``, read without Spark or Arrow.

Only folders on this machine are read; for an object store the console shows the address of the reports. No function
raises for a damaged or incomplete folder; unreadable runs are left out.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

from semq.config.settings import Settings
from spark_reconcile.errors import BadSettings
from spark_reconcile.judgement.verdicts import VERDICT
from spark_reconcile.settings import load

FILE_MAX = 64 << 20
CSV_ROWS_MAX = 1_000_000
OUTCOMES = {0: "met", 3: "breached", 4: "missing", 7: "partial", 65: "refused"}
DOWNLOADS = {
    "report.html": "text/html", "exceptions.csv": "text/csv", "pairs.csv": "text/csv",
    "summary.json": "application/json",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run of one business date."""

    day: str
    name: str
    path: Path
    is_current: bool
    result: Mapping[str, Any]
    summary: Mapping[str, Any]

    @property
    def outcome(self) -> str:
        """One of the keys of ``words.OUTCOMES``."""
        if not self.result:
            return "running"
        return OUTCOMES.get(int(self.result.get("exit_code", 1)), "failed")

    @property
    def files(self) -> list[str]:
        """Names of files that may be downloaded."""
        return [name for name in DOWNLOADS if (self.path / name).is_file()]


def reports_folder(settings: Settings) -> Path | None:
    """Return the folder of reports on this machine; None without [reconcile], or if the folder is elsewhere."""
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
    found = [one.name.removeprefix("business_date=") for one in _folders(folder, "business_date=")]
    return sorted((name for name in found if _is_date(name)), reverse=True)


def of_date(folder: Path, day: str) -> list[RunFolder]:
    """Return the runs of a date, the newest first."""
    if not _is_date(day):
        return []
    place = folder / f"business_date={day}"
    current = _text(place / "CURRENT").strip()
    found = []
    for path in sorted(_folders(place, "run="), reverse=True):
        name = path.name.removeprefix("run=")
        found.append(
            RunFolder(day, name, path, name == current, _json(path / "_RESULT.json"), _json(path / "summary.json"))
        )
    return found


def find(folder: Path, day: str, name: str) -> RunFolder | None:
    """Return one run."""
    return next((run for run in of_date(folder, day) if run.name == name), None)


def newest(settings: Settings) -> dict[str, Any] | None:
    """Return the outcome of the current run of the newest date, for the overview."""
    from semq.console.words import OUTCOMES as WORDS

    folder = reports_folder(settings)
    for day in dates(folder)[:1] if folder is not None else []:
        for run in of_date(folder, day) if folder is not None else []:
            if run.is_current:
                return {"day": day, "outcome": run.outcome, "word": WORDS[run.outcome]}
    return None


def trend(folder: Path, days: int) -> list[RunFolder]:
    """Return the current runs of the newest dates, the oldest first."""
    found = []
    for day in reversed(dates(folder)[:days]):
        found += [run for run in of_date(folder, day) if run.is_current]
    return found


def kinds(summary: Mapping[str, Any]) -> dict[str, int]:
    """Return how many messages are fine, open or exceptions."""
    counts = {"fine": 0, "open": 0, "exception": 0}
    for verdict, count in (summary.get("verdicts") or {}).items():
        if verdict in VERDICT:
            counts[VERDICT[verdict].kind] += int(count)
    return counts


def exceptions(
    run: RunFolder, fits: Callable[[Mapping[str, str]], bool], after: int, limit: int
) -> tuple[list[dict[str, str]], int | None]:
    """Return matching exceptions of a run, after so many rows of the file, and the beginning of the next page."""
    found: list[dict[str, str]] = []
    for number, row in enumerate(_sheet(run.path / "exceptions.csv")):
        if number < after or not fits(row):
            continue
        if len(found) == limit:
            return found, number
        found.append(row)
    return found, None


def _sheet(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a file for spreadsheets, without the apostrophes that mark texts."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            for row in islice(csv.DictReader(stream), CSV_ROWS_MAX):
                if row.get("Message (LK0)"):
                    yield {str(name): str(value or "").removeprefix("'") for name, value in row.items() if name}
    except (OSError, csv.Error, UnicodeDecodeError):
        return


def _folders(place: Path, begins: str) -> list[Path]:
    try:
        return [one for one in place.iterdir() if one.name.startswith(begins) and one.is_dir()]
    except OSError:
        return []


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == len("2026-11-20")  # no other form that Python reads


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")[:200]
    except (OSError, UnicodeDecodeError):
        return ""


def _json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > FILE_MAX:
            return {}
        read = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}
