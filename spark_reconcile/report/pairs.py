"""Pairs of institutions: pairs.csv with all of them, the worst for the page, and their counts on earlier dates.

The table of pairs is sorted, the worst pair first, the rows of a pair together. One pass therefore writes the file and
finds the pairs to show: the first PAIRS_SHOWN, and all others whose own threshold is exceeded.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_reconcile.judgement.verdicts import EXCEPTIONS, VERDICTS
from spark_reconcile.report.figures import VerdictFigures
from spark_reconcile.report.findings import Tally
from spark_reconcile.report.sheets import SheetSize, write_sheet
from spark_reconcile.report.words import pair_name
from spark_reconcile.run.limits import Breach
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place
from spark_reconcile.tables import read_batches, read_rows, rows_of

PAIRS_SHOWN = 60

_NAMES = [verdict.name for verdict in VERDICTS]
HEADINGS = (
    "Pair", "Sender", "Sender name", "Receiver", "Receiver name", "Messages", "Matched", "Exceptions",
    "Share of exceptions", "Exceptions of earlier dates", "Oldest exception", "Bytes", "Resends", "Thresholds exceeded",
    *_NAMES, "Pieces of large documents",
)  # fmt: skip


@dataclass(slots=True)
class Pair:
    """The counts of one sender and one receiver."""

    sender: str
    receiver: str
    of_date: Counter[str] = field(default_factory=Counter)  #: messages of the date by verdict
    carried: Counter[str] = field(default_factory=Counter)  #: messages of earlier dates by verdict
    #: by verdict: messages of earlier dates that became exceptions in this run
    found: Counter[str] = field(default_factory=Counter)
    oldest_at: int | None = None  #: oldest exception: milliseconds since 1970 UTC, by the sender's clock
    bytes: int = 0  #: payload of the messages of the date
    resends: int = 0  #: of the messages of the date
    pieces: int = 0  #: messages of the date that are pieces of large documents

    @property
    def name(self) -> str:
        return pair_name(self.sender, self.receiver)

    @property
    def messages(self) -> int:
        return self.of_date.total()

    @property
    def exceptions(self) -> int:
        return _exceptions(self.of_date)

    @property
    def carried_exceptions(self) -> int:
        return _exceptions(self.carried)

    def figures(self, verdict: str = "") -> VerdictFigures:
        """Return the figures of a verdict; without one, those of all exceptions."""
        names = (verdict,) if verdict else EXCEPTIONS
        counters = (self.of_date, self.carried, self.found)
        date, carried, found = (sum(counts[name] for name in names) for counts in counters)
        return VerdictFigures(date, found, carried - found)


def _exceptions(counts: Counter[str]) -> int:
    return sum(count for name, count in counts.items() if name in EXCEPTIONS)


class DateCount(NamedTuple):
    """The counts of one pair in the run of one date."""

    messages: int = 0  #: of the date
    exceptions: int = 0  #: of the date
    carried_exceptions: int = 0  #: exceptions of earlier dates


Counts = Mapping[str, DateCount]  #: keyed by the name of the pair


class Pairs(NamedTuple):
    """The written pairs, and the counts of the pairs on the page."""

    sheet: SheetSize
    shown: tuple[Pair, ...]
    worst: Mapping[str, tuple[Pair, VerdictFigures]]  #: by verdict: the pair with the largest ``new``
    tallies: Mapping[str, Tally]  #: keyed by the name of the pair
    matrix: Counts  #: of the pairs between the worst nodes (``drill.worst_nodes``)
    past: Sequence[tuple[date, Counts]]  #: counts of earlier dates, oldest first
    institutions: int  #: number of the institutions of all pairs


def write_pairs(
    table: Place, target: Place, settings: ReconcileSettings, breaches: Iterable[Breach]
) -> tuple[SheetSize, tuple[Pair, ...], dict[str, tuple[Pair, VerdictFigures]], int]:
    """Write pairs.csv; return its size, pairs to show, the worst pair of each verdict, the number of institutions."""
    exceeded: dict[str, list[str]] = {}  # by pair: the verdicts whose threshold it exceeds
    for breach in breaches:
        exceeded.setdefault(breach.pair, []).append(breach.verdict)
    shown: list[Pair] = []
    worst: dict[str, tuple[Pair, VerdictFigures]] = {}
    institutions: set[str] = set()

    def selected(pairs: Iterator[Pair]) -> Iterator[Pair]:
        for pair in pairs:
            institutions.update((pair.sender, pair.receiver))
            for name in {*pair.of_date, *pair.found}:
                figures = pair.figures(name)
                if figures.new > (worst[name][1].new if name in worst else 0):
                    worst[name] = pair, figures
            if len(shown) < PAIRS_SHOWN or pair.name in exceeded:
                shown.append(pair)
            yield pair

    def cells(pair: Pair) -> list[object]:
        share = round(pair.exceptions / pair.messages, 6) if pair.messages else ""
        oldest = settings.calendar.local(pair.oldest_at) if pair.oldest_at is not None else ""
        return [
            pair.name, pair.sender, settings.names.get(pair.sender, ""), pair.receiver,
            settings.names.get(pair.receiver, ""), pair.messages, pair.of_date["MATCHED"], pair.exceptions, share,
            pair.carried_exceptions, oldest, pair.bytes, pair.resends, ", ".join(exceeded.get(pair.name, [])),
            *(pair.of_date[name] for name in _NAMES), pair.pieces,
        ]  # fmt: skip

    sheet = write_sheet(target, HEADINGS, selected(_read(table)), cells, settings.csv_rows_max, "pairs.parquet")
    return sheet, tuple(shown), worst, len(institutions)


def _read(table: Place) -> Iterator[Pair]:
    for (sender, receiver), rows in groupby(read_rows(table), key=lambda row: (row["sender"], row["receiver"])):
        pair = Pair(sender, receiver)
        for row in rows:
            if row["scope"] == "date":
                pair.of_date[row["verdict"]] += row["messages"]
                pair.bytes += row["bytes"]
                pair.resends += row["resends"]
                pair.pieces += row["pieces"]
            else:
                pair.carried[row["verdict"]] += row["messages"]
                pair.found[row["verdict"]] += row["turned"]
            if row["verdict"] in EXCEPTIONS and row["oldest_at"] is not None:
                oldest_at = pair.oldest_at
                pair.oldest_at = row["oldest_at"] if oldest_at is None else min(oldest_at, row["oldest_at"])
        yield pair


def date_counts(table: Place, names: Collection[str]) -> dict[str, DateCount]:
    """Return the counts of some pairs in the table of a run; absent pairs are left out."""
    wanted = pa.array(sorted(names), pa.string())
    counted: dict[str, DateCount] = {}
    for batch in read_batches(table):
        name = pc.binary_join_element_wise(batch["sender"], batch["receiver"], ">")
        for row in rows_of(batch.append_column("name", name).filter(pc.is_in(name, value_set=wanted))):
            sums = counted.get(row["name"], DateCount())
            exceptions = row["messages"] if row["verdict"] in EXCEPTIONS else 0
            if row["scope"] == "date":
                sums = sums._replace(messages=sums.messages + row["messages"], exceptions=sums.exceptions + exceptions)
            else:
                sums = sums._replace(carried_exceptions=sums.carried_exceptions + exceptions)
            counted[row["name"]] = sums
    return counted
