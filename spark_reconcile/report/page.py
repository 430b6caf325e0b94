"""The page that an analyst reads: chooses what is shown and hands it to the template; ``page.html`` says how it looks.

Order of the page: is it good, what are the verdicts, who is missing, where (pairs), since when (trend), how old, how
fast, and then every kind of exception with stories and what to do. Runs of equal inputs and history give equal pages.
"""

from datetime import date
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from spark_reconcile.inputs import STATE
from spark_reconcile.judging import AGES, LATENCIES
from spark_reconcile.report import charts
from spark_reconcile.report.exceptions import Written
from spark_reconcile.report.findings import Findings
from spark_reconcile.report.words import CHINESE, duration, event_words, side_word
from spark_reconcile.settings import Settings
from spark_reconcile.verdicts import FINDINGS, VERDICT, VERDICTS

HEAT_NODES = 12
_BANNERS = {
    "implausible": ("✗", "bad", "Not believed"),
    "breached": ("✗", "bad", "A threshold is passed"),
    "partial": ("!", "open", "Published without some sources"),
    "met": ("✓", "fine", "Complete, thresholds met"),
}


def render(
    findings: Findings,
    facts: dict[str, Any],
    written: Written,
    stories: dict[str, list[dict[str, Any]]],
    history: list[tuple[date, dict[str, Any]]],
    settings: Settings,
) -> str:
    """The page as one HTML text without any reference to the outside."""
    banner = _banner(findings)
    page: str = _template().render(
        f=findings,
        facts=facts,
        banner=banner,
        local=findings.calendar.local,
        duration=duration,
        young_ms=settings.in_flight_s * 1000,
        verdicts=_verdicts(findings, settings),
        sources=_sources(findings, settings),
        lines=_lines(findings),
        chinese=CHINESE,
        named=lambda node: _named(settings, node),
        pairs=_pairs(findings, settings),
        trend=_trend(findings, facts, history),
        ages=_ages(findings),
        latency=_latency(findings),
        exceptions=_exceptions(findings, written, stories),
        written=written,
        stories_max=settings.stories_max,
    )
    return page


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("spark_reconcile.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    environment.filters["percent"] = _percent
    return environment.get_template("page.html")


def _percent(part: float, of: float) -> str:
    if not of:
        return ""
    share = 100 * part / of
    return f"{share:.1f} %" if share >= 0.1 or not part else f"{share:.4f} %"


def _banner(findings: Findings) -> dict[str, str]:
    if not findings.plausibility.believed:
        outcome = "implausible"
    elif findings.breaches:
        outcome = "breached"
    else:
        outcome = "partial" if findings.is_partial or findings.verdicts["SOURCE_MISSING"] else "met"
    sign, kind, words = _BANNERS[outcome]
    return {"outcome": outcome, "sign": sign, "kind": kind, "words": words}


def _verdicts(findings: Findings, settings: Settings) -> dict[str, Any]:
    breached = {breach.verdict for breach in findings.breaches if not breach.pair}
    rows: list[dict[str, Any]] = [
        {"verdict": verdict, "messages": findings.verdicts[verdict.name], "carried": findings.carried[verdict.name],
         "breached": verdict.name in breached, "limit": _limit_words(settings, verdict.name)}
        for verdict in VERDICTS
    ]  # fmt: skip
    shown = [
        {"verdict": _both(row["verdict"].name), "messages": row["messages"], "kind": row["verdict"].kind}
        for row in rows
        if row["messages"] and row["verdict"].name != "MATCHED"
    ]
    chart = charts.bars(shown, "verdict", "messages", "Messages by verdict, without MATCHED", kind="kind")
    return {"rows": rows, "chart": chart if shown else None}


def _both(verdict: str) -> str:
    return f"{verdict} {CHINESE[verdict]}"


def _limit_words(settings: Settings, verdict: str) -> str:
    limit = settings.limits.get(verdict)
    if limit is None:
        return ""
    words = []
    if limit.max_count is not None:
        words.append(f"at most {limit.max_count:,}" if limit.max_count else "none")
    if limit.max_rate is not None:
        words.append(f"at most {100 * limit.max_rate:g} %")
    if limit.max_age_s is not None:
        words.append(f"at most {duration(limit.max_age_s * 1000)} old")
    return ", ".join(words)


def _sources(findings: Findings, settings: Settings) -> list[dict[str, Any]]:
    rows = []
    for source in findings.sources:
        if source.day != findings.day and source.is_used:
            continue  # neighbours that are in order are only counted
        m = source.manifest
        skew = findings.skews.get(m.node) if m else None
        rows.append(
            {"source": source, "state": STATE[source.state], "rows": m.rows if m else None,
             "until": findings.calendar.local(m.watermark)[:19] if m else "",
             "name": settings.names.get(m.node, "") if m else "",
             "skew": "the reference" if m and m.role == "platform" else _skew_words(skew),
             "sha": m.files[0].sha256[:12] if m and m.files else "", "signed": bool(m and m.signature)}
        )  # fmt: skip
    return rows


def _skew_words(skew: Any) -> str:
    if skew is None:
        return "not known"
    if abs(skew.ms) < 2000:
        return "right"
    unsteady = " (unsteady)" if skew.agreeing * 2 < skew.of else ""
    return f"{'fast' if skew.ms > 0 else 'slow'} by {duration(abs(skew.ms))}{unsteady}"


def _lines(findings: Findings) -> list[dict[str, Any]]:
    """Lines of the date by side and event, all nodes together."""
    summed: dict[tuple[int, int], int] = {}
    for row in findings.lines:
        key = (row["side"] or 0, row["event"] or 0)
        summed[key] = summed.get(key, 0) + row["lines"]
    return [
        {"side": side_word(side), "event": event_words(side, event), "lines": count}
        for (side, event), count in sorted(summed.items())
    ]


def _named(settings: Settings, node: str) -> str:
    """A node with the name of its institution, where one is configured."""
    return f"{node} {settings.names[node]}" if node in settings.names else node or "?"


def _pairs(findings: Findings, settings: Settings) -> dict[str, Any]:
    nodes: dict[str, int] = {}
    for pair in findings.pairs:
        for node in (pair["sender"], pair["receiver"]):
            nodes[node] = nodes.get(node, 0) + pair["exceptions"]
    shown = set(sorted(nodes, key=lambda node: (-nodes[node], node))[:HEAT_NODES])
    cells = [
        {"sender": _named(settings, pair["sender"]), "receiver": _named(settings, pair["receiver"]),
         "exceptions": pair["exceptions"]}
        for pair in findings.pairs
        if pair["sender"] in shown and pair["receiver"] in shown
    ]  # fmt: skip
    chart = charts.heat(cells, "Exceptions by sender and receiver") if cells else None
    return {"rows": findings.pairs, "chart": chart}


def _trend(
    findings: Findings, facts: dict[str, Any], history: list[tuple[date, dict[str, Any]]]
) -> dict[str, Any] | None:
    days = [*history, (findings.day, facts)]
    if len(days) < 2:
        return None
    wrong = [verdict.name for verdict in VERDICTS if verdict.kind == "exception"]
    seen = [name for name in wrong if any(summary["verdicts"].get(name) for _, summary in days)]
    rows = [
        {"day": day.isoformat(), "messages": summary["messages"],
         "counts": [summary["verdicts"].get(name, 0) for name in seen], "exceptions": summary["exceptions"]}
        for day, summary in days
    ]  # fmt: skip
    volume = charts.columns(
        [{"day": row["day"][5:], "messages": row["messages"]} for row in rows], "day", "messages", "Messages by date"
    )
    series = [
        {"day": row["day"][5:], "verdict": name, "messages": count}
        for row in rows
        for name, count in zip(seen, row["counts"], strict=True)
        if count
    ]
    bad = charts.stacked(series, "day", "messages", "verdict", "Exceptions by date and verdict") if series else None
    return {"rows": rows, "seen": seen, "volume": volume, "bad": bad}


def _ages(findings: Findings) -> dict[str, Any] | None:
    counted = [[0, 0] for _ in AGES]
    for (_, verdict, bucket), count in findings.tally.ages.items():
        kind = VERDICT[verdict].kind
        if kind != "fine":
            counted[bucket][kind == "open"] += count
    if not any(map(sum, counted)):
        return None
    rows = [
        {"age": words, "exceptions": bad, "open": waiting, "messages": bad + waiting}
        for (_, words), (bad, waiting) in zip(AGES, counted, strict=True)
    ]
    return {"rows": rows, "chart": charts.columns(rows, "age", "messages", "Open messages and exceptions by age")}


def _latency(findings: Findings) -> dict[str, Any] | None:
    counted = [findings.tally.latencies.get(bucket, 0) for bucket in range(len(LATENCIES))]
    total = sum(counted)
    if not total:
        return None
    rows, so_far = [], 0
    for (_, words), count in zip(LATENCIES, counted, strict=True):
        so_far += count
        rows.append({"within": words, "messages": count, "so_far": so_far})
    chart = charts.columns(rows, "within", "messages", "Messages by time from acceptance to record")
    return {"rows": rows, "total": total, "chart": chart}


def _exceptions(findings: Findings, written: Written, stories: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Every finding that is an exception: what it means, what to do, and some messages with their story."""
    counts: dict[str, int] = {}
    for row in findings.tally.by_finding:
        counts[row["finding"]] = counts.get(row["finding"], 0) + row["messages"]
    told = []
    for finding, rows in written.sample.items():
        verdict = VERDICT[rows[0]["verdict"]]
        said, _, deed = FINDINGS.get(finding, ("", "", ""))
        messages = [{"row": row, "story": _story(findings, stories.get(row["lk0"], []))} for row in rows]
        told.append({"finding": finding, "verdict": verdict, "said": said, "deed": deed,
                     "count": counts.get(finding, len(rows)), "messages": messages})  # fmt: skip
    return told


def _story(findings: Findings, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "at": findings.calendar.local(line["at"])[:23] if line["at"] is not None else "?",
            "node": line["node"],
            "side": side_word(line["side"]),
            "said": event_words(line["side"], line["event"]),
            "att": line["att"] or "",
            "more": " ".join(filter(None, (line["lk1"] and f"copy {line['lk1']}", line["reason"]))),
        }
        for line in lines
    ]
