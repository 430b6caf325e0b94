"""The parts of the page about the whole date: verdicts, sources, trend, ages and latency."""

from collections import Counter
from datetime import timedelta
from typing import NamedTuple

from semq.durations import classes, duration, longer
from spark_reconcile.judgement.assessment import AGES, LATENCIES
from spark_reconcile.judgement.verdicts import EXCEPTIONS, VERDICT, VERDICTS
from spark_reconcile.language import _
from spark_reconcile.report.figures import VerdictFigures
from spark_reconcile.report.findings import Findings, Tally
from spark_reconcile.report.words import off_by, percent_above
from spark_reconcile.run.limits import Breach
from spark_reconcile.run.runs import Facts, History
from spark_reconcile.settings import Limit, ReconcileSettings
from spark_reconcile.sources.clocks import WRONG_FROM_MS, Skew
from spark_reconcile.sources.gaps import Gap
from spark_reconcile.sources.inputs import STATE, Source, State

TREND_DAYS = 30
CHART_REM = 6  # height of the highest bar of the trend
KINDS = ("exception", "open", "fine")  # kinds of verdicts in the order of the page
Shown = dict[str, object]  #: contents of a table or a part, by the names in its template


def verdicts(findings: Findings, settings: ReconcileSettings) -> list[Shown]:
    """Return all verdicts with their counts and thresholds, exceptions first."""
    breached = {breach.verdict for breach in findings.breaches if not breach.pair}
    return [
        {"verdict": verdict, "figures": findings.tally.figures(verdict.name), "breached": verdict.name in breached,
         "limit": limit_words(settings.limits.get(verdict.name))}
        for verdict in sorted(VERDICTS, key=lambda verdict: KINDS.index(verdict.kind))
    ]  # fmt: skip


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
        share = percent_above(breach.found, breach.accepted)
        measured = _("%(share)s of %(of)s documents (%(new)s)") % {"share": share, "of": f"{breach.of:,}", "new": new}
    else:
        age = longer(int(breach.found), int(breach.accepted))
        measured = _("the oldest is %(age)s old") % {"age": age}
    return measured + _("; allowed: %(limit)s") % {"limit": _accepted(breach.what, breach.accepted)}


def _accepted(what: str, value: float) -> str:
    if what == "max_count":
        return _("at most %(value)s") % {"value": f"{value:,.0f}"} if value else _("none")
    if what == "max_rate":
        return _("at most %(value)s") % {"value": f"{100 * value:.12g} %"}
    return _("at most %(value)s old") % {"value": duration(int(value), 4)}


class SourceText(NamedTuple):
    """A ledger in words."""

    of: Source
    called: str  #: the name of its institution
    state: State
    note: str
    clock: str
    is_clock_wrong: bool
    unjudged: int  #: messages that cannot be judged without it


def sources(findings: Findings, settings: ReconcileSettings) -> dict[str, list[SourceText]]:
    """Return the ledgers that need attention, and those that are in order."""
    trouble: list[SourceText] = []
    fine: list[SourceText] = []
    unjudged = {(gap.name, gap.day): gap for gap in findings.absent}
    for source in findings.sources:
        has_unjudged = (source.source, source.day) in unjudged
        if source.day != findings.day and source.is_used and not has_unjudged:
            continue  # extracts of neighbouring dates are shown only if something is wrong with them
        missed = unjudged.pop((source.source, source.day)).messages if has_unjudged else 0
        row = _source(findings, source, settings, missed)
        has_note = bool(row.note if findings.is_partial else source.note)
        is_fine = source.is_used and not row.is_clock_wrong and not has_note and not has_unjudged
        (fine if is_fine else trouble).append(row)
    trouble += [_source(findings, _absent(gap), settings, gap.messages) for gap in unjudged.values()]
    return {"trouble": sorted(trouble, key=lambda row: -row.unjudged), "fine": fine}


def _absent(gap: Gap) -> Source:
    return Source(gap.day, gap.name, "LATE" if gap.is_late else "MISSING")


