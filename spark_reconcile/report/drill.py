"""Details of each pair: its verdicts, thresholds, ages, latencies, days and exceptions; and the matrix of the worst
nodes.
"""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from spark_reconcile.judgement.verdicts import VERDICTS
from spark_reconcile.report.findings import Findings
from spark_reconcile.report.pairs import DateCount, Pair, Pairs
from spark_reconcile.report.sections import Shown, ages, breach_words, latency, limit_words
from spark_reconcile.report.stories import FindingText, MessageText
from spark_reconcile.report.words import pair_name
from spark_reconcile.settings import ReconcileSettings

MATRIX_NODES = 12


def pair_details(
    findings: Findings, pairs: Pairs, groups: Sequence[FindingText], settings: ReconcileSettings
) -> list[Shown]:
    """Return the details of every shown pair, the worst first. ``groups``: the exceptions on the page, by finding."""
    by_pair: dict[str, list[tuple[FindingText, MessageText]]] = {}
    for group in groups:
        for message in group.messages:
            name = pair_name(message.row["sender"], message.row["receiver"])
            by_pair.setdefault(name, []).append((group, message))
    return [
        {
            "anchor": f"p{number}",
            "pair": pair,
            "has_limits": pair.name in settings.pair_thresholds,
            "verdicts": _verdicts(pair, pairs, findings, settings),
            "ages": ages(pairs.tallies[pair.name]),
            "latency": latency(pairs.tallies[pair.name]),
            "past": _past(pair, pairs, findings.day),
            "messages": by_pair.get(pair.name, []),
            "breaches": [(b.verdict, breach_words(b)) for b in findings.breaches if b.pair == pair.name],
            "is_fine": not pair.figures().all and not any(b.pair == pair.name for b in findings.breaches),
        }
        for number, pair in enumerate(pairs.shown, 1)
    ]


def _verdicts(pair: Pair, pairs: Pairs, findings: Findings, settings: ReconcileSettings) -> list[Shown]:
    limits = settings.pair_thresholds.get(pair.name, {})
    exceeded = {breach.verdict for breach in findings.breaches if breach.pair == pair.name}
    oldest: dict[str, int] = {}
    for row in pairs.tallies[pair.name].by_finding:
        if row.oldest_at is not None:
            oldest[row.verdict] = min(row.oldest_at, oldest.get(row.verdict, row.oldest_at))
    return [
        {"verdict": verdict, "figures": pair.figures(verdict.name),
         "limit": limit_words(limits.get(verdict.name)), "breached": verdict.name in exceeded,
         "oldest_at": None if verdict.kind == "fine" else oldest.get(verdict.name)}
        for verdict in VERDICTS
        if pair.of_date[verdict.name] or pair.carried[verdict.name] or verdict.name in limits
    ]  # fmt: skip


def _past(pair: Pair, pairs: Pairs, day: date) -> list[tuple[date, DateCount]]:
    before = [(earlier, counts.get(pair.name, DateCount())) for earlier, counts in pairs.past]
    today = DateCount(pair.messages, pair.exceptions, pair.carried_exceptions)
    return [*before, (day, today)] if before else []


def worst_nodes(shown: Sequence[Pair]) -> list[str]:
    """Return the nodes with the most exceptions in these pairs, at most MATRIX_NODES."""
    exceptions: dict[str, int] = {}
    for pair in shown:
        for node in (pair.sender, pair.receiver):
            exceptions[node] = exceptions.get(node, 0) + pair.exceptions + pair.carried_exceptions
    return sorted(exceptions, key=lambda node: (-exceptions[node], node))[:MATRIX_NODES]


class Matrix(NamedTuple):
    """The exceptions by sender (rows) and receiver (columns)."""

    nodes: list[str]
    rows: list[tuple[str, list[Shown]]]
    has_all_nodes: bool
    has_exceptions: bool


def matrix(pairs: Pairs) -> Matrix:
    """Return the exceptions by sender and receiver, with those of earlier dates, as rows of shaded cells."""
    anchors = {pair.name: f"p{number}" for number, pair in enumerate(pairs.shown, 1)}
    nodes = sorted(worst_nodes(pairs.shown))
    most = max((counts.exceptions + counts.carried_exceptions for counts in pairs.matrix.values()), default=0)

    def cell(sender: str, receiver: str) -> Shown:
        name = pair_name(sender, receiver)
        counts = pairs.matrix.get(name)
        exceptions = counts.exceptions + counts.carried_exceptions if counts else 0
        # The smallest number has a visible shade.
        shade = 0.12 + 0.5 * exceptions / most if exceptions else 0
        return {
            "count": exceptions, "is_known": counts is not None, "shade": f"{shade:.2f}", "anchor": anchors.get(name)
        }  # fmt: skip

    rows = [(sender, [cell(sender, receiver) for receiver in nodes]) for sender in nodes]
    return Matrix(nodes, rows, has_all_nodes=len(nodes) == pairs.institutions, has_exceptions=most > 0)
