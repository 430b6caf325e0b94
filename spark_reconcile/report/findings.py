"""The findings of a run, as counts: the source of summary, page and metrics."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date

from pyspark.sql import DataFrame

from spark_reconcile.days import Calendar, Window
from spark_reconcile.judgement.verdicts import VERDICT, VERDICTS
from spark_reconcile.report.figures import FindingCount, VerdictFigures, figures
from spark_reconcile.run.documents import LargeDocuments
from spark_reconcile.run.limits import Breach, Plausibility, VerdictCount
from spark_reconcile.run.readings import LineCount, PairCount
from spark_reconcile.sources.clocks import Skew
from spark_reconcile.sources.gaps import Gap
from spark_reconcile.sources.inputs import Source
from spark_reconcile.storage import Place
from spark_reconcile.tables import Row


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of messages by scope (date, carried), verdict and finding, and by age and latency."""

    by_finding: tuple[FindingCount, ...]
    ages: dict[tuple[str, str, int], int]  #: messages by (scope, verdict, bucket of AGES)
    latencies: dict[int, int]  #: messages of the date by bucket of LATENCIES

    def verdicts(self, scope: str) -> dict[str, int]:
        counts = {verdict.name: 0 for verdict in VERDICTS}
        for row in self.by_finding:
            if row.scope == scope:
                counts[row.verdict] += row.messages
        return counts

    def figures(self, verdict: str = "", finding: str = "") -> VerdictFigures:
        """Return the figures of a verdict, or of a finding; without both, of all exceptions."""
        rows: Iterable[FindingCount] = self.by_finding
        if verdict:
            rows = (row for row in rows if row.verdict == verdict)
        if finding:
            rows = (row for row in rows if row.finding == finding)
        if not verdict and not finding:
            rows = (row for row in rows if VERDICT[row.verdict].kind == "exception")
        return figures(rows)

    def messages(self, scope: str) -> int:
        return sum(row.messages for row in self.by_finding if row.scope == scope)

    def pieces(self, scope: str) -> int:
        return sum(row.pieces for row in self.by_finding if row.scope == scope)

    def has(self, verdict: str) -> bool:
        return any(row.verdict == verdict for row in self.by_finding)

    @property
    def exceptions(self) -> int:
        return self.figures().all


def tally(profile: Iterable[Row]) -> Tally:
    """Add up the counts by finding, age and latency."""
    findings: dict[tuple[str, str, str], FindingCount] = {}
    ages: dict[tuple[str, str, int], int] = {}
    latencies: dict[int, int] = {}
    for row in profile:
        key = (row["scope"], row["verdict"], row["finding"])
        sums = findings.setdefault(key, FindingCount(*key))
        for name in ("messages", "bytes", "resends", "turned", "pieces"):
            setattr(sums, name, getattr(sums, name) + (row[name] or 0))
        sums.oldest_at = min((at for at in (sums.oldest_at, row["oldest_at"]) if at is not None), default=None)
        if row["age"] is not None:
            age_key = (row["scope"], row["verdict"], row["age"])
            ages[age_key] = ages.get(age_key, 0) + row["messages"]
        if row["latency"] is not None and row["scope"] == "date":
            latencies[row["latency"]] = latencies.get(row["latency"], 0) + row["messages"]
    return Tally(tuple(findings[key] for key in sorted(findings)), ages, latencies)


_PLAUSIBLE = Plausibility(True, "", 0, None)


@dataclass(slots=True)
class Findings:
    """The result of one run before it is written. Times are milliseconds since 1970 UTC."""

    day: date
    window: Window
    calendar: Calendar
    fingerprint: str
    evidence_until: int  #: all delivered ledgers are complete up to this time, by the hub's clock
    sources: tuple[Source, ...]
    is_partial: bool  #: whether an extract is missing, unfinished or unusable
    skews: dict[str, Skew]  #: the estimated clocks by node
    clock_ms: dict[str, int]  #: for each node whose times are corrected: its clock minus the hub's
    lines: list[LineCount]  #: by node, store, side, event
    tally: Tally
    absent: list[Gap]  #: extracts without which messages cannot be judged
    cells: Place  #: table of all counts by pair
    limited_pairs: list[PairCount]  #: for pairs with thresholds of their own: counts by scope and verdict
    exceptions: DataFrame
    exception_lines: Place  #: table of the ledger lines of the exceptions
    #: numbers of messages by scope: earlier, later, and none (messages that occur only in notes)
    other_dates: dict[str, int]
    documents: LargeDocuments = field(default_factory=LargeDocuments)
    breaches: list[Breach] = field(default_factory=list)
    plausibility: Plausibility = _PLAUSIBLE

    @property
    def hubs(self) -> frozenset[str]:
        """The addresses of the hub's nodes whose ledgers are used."""
        manifests = (source.manifest for source in self.sources if source.is_used)
        return frozenset(m.node for m in manifests if m is not None and m.role == "platform")

    @property
    def hub(self) -> str:
        """The address of the hub, the first of several; empty if no ledger of a hub is used."""
        return min(self.hubs, default="")

    @property
    def messages(self) -> int:
        return self.tally.messages("date")

    @property
    def pieces(self) -> int:
        return self.tally.pieces("date")

    @property
    def verdicts(self) -> dict[str, int]:
        return self.tally.verdicts("date")

    @property
    def carried(self) -> dict[str, int]:
        return self.tally.verdicts("carried")

    def counts(self) -> list[VerdictCount]:
        """Return the counts for the thresholds: of the date, and exceptions of earlier dates that this run found.

        The ages include carried messages: a limit of three days is about messages that have been open that long.
        """
        rows = self.tally.by_finding
        return [
            VerdictCount("", name, self.tally.figures(name).new, self.messages, self._age_s(rows, name))
            for name in self.verdicts
        ]

    def counts_of(self, pair: str) -> list[VerdictCount]:
        """Return the counts for the thresholds of one pair: of the date only; ages as in ``counts``."""
        rows = [row for row in self.limited_pairs if row.pair == pair]
        of_date = Counter[str]()
        for row in rows:
            of_date[row.verdict] += row.messages if row.scope == "date" else 0
        return [
            VerdictCount(pair, verdict, messages, of_date.total(), self._age_s(rows, verdict))
            for verdict, messages in of_date.items()
        ]

    def _age_s(self, rows: Iterable[FindingCount | PairCount], verdict: str) -> int:
        """Return the age of the oldest message with a verdict; 0 if there is none."""
        times = [row.oldest_at for row in rows if row.verdict == verdict and row.oldest_at is not None]
        return max(self.evidence_until - min(times), 0) // 1000 if times else 0