def _source(findings: Findings, source: Source, settings: ReconcileSettings, unjudged: int) -> SourceText:
    m, node = source.manifest, source.node
    skew = findings.skews.get(node)
    is_hub = m is not None and m.role == "platform"
    return SourceText(
        source,
        settings.names.get(node, ""),
        STATE[source.state],
        source.note or (_("it was made before the date was over") if m and m.watermark < m.window_end else ""),
        "" if m is None else _("the reference") if is_hub else _clock_words(skew),
        m is not None and not is_hub and skew is not None and abs(skew.ms) >= WRONG_FROM_MS,
        unjudged,
    )


def _clock_words(skew: Skew | None) -> str:
    if skew is None:
        return _("not known")
    if not skew.is_known_to_differ:
        return _("right to within %(time)s") % {"time": duration(skew.within_ms / 1000)}
    unsteady = _(" (unsteady)") if skew.agreeing * 2 < skew.of else ""
    return f"{off_by(skew.ms)} ± {duration(skew.within_ms / 1000)}{unsteady}"


def precision(findings: Findings) -> Shown:
    """Return the precision of latencies: the largest uncertainty of a clock, and the number of unknown clocks."""
    worst = max((skew.within_ms for skew in findings.skews.values()), default=None)
    nodes = {source.node for source in findings.sources if source.is_used} - findings.hubs
    return {"worst": None if worst is None else duration(worst / 1000), "unknown": len(nodes - findings.skews.keys())}


def trend(findings: Findings, history: History) -> Shown | None:
    """Return messages and verdicts of earlier dates and of this one; None if no earlier date was published.

    ``chart``: a bar for each of the last TREND_DAYS dates, also for those without a run.
    """
    if not history:
        return None
    exceptions_now = findings.tally.figures().date
    facts: Facts = {"messages": findings.messages, "exceptions": exceptions_now, "verdicts": findings.verdicts}
    days = [*history, (findings.day, facts)]
    shown = ["MATCHED"]
    shown += [name for name in (*EXCEPTIONS, "SOURCE_MISSING") if any(all_[1]["verdicts"].get(name) for all_ in days)]
    exceptions = {day: int(summary["exceptions"]) for day, summary in days}
    most = max(exceptions.values()) or 1
    dates = [findings.day - timedelta(days=back) for back in reversed(range(TREND_DAYS))]
    return {
        "shown": shown,
        "rows": [
            {"day": day, "messages": summary["messages"], "exceptions": summary["exceptions"],
             "counts": [summary["verdicts"].get(name, 0) for name in shown]}
            for day, summary in days
        ],
        "chart": [
            {"label": f"{day:%m-%d}" if day.day == 1 or day in (dates[0], dates[-1]) else "", "day": day,
             "exceptions": exceptions.get(day), "height": f"{CHART_REM * exceptions.get(day, 0) / most:.2f}"}
            for day in dates
        ],
    }  # fmt: skip


def ages(tally: Tally) -> list[Shown]:
    """Return exceptions and open messages by age, including those of earlier dates; empty if there are none."""
    counts = Counter[tuple[str, int]]()
    for (_scope, verdict, bucket), count in tally.ages.items():
        counts[VERDICT[verdict].kind, bucket] += count
    rows: list[Shown] = []
    for bucket, label in enumerate(classes(AGES)):
        exceptions, open_ = counts["exception", bucket], counts["open", bucket]
        rows.append({"age": label, "exceptions": exceptions, "open": open_, "messages": exceptions + open_})
    return rows if any(row["messages"] for row in rows) else []


def latency(tally: Tally) -> list[Shown]:
    """Return the messages of the date by time from acceptance to record; empty if none was recorded."""
    counts = [tally.latencies.get(bucket, 0) for bucket in range(len(LATENCIES) + 1)]
    total, so_far, rows = sum(counts), 0, []
    for label, count in zip(classes(LATENCIES), counts, strict=True):
        so_far += count
        rows.append({"within": label, "messages": count, "so_far": so_far, "total": total})
    return rows if total else []
