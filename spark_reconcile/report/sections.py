"""The parts of the page about the whole date: verdicts, sources, trend, ages and latency."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from spark_reconcile.judgement.assessment import AGES, LATENCIES
from spark_reconcile.judgement.verdicts import EXCEPTIONS, VERDICT, VERDICTS
from spark_reconcile.report import charts
from spark_reconcile.report.figures import VerdictFigures
from spark_reconcile.report.findings import Findings, Tally
from spark_reconcile.report.words import CHINESE, duration, longer, percent_above, span
from spark_reconcile.run.limits import Breach
from spark_reconcile.settings import Limit, ReconcileSettings
from spark_reconcile.sources.clocks import WRONG_FROM_MS, Skew
from spark_reconcile.sources.gaps import Gap
from spark_reconcile.sources.inputs import STATE, Source

History = Sequence[tuple[date, dict[str, Any]]]


def both_names(verdict: str) -> str:
    """Return the name of a verdict in English and Chinese."""
    return f"{verdict} {CHINESE[verdict]}"


def verdicts(findings: Findings, settings: ReconcileSettings) -> dict[str, Any]:
    """Return all verdicts with their counts and thresholds, and the exceptions as bars."""
    breached = {breach.verdict for breach in findings.breaches if not breach.pair}
    rows: list[dict[str, Any]] = [
        {"verdict": verdict, "figures": findings.tally.figures(verdict.name), "breached": verdict.name in breached,
         "limit": limit_words(settings.limits.get(verdict.name))}
        for verdict in VERDICTS
    ]  # fmt: skip
    bars = [
        {"verdict": row["verdict"].name, "called": both_names(row["verdict"].name), "from": name, "messages": count}
        for row in rows
        for name, count in row["figures"].parts
        if row["verdict"].kind == "exception" and row["figures"].all
    ]
    return {"rows": rows, "chart": charts.bars(bars, "Exceptions by verdict") if bars else None}


def limit_words(limit: Limit | None) -> str:
    """Return a threshold in words; empty if there is none."""
    if limit is None:
        return ""
    bounds = (("max_count", limit.max_count), ("max_rate", limit.max_rate), ("max_age_s", limit.max_age_s))
    return ", ".join(_accepted(what, bound) for what, bound in bounds if bound is not None)


def breach_words(breach: Breach, figures: VerdictFigures | None = None) -> str:
    """Return an exceeded threshold in words, with enough digits to distinguish the measured from the accepted value.

    ``figures``: figures of the breached verdict. None: count all messages of the breach as messages of the date.
    """
    figures = figures or VerdictFigures(breach.messages)
    new = VerdictFigures(figures.date, figures.found).words()
    if breach.what == "max_count":
        measured = new
    elif breach.what == "max_rate":
        measured = f"{percent_above(breach.found, breach.accepted)} of {breach.of:,} messages ({new})"
    else:
        measured = f"the oldest is {longer(int(breach.found) * 1000, int(breach.accepted) * 1000)} old"
    return f"{measured}; accepted: {_accepted(breach.what, breach.accepted)}"


def _accepted(what: str, value: float) -> str:
    if what == "max_count":
        return f"at most {value:,.0f}" if value else "none"
    return f"at most {100 * value:.12g} %" if what == "max_rate" else f"at most {duration(int(value) * 1000, 4)} old"


def sources(findings: Findings, settings: ReconcileSettings) -> dict[str, list[dict[str, Any]]]:
    """Return the ledgers that need attention, and those that are in order."""
    trouble: list[dict[str, Any]] = []
    fine: list[dict[str, Any]] = []
    unjudged = {(gap.name, gap.day): gap for gap in findings.absent}
    for source in findings.sources:
        has_unjudged = (source.source, source.day) in unjudged
        if source.day != findings.day and source.is_used and not has_unjudged:
            continue  # extracts of neighbouring dates are shown only if something is wrong with them
        row = _source(findings, source, settings)
        row["unjudged"] = unjudged.pop((source.source, source.day)).messages if has_unjudged else 0
        has_note = bool(row["note"] if findings.is_partial else source.note)
        is_fine = source.is_used and not row["is_clock_wrong"] and not has_note and not has_unjudged
        (fine if is_fine else trouble).append(row)
    trouble += [{**_source(findings, _absent(gap), settings), "unjudged": gap.messages} for gap in unjudged.values()]
    return {"trouble": sorted(trouble, key=lambda row: -row["unjudged"]), "fine": fine}


def _absent(gap: Gap) -> Source:
    return Source(gap.day, gap.name, "LATE" if gap.is_late else "MISSING")


def _source(findings: Findings, source: Source, settings: ReconcileSettings) -> dict[str, Any]:
    m, node = source.manifest, source.node
    skew = findings.skews.get(node)
    is_hub = m is not None and m.role == "platform"
    return {
        "name": source.source,
        "called": settings.names.get(node, ""),
        "day": source.day,
        "state": STATE[source.state],
        "note": source.note or ("it was made before the date was over" if m and m.watermark < m.window_end else ""),
        "rows": m.rows if m else None,
        "until": m.watermark if m else None,
        "clock": "" if m is None else "the reference" if is_hub else _clock_words(skew),
        "is_clock_wrong": m is not None and not is_hub and skew is not None and abs(skew.ms) >= WRONG_FROM_MS,
        "sha": m.files[0].sha256[:12] if m and m.files else "",
        "signed": bool(m and m.signature),
        "unjudged": 0,
    }


def _clock_words(skew: Skew | None) -> str:
    if skew is None:
        return "not known"
    if not skew.is_known_to_differ:
        return f"right to within {span(skew.within_ms)}"
    unsteady = " (unsteady)" if skew.agreeing * 2 < skew.of else ""
    return f"{'fast' if skew.ms > 0 else 'slow'} by {span(abs(skew.ms))} ± {span(skew.within_ms)}{unsteady}"


def precision(findings: Findings) -> dict[str, Any]:
    """Return the precision of latencies: the largest uncertainty of a clock, and the number of unknown clocks."""
    worst = max((skew.within_ms for skew in findings.skews.values()), default=None)
    nodes = {source.node for source in findings.sources if source.is_used} - findings.hubs
    return {"worst": None if worst is None else span(worst), "unknown": len(nodes - findings.skews.keys())}


def trend(findings: Findings, facts: dict[str, Any], history: History) -> dict[str, Any] | None:
    """Return messages and verdicts of earlier dates and of this one; None if no earlier date was published."""
    days = [*history, (findings.day, facts)]
    if len(days) < 2:
        return None
    occurring = [name for name in EXCEPTIONS if any(summary["verdicts"].get(name) for _, summary in days)]
    shown = ["MATCHED", *occurring]
    if any(summary["verdicts"].get("SOURCE_MISSING") for _, summary in days):
        shown.append("SOURCE_MISSING")
    volume = [{"day": day.isoformat()[5:], "messages": summary["messages"]} for day, summary in days]
    series = [
        {"day": day.isoformat()[5:], "verdict": name, "rank": rank, "messages": summary["verdicts"].get(name, 0)}
        for day, summary in days
        for rank, name in enumerate(occurring)
        if summary["verdicts"].get(name) or rank == 0  # a date without exceptions keeps its place
    ]
    exceptions_chart = charts.stacked(series, occurring, "Exceptions by business date and verdict") if series else None
    return {
        "shown": shown,
        "rows": [
            {"day": day, "messages": summary["messages"], "exceptions": summary["exceptions"],
             "counts": [summary["verdicts"].get(name, 0) for name in shown]}
            for day, summary in days
        ],
        "messages_chart": charts.columns(volume, "day", "messages", "Messages by business date"),
        "exceptions_chart": exceptions_chart,
    }  # fmt: skip


def ages(tally: Tally) -> list[dict[str, Any]]:
    """Return exceptions and open messages by age, including those of earlier dates; empty if there are none."""
    rows: list[dict[str, Any]] = [{"age": label, "exceptions": 0, "open": 0, "messages": 0} for _, label in AGES]
    columns = {"exception": "exceptions", "open": "open"}
    for (_, verdict, bucket), count in tally.ages.items():
        kind = VERDICT[verdict].kind
        if kind in columns:
            rows[bucket][columns[kind]] += count
            rows[bucket]["messages"] += count
    return rows if any(row["messages"] for row in rows) else []


def latency(tally: Tally) -> list[dict[str, Any]]:
    """Return the messages of the date by time from acceptance to record; empty if none was recorded."""
    counts = [tally.latencies.get(bucket, 0) for bucket in range(len(LATENCIES))]
    total, so_far, rows = sum(counts), 0, []
    for (_, label), count in zip(LATENCIES, counts, strict=True):
        so_far += count
        rows.append({"within": label, "messages": count, "so_far": so_far, "total": total})
    return rows if total else []
