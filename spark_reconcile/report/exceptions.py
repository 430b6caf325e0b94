"""exceptions.csv, and the choice of exceptions whose ledger lines the page shows.

The table of exceptions is already sorted. It is read once, in batches, so the driver's memory does not depend on their
number.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from spark_reconcile.judgement.verdicts import VERDICT, advice
from spark_reconcile.report.sheets import SheetSize, write_sheet
from spark_reconcile.report.steps import next_steps
from spark_reconcile.report.words import age, app_key_type, pair_name
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place
from spark_reconcile.tables import Row, read_rows

PER_PAIR = 6  # exceptions chosen of each pair on the page
PER_PAIR_AND_FINDING = 2  # largest number of these with the same finding


class ExceptionColumn(NamedTuple):
    """A column of the file: its heading, and the name of its value in ``_cells``."""

    heading: str
    name: str


COLUMNS = (
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
    ExceptionColumn("SHA-256 at the sender", "sender_digest"),
    ExceptionColumn("SHA-256 at the receiver", "receiver_digest"),
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
    """The written exceptions."""

    sheet: SheetSize
    sample: list[Row]  #: exceptions whose ledger lines the page shows, in the order of exceptions.csv


def write_exceptions(
    table: Place, target: Place, settings: ReconcileSettings, day: str, hub: str, pairs: Collection[str]
) -> Exceptions:
    """Write the file and choose the exceptions whose ledger lines the page shows.

    ``hub``: address of the hub. ``pairs``: names of the pairs on the page, such as ``1.10008>1.56001``.
    """
    sample = _Sample(settings.stories_max, pairs)
    sheet = write_sheet(
        target,
        [column.heading for column in COLUMNS],
        sample.watch(read_rows(table)),
        lambda row: _cells(row, settings, day, hub),
        settings.csv_rows_max,
        "exceptions.parquet",
    )
    return Exceptions(sheet, sample.chosen())


class _Sample:
    """A choice of exceptions: the first ``per_finding`` of every finding, and up to PER_PAIR of every shown pair.

    The exceptions chosen of a pair have as many different findings as possible.
    """

    def __init__(self, per_finding: int, pairs: Collection[str]) -> None:
        self._per_finding = per_finding
        self._of_finding: dict[str, int] = {}  # number of chosen rows by finding
        # By pair: for each row, how many of the same pair and finding precede it, its number, and the row.
        self._of_pair: dict[str, list[tuple[int, int, Row]]] = {pair: [] for pair in pairs}
        self._of_pair_and_finding: dict[tuple[str, str], int] = {}
        self._kept: dict[int, Row] = {}  # by number of the row

    def watch(self, rows: Iterator[Row]) -> Iterator[Row]:
        for number, row in enumerate(rows):
            of_finding = self._of_finding.get(row["finding"], 0)
            if of_finding < self._per_finding:
                self._of_finding[row["finding"]] = of_finding + 1
                self._kept[number] = row
            pair = pair_name(row["sender"], row["receiver"])
            if pair in self._of_pair:
                preceding = self._of_pair_and_finding.get((pair, row["finding"]), 0)
                if preceding < PER_PAIR_AND_FINDING:
                    self._of_pair_and_finding[pair, row["finding"]] = preceding + 1
                    self._of_pair[pair].append((preceding, number, row))
            yield row

    def chosen(self) -> list[Row]:
        for rows in self._of_pair.values():
            rows.sort(key=lambda entry: entry[:2])
            self._kept |= {number: row for _, number, row in rows[:PER_PAIR]}
        return [self._kept[number] for number in sorted(self._kept)]


def _cells(row: Row, settings: ReconcileSettings, day: str, hub: str) -> list[object]:
    steps = next_steps(row, day, hub)
    at, command = (steps[0].node or steps[0].side, steps[0].command) if steps else (None, None)
    values = {**row, **_derived(row, settings), "at": at, "command": command}
    return [values[column.name] for column in COLUMNS]


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
        "age": age(row["age_ms"]),
        "age_s": row["age_ms"] // 1000 if row["age_ms"] is not None else "",
        "carried": "yes" if row["scope"] == "carried" else "",
        "app_key_type": app_key_type(row),
        "owner": VERDICT[row["verdict"]].owner,
        "advice": advice(row["finding"], row["verdict"]),
    }
