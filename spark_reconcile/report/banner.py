"""The banner: how many documents need work, whose it is, and what to do first.

It is followed by missing extracts, and folded, a line for each exceeded threshold, with the responsible party and the
next step, the most urgent verdict first; a threshold of the whole date also has the worst pair.
"""

from collections.abc import Mapping, Sequence

from spark_reconcile.judgement.verdicts import URGENCY, VERDICT
from spark_reconcile.language import _, headline
from spark_reconcile.report.figures import VerdictFigures
from spark_reconcile.report.findings import Findings
from spark_reconcile.report.pairs import Pair, Pairs
from spark_reconcile.report.sections import Shown, breach_words
from spark_reconcile.report.work import PartyWork, gap_facts
from spark_reconcile.run.limits import Breach

ANALYSTS_STEP = "Ask why there are so many of them, or change the threshold."
# Sign, CSS class and heading of each outcome.
OUTCOMES = {
    "implausible": ("✗", "bad", "The volume is implausible"),
    "breached": ("✗", "bad", "Thresholds are exceeded"),
    "partial": ("!", "warn", "Incomplete: sources or runs are missing or late"),
    "met": ("✓", "good", "Complete, thresholds met"),
}


def banner(findings: Findings, pairs: Pairs, rows: Sequence[PartyWork], anchors: Mapping[str, str]) -> Shown:
    """Return the contents of the banner.

    ``rows``: the work of all parties. ``anchors``: by verdict, the anchor of its first exceptions on the page.
    """
    outcome = outcome_of(findings)
    sign, kind, heading = OUTCOMES[outcome]
    figures = findings.tally.figures()
    breaches = sorted(findings.breaches, key=_urgency)
    return {
        "outcome": outcome,
        "sign": sign,
        "kind": kind,
        "headline": headline(figures.date, figures.found + figures.known, findings.messages),
        "heading": _(heading),
        "work": rows,
        "lines": [_breach(breach, findings, pairs, anchors) for breach in breaches],
        "gaps": [gap_facts(gap, findings.day) for gap in findings.absent],
    }


def outcome_of(findings: Findings) -> str:
    """Return the outcome of a published run: a key of OUTCOMES."""
    if not findings.plausibility.believed:
        return "implausible"
    if findings.breaches:
        return "breached"
    is_partial = (
        findings.is_partial or findings.verdicts["SOURCE_MISSING"] or any(gap.is_late for gap in findings.absent)
    )
    return "partial" if is_partial else "met"


def _urgency(breach: Breach) -> tuple[int, bool, int, str, str]:
    return URGENCY.index(breach.verdict), bool(breach.pair), -breach.messages, breach.pair, breach.what


def _breach(breach: Breach, findings: Findings, pairs: Pairs, anchors: Mapping[str, str]) -> Shown:
    verdict = VERDICT[breach.verdict]
    pair_anchors = {pair.name: f"p{number}" for number, pair in enumerate(pairs.shown, 1)}
    pair: Pair | None = next((pair for pair in pairs.shown if pair.name == breach.pair), None)
    worst: Pair | None = None
    worst_figures = VerdictFigures()
    if not breach.pair:
        worst, worst_figures = pairs.worst.get(breach.verdict, (None, worst_figures))
    figures = VerdictFigures(breach.messages) if breach.pair else findings.tally.figures(breach.verdict)
    return {
        "verdict": verdict,
        "anchor": anchors.get(breach.verdict, "verdicts"),
        "words": breach_words(breach, figures),
        "owner": verdict.owner if verdict.kind != "fine" else "analyst",
        "next": verdict.next_step if verdict.kind != "fine" else ANALYSTS_STEP,
        "pair": pair,
        "pair_name": breach.pair,
        "pair_anchor": pair_anchors.get(breach.pair),
        "worst": worst,
        "worst_anchor": worst and pair_anchors.get(worst.name),
        "worst_words": VerdictFigures(worst_figures.date, worst_figures.found).words(),
    }
