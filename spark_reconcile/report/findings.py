"""What a run found, as small numbers: what summary, page and metrics are made of. Filled by ``job``, read only here."""

from dataclasses import dataclass, field
from datetime import date
from typing import Any

from pyspark.sql import DataFrame

from spark_reconcile.clocks import Skew
from spark_reconcile.days import Calendar, Window
from spark_reconcile.inputs import Source
from spark_reconcile.limits import Breach, Count, Plausibility
from spark_reconcile.verdicts import VERDICTS

_BELIEVED = Plausibility(True, "", 0, None)


@dataclass(slots=True)
class Findings:
    """The result of one run before it is written. Times are milliseconds since 1970 UTC, on the hub's clock."""

    day: date
    window: Window
    calendar: Calendar
    fingerprint: str
    evidence_until: int  #: all ledgers that were delivered reach up to here
    sources: tuple[Source, ...]
    is_partial: bool
    skews: dict[str, Skew]
    lines: list[dict[str, Any]]  #: lines of the date by node, store, side, event
    verdicts: dict[str, int]  #: messages of the date by verdict
    carried: dict[str, int]  #: open messages of earlier dates, judged again
    other_dates: dict[str, int]  #: seen in the lines, but not of this date
    by_finding: list[dict[str, Any]]
    ages: list[dict[str, Any]]
    latencies: list[dict[str, Any]]
    absent: dict[str, int]  #: nodes that delivered nothing, with the messages that cannot be judged for it
    pairs: list[dict[str, Any]]
    limited_pairs: list[dict[str, Any]]
    exceptions: DataFrame
    all_lines: DataFrame
    breaches: list[Breach] = field(default_factory=list)
    plausibility: Plausibility = _BELIEVED

    @property
    def messages(self) -> int:
        """Distinct messages of the date: the sum of its verdicts."""
        return sum(self.verdicts.values())

    def counts(self) -> list[Count]:
        """The verdicts of the date, for the thresholds."""
        return [
            Count("", verdict.name, self.verdicts[verdict.name], self.messages, self._age_s(verdict.name))
            for verdict in VERDICTS
        ]

    def counts_of(self, pair: str) -> list[Count]:
        """The verdicts of one pair that has thresholds of its own."""
        rows = [row for row in self.limited_pairs if row["pair"] == pair]
        of = sum(row["messages"] for row in rows)
        return [Count(pair, row["verdict"], row["messages"], of, self._since(row["oldest_at"])) for row in rows]

    def _age_s(self, verdict: str) -> int:
        born = [
            row["oldest_at"]
            for row in self.by_finding
            if row["scope"] == "date" and row["verdict"] == verdict and row["oldest_at"] is not None
        ]
        return self._since(min(born)) if born else 0

    def _since(self, at: int | None) -> int:
        return max(self.evidence_until - at, 0) // 1000 if at is not None else 0
