"""The findings of a run, as counts: the source of summary, page and metrics. Filled by ``job``."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from pyspark.sql import DataFrame

from spark_reconcile.days import Calendar, Window
from spark_reconcile.judgement.verdicts import VERDICT, VERDICTS
from spark_reconcile.report.figures import VerdictFigures, figures
from spark_reconcile.run.documents import LargeDocuments
from spark_reconcile.run.limits import Breach, Plausibility, VerdictCount
from spark_reconcile.sources.clocks import Skew
from spark_reconcile.sources.gaps import Gap
from spark_reconcile.sources.inputs import Source


@dataclass(frozen=True, slots=True)
class Tally:
    """Messages by scope (date, carried), verdict and finding, and by age and latency."""

    by_finding: tuple[dict[str, Any], ...]
    ages: dict[tuple[str, str, int], int]  #: (scope, verdict, bucket of AGES)
    latencies: dict[int, int]  #: bucket of LATENCIES, messages of the date

    def verdicts(self, scope: str) -> dict[str, int]:
        """Messages by verdict, every verdict named."""
        counts = {verdict.name: 0 for verdict in VERDICTS}
        for row in self.by_finding:
            if row["scope"] == scope:
                counts[row["verdict"]] += row["messages"]
        return counts

    def figures(self, verdict: str = "", finding: str = "") -> VerdictFigures:
        """Return the number of messages with a verdict, with a finding, or with any verdict that needs action."""
        return figures(
            row
            for row in self.by_finding
            if (row["verdict"] == verdict if verdict else VERDICT[row["verdict"]].kind == "exception" or finding)
            and (not finding or row["finding"] == finding)
        )

    def messages(self, scope: str) -> int:
        """Messages of a scope."""
        return sum(row["messages"] for row in self.by_finding if row["scope"] == scope)

    def pieces(self, scope: str) -> int:
        """Messages of a scope that are pieces of large documents."""
        return sum(row["pieces"] for row in self.by_finding if row["scope"] == scope)

    def has(self, verdict: str) -> bool:
        """Whether any message, of the date or carried, has this verdict."""
        return any(row["verdict"] == verdict for row in self.by_finding)

    @property
    def exceptions(self) -> int:
        """Messages that need action, carried ones included."""
        return self.figures().all


def tally(profile: Iterable[dict[str, Any]]) -> Tally:
    """Add up the counts by finding, age and latency. The order of the rows does not matter."""
    findings: dict[tuple[str, str, str], dict[str, Any]] = {}
    ages: dict[tuple[str, str, int], int] = {}
    latencies: dict[int, int] = {}
    for row in profile:
        key = (row["scope"], row["verdict"], row["finding"])
        sums = findings.setdefault(key, dict(zip(("scope", "verdict", "finding"), key, strict=True)))
        for name in ("messages", "bytes", "resends", "turned", "pieces"):
            sums[name] = sums.get(name, 0) + (row[name] or 0)
        born = [at for at in (sums.get("oldest_at"), row["oldest_at"]) if at is not None]
        sums["oldest_at"] = min(born, default=None)
        if row["age"] is not None:
            at_age = (row["scope"], row["verdict"], row["age"])
            ages[at_age] = ages.get(at_age, 0) + row["messages"]
        if row["latency"] is not None and row["scope"] == "date":
            latencies[row["latency"]] = latencies.get(row["latency"], 0) + row["messages"]
    return Tally(tuple(findings[key] for key in sorted(findings)), ages, latencies)


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
    clock_ms: dict[str, int]  #: clock of each node with corrected times, minus the hub's
    lines: list[dict[str, Any]]  #: lines of the date by node, store, side, event
    tally: Tally
    absent: list[Gap]  #: extracts without which messages cannot be judged
    cells: DataFrame  #: all counts by pair
    limited_pairs: list[dict[str, Any]]
    exceptions: DataFrame
    their_lines: DataFrame  #: ledger lines of the exceptions
    other_dates: dict[str, int]  #: messages of other dates in the lines read, and identities that only notes name
    documents: LargeDocuments = field(default_factory=LargeDocuments)
    breaches: list[Breach] = field(default_factory=list)
    plausibility: Plausibility = _BELIEVED

    @property
    def hubs(self) -> frozenset[str]:
        """The addresses of the hub's nodes whose ledgers are used."""
        known = (one.manifest for one in self.sources if one.is_used)
        return frozenset(m.node for m in known if m is not None and m.role == "platform")

    @property
    def hub(self) -> str:
        """The address of the hub; the first, if there are several."""
        return min(self.hubs, default="")

    @property
    def messages(self) -> int:
        """Distinct messages of the date: the sum of its verdicts."""
        return self.tally.messages("date")

    @property
    def pieces(self) -> int:
        """The messages of the date that are pieces of large documents; each such document is one further message."""
        return self.tally.pieces("date")

    @property
    def verdicts(self) -> dict[str, int]:
        """Messages of the date by verdict."""
        return self.tally.verdicts("date")

    @property
    def carried(self) -> dict[str, int]:
        """Open messages of earlier dates by the verdict that they have now."""
        return self.tally.verdicts("carried")

    def counts(self) -> list[VerdictCount]:
        """The verdicts of the date for the thresholds, with the exceptions among messages that were open on earlier
        dates."""
        return [
            VerdictCount("", name, self.tally.figures(name).new, self.messages, self._age_s(name))
            for name in self.verdicts
        ]

    def counts_of(self, pair: str) -> list[VerdictCount]:
        """The verdicts of one pair that has thresholds of its own."""
        rows = [row for row in self.limited_pairs if row["pair"] == pair]
        of = sum(row["messages"] for row in rows)
        return [VerdictCount(pair, row["verdict"], row["messages"], of, self._since(row["oldest_at"])) for row in rows]

    def _age_s(self, verdict: str) -> int:
        born = [
            row["oldest_at"]
            for row in self.tally.by_finding
            if row["scope"] == "date" and row["verdict"] == verdict and row["oldest_at"] is not None
        ]
        return self._since(min(born)) if born else 0

    def _since(self, at: int | None) -> int:
        return max(self.evidence_until - at, 0) // 1000 if at is not None else 0
