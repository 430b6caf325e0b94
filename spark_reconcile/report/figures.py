"""The figures of a verdict: three numbers that count no message twice and have the same names on the whole page.

Thresholds of the whole date are compared with the sum of the first two (``VerdictFigures.new``), those of a pair with
the first.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from spark_reconcile.language import _

OF_THIS_DATE, FOUND_NOW, KNOWN_BEFORE = (
    "of this date",
    "of earlier dates (found now)",
    "of earlier dates (known before)",
)


class VerdictFigures(NamedTuple):
    """Numbers of messages with a verdict or finding."""

    date: int = 0  #: messages of this date
    found: int = 0  #: exceptions of earlier dates that no earlier run has reported
    known: int = 0  #: other messages of earlier dates: exceptions reported before, and messages that are no exceptions

    @property
    def new(self) -> int:
        """The number compared with thresholds of the whole date: ``date`` and ``found``."""
        return self.date + self.found

    @property
    def all(self) -> int:
        return sum(self)

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        return tuple(zip((OF_THIS_DATE, FOUND_NOW, KNOWN_BEFORE), self, strict=True))

    def words(self) -> str:
        """Return the numbers other than 0, each with its name; "0 of this date" if all are 0."""
        return ", ".join(f"{count:,} {_(name)}" for name, count in self.parts if count) or f"0 {_(OF_THIS_DATE)}"

    def plus(self, other: "VerdictFigures") -> "VerdictFigures":
        return VerdictFigures(*map(sum, zip(self, other, strict=True)))


class FindingCount(msgspec.Struct):
    """Sums over the messages of one scope with one finding."""

    scope: str  #: date or carried
    verdict: str
    finding: str
    messages: int = 0
    bytes: int = 0
    resends: int = 0
    turned: int = 0  #: messages that have become exceptions in this run
    pieces: int = 0
    oldest_at: int | None = None


def figures(rows: Iterable[FindingCount]) -> VerdictFigures:
    """Add up counts."""
    total = VerdictFigures()
    for row in rows:
        if row.scope == "date":
            total = total.plus(VerdictFigures(row.messages))
        else:
            total = total.plus(VerdictFigures(0, row.turned, row.messages - row.turned))
    return total
