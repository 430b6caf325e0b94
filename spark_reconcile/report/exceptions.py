"""The exceptions as a file for a spreadsheet, and the few of each finding whose story the page tells.

The sorted table of exceptions is read once, in batches, so that neither the driver's memory nor the order depends on
how many there are. Texts come from other institutions: a cell that a spreadsheet would take for a formula is marked as
text.
"""

import csv
import io
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from spark_reconcile.days import Calendar
from spark_reconcile.report.words import duration
from spark_reconcile.storage import Place
from spark_reconcile.verdicts import VERDICT, advice

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Cell(NamedTuple):
    """A column of the file: its heading, and the field of the exception or a name of ``_derived``."""

    heading: str
    name: str


CELLS = (
    Cell("Verdict", "verdict"),
    Cell("Finding", "finding"),
    Cell("Sender", "sender"),
    Cell("Receiver", "receiver"),
    Cell("Message (LK0)", "lk0"),
    Cell("Accepted", "accepted"),
    Cell("Taken by the hub", "taken"),
    Cell("Recorded", "recorded"),
    Cell("Sender told", "ended"),
    Cell("Age", "age"),
    Cell("Attempts", "att"),
    Cell("Bytes", "size"),
    Cell("Sender says", "sender_word"),
    Cell("Hub says", "hub_word"),
    Cell("Receiver says", "receiver_word"),
    Cell("Reason", "reason"),
    Cell("AppKey hash", "app_key_hash"),
    Cell("Stored copy (LK1)", "lk1"),
    Cell("From an earlier date", "carried"),
    Cell("Owner", "owner"),
    Cell("What to do", "advice"),
)


class Written(NamedTuple):
    """What became of the exceptions: how many there are, how many fit into the file, and the sample for the page."""

    found: int
    written: int
    sample: dict[str, list[dict[str, Any]]]  #: by finding, in the order of the report


def write_csv(exceptions: Place, target: Place, calendar: Calendar, rows_max: int, sample_max: int) -> Written:
    """Write at most ``rows_max`` exceptions as CSV (UTF-8 with its mark, so that spreadsheets read Chinese) and keep a
    sample."""
    found = written = 0
    sample: dict[str, list[dict[str, Any]]] = {}
    with target.writer() as stream:
        stream.write("\ufeff".encode())
        text = io.StringIO(newline="")
        sheet = csv.writer(text)
        sheet.writerow([cell.heading for cell in CELLS])
        for row in read_rows(exceptions):
            found += 1
            kept = sample.setdefault(row["finding"], [])
            if len(kept) < sample_max:
                kept.append(row)
            if found <= rows_max:
                sheet.writerow([_safe(value) for value in _cells(row, calendar)])
                written += 1
            if text.tell() > 1 << 20:
                stream.write(text.getvalue().encode())
                text.seek(0)
                text.truncate()
        stream.write(text.getvalue().encode())
    return Written(found, written, sample)


def read_rows(table: Place) -> Iterator[dict[str, Any]]:
    """The rows of a table that Spark wrote sorted, in that order, a batch at a time."""
    for part in table.files():
        if part.name.startswith("part-"):
            with part.open() as stream, pq.ParquetFile(stream) as parquet:
                for batch in parquet.iter_batches(batch_size=20_000):
                    yield from batch.to_pylist()


def _cells(row: dict[str, Any], calendar: Calendar) -> list[Any]:
    said = {**row, **_derived(row, calendar)}
    return [said[cell.name] for cell in CELLS]


def _derived(row: dict[str, Any], calendar: Calendar) -> dict[str, str]:
    def moment(at: int | None) -> str:
        return calendar.local(at)[:23] if at is not None else ""

    return {
        "accepted": moment(row["accepted_at"]),
        "taken": moment(row["taken_at"]),
        "recorded": moment(row["recorded_at"]),
        "ended": moment(row["ended_at"]),
        "age": duration(row["age_ms"]),
        "carried": "yes" if row["scope"] == "carried" else "",
        "owner": VERDICT[row["verdict"]].owner,
        "advice": advice(row["finding"], row["verdict"]),
    }


def _safe(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
