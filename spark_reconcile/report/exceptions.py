"""exceptions.csv, and the few exceptions with a story on the page: some of every finding, and some of every pair that
the page shows.

The sorted table of exceptions is read once, in batches, so that neither the driver's memory nor the order depends on
their number.
"""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from spark_reconcile.judgement.verdicts import VERDICT, advice
from spark_reconcile.report.sheets import Written, write_sheet
from spark_reconcile.report.steps import next_steps
from spark_reconcile.report.tables import read_rows
from spark_reconcile.report.words import app_key_type, duration, pair_name
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place

Row = dict[str, Any]

PER_PAIR = 6  # stories of each shown pair, of as many findings as there are
PER_PAIR_AND_FINDING = 2


class ExceptionColumn(NamedTuple):
    """A column of the file: its heading, and the field of the exception or a name of ``_derived``."""

    heading: str
    name: str


CELLS = (
    ExceptionColumn("Verdict", "verdict"),
    ExceptionColumn("Finding", "finding"),
    ExceptionColumn("Pair", "pair"),
    ExceptionColumn("Sender", "sender"),
    ExceptionColumn("Sender name", "sender_name"),
    ExceptionColumn("Receiver", "receiver"),
    ExceptionColumn("Receiver name", "receiver_name"),
    ExceptionColumn("Message (LK0)", "lk0"),
    ExceptionColumn("Accepted", "accepted"),
    ExceptionColumn("Taken by the hub", "taken"),
    ExceptionColumn("Recorded", "recorded"),
    ExceptionColumn("Sender noted", "ended"),
    ExceptionColumn("Age", "age"),
    ExceptionColumn("Age (s)", "age_s"),
    ExceptionColumn("Attempts", "att"),
    ExceptionColumn("Bytes", "size"),
    ExceptionColumn("At the sender", "sender_word"),
    ExceptionColumn("At the hub", "hub_word"),
    ExceptionColumn("At the receiver", "receiver_word"),
    ExceptionColumn("Reason", "reason"),
    ExceptionColumn("AppKey type", "app_key_type"),
    ExceptionColumn("AppKey hash", "app_key_hash"),
    ExceptionColumn("Stored copy (LK1)", "lk1"),
    ExceptionColumn("From an earlier date", "carried"),
    ExceptionColumn("Owner", "owner"),
    ExceptionColumn("What to do", "advice"),
    ExceptionColumn("At", "at"),
    ExceptionColumn("Command", "command"),
)


class Exceptions(NamedTuple):
    """The written exceptions: the file, and those with a story on the page, in the order of the report."""

    sheet: Written
    sample: list[Row]


def write_exceptions(
    table: Place, target: Place, settings: ReconcileSettings, day: str, hub: str, pairs: Collection[str]
) -> Exceptions:
    """Write the file and choose the stories. ``hub``: its address; ``pairs``: those that the page shows, such as
    ``1.10008>1.56001``."""
    sample = _Sample(settings.stories_max, pairs)
    sheet = write_sheet(
        target,
        [cell.heading for cell in CELLS],
        sample.watch(read_rows(table)),
        lambda row: _cells(row, settings, day, hub),
        settings.csv_rows_max,
        "exceptions.parquet",
    )
    return Exceptions(sheet, sample.chosen())


class _Sample:
    """The first of every finding, and of every shown pair as many findings as possible."""

    def __init__(self, per_finding: int, pairs: Collection[str]) -> None:
        self._per_finding = per_finding
        self._of_finding: dict[str, int] = {}
        self._of_pair: dict[str, list[tuple[int, int, Row]]] = {pair: [] for pair in pairs}
        self._of_both: dict[tuple[str, str], int] = {}
        self._kept: dict[int, Row] = {}

    def watch(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield all rows, and keep some of them."""
        for number, row in enumerate(rows):
            nth = self._of_finding.get(row["finding"], 0)
            if nth < self._per_finding:
                self._of_finding[row["finding"]] = nth + 1
                self._kept[number] = row
            of_pair = self._of_pair.get(pair_name(row["sender"], row["receiver"]))
            if of_pair is not None:
                both = (pair_name(row["sender"], row["receiver"]), row["finding"])
                nth = self._of_both.get(both, 0)
                if nth < PER_PAIR_AND_FINDING:
                    self._of_both[both] = nth + 1
                    of_pair.append((nth, number, row))
            yield row

    def chosen(self) -> list[Row]:
        """Return the rows that were kept, in the order of the input."""
        for rows in self._of_pair.values():
            rows.sort(key=lambda one: one[:2])
            self._kept |= {number: row for _, number, row in rows[:PER_PAIR]}
        return [self._kept[number] for number in sorted(self._kept)]


def _cells(row: Row, settings: ReconcileSettings, day: str, hub: str) -> list[Any]:
    first = next(iter(next_steps(row, day, hub)), None)
    act = {"at": first and (first.node or first.side), "command": first and first.command}
    values = {**row, **_derived(row, settings), **act}
    return [values[cell.name] for cell in CELLS]


def _derived(row: Row, settings: ReconcileSettings) -> Row:
    calendar = settings.calendar

    def moment(at: int | None) -> str:
        return calendar.local(at) if at is not None else ""

    return {
        "pair": pair_name(row["sender"], row["receiver"]),
        "sender_name": settings.names.get(row["sender"], ""),
        "receiver_name": settings.names.get(row["receiver"], ""),
        "accepted": moment(row["accepted_at"]),
        "taken": moment(row["taken_at"]),
        "recorded": moment(row["recorded_at"]),
        "ended": moment(row["ended_at"]),
        "age": duration(row["age_ms"]),
        "age_s": row["age_ms"] // 1000 if row["age_ms"] is not None else "",
        "carried": "yes" if row["scope"] == "carried" else "",
        "app_key_type": app_key_type(row),
        "owner": VERDICT[row["verdict"]].owner,
        "advice": advice(row["finding"], row["verdict"]),
    }
