"""The page for analysts: ``render`` selects the contents and passes them to the templates, which have the layout.

Runs of equal inputs and history give equal pages. The templates escape texts of ledgers and names.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from semq.foreign_text import in_page
from spark_reconcile.days import Calendar
from spark_reconcile.report import charts, drill, sections, stories
from spark_reconcile.report.banner import banner
from spark_reconcile.report.exceptions import Exceptions
from spark_reconcile.report.findings import Findings
from spark_reconcile.report.labels import labelled
from spark_reconcile.report.pairs import Pairs
from spark_reconcile.report.words import CHINESE, duration, event_words, percent, side_word
from spark_reconcile.settings import ReconcileSettings

BREACHES_SHOWN = 30
DOCUMENTS_SHOWN = 20  # documents in pieces that are not MATCHED
NODES_SHOWN = 30  # repair lists, the longest first
SOURCES_SHOWN = 300  # rows of each of the two tables of ledgers
SOURCES_OPEN = 12  # complete ledgers shown without unfolding
ABSENT_SHOWN = 30  # missing extracts in the banner, the most messages first


class PageContent(NamedTuple):
    """The contents of a page."""

    findings: Findings
    facts: dict[str, Any]  #: summary.json
    pairs: Pairs
    exceptions: Exceptions
    lines: Mapping[str, list[dict[str, Any]]]  #: ledger lines by LK0
    history: sections.History
    repair: Mapping[str, int]  #: number of deeds by node


def render(content: PageContent, settings: ReconcileSettings) -> str:
    """Return the page as one HTML text that refers to no other file or server."""
    f = content.findings
    groups = stories.by_finding(f, content.exceptions.sample, content.lines, content.pairs)
    by_verdict = {group["verdict"].name: group for group in reversed(groups)}
    ages, latency = sections.ages(f.tally), sections.latency(f.tally)
    page: str = _template(f.calendar).render(
        f=f,
        facts=content.facts,
        banner=banner(f, content.pairs, {name: f"f-{group['finding']}" for name, group in by_verdict.items()}),
        breaches_shown=BREACHES_SHOWN,
        documents_shown=DOCUMENTS_SHOWN,
        duration=duration,
        young_ms=settings.in_flight_s * 1000,
        verdicts=sections.verdicts(f, settings),
        sources=sections.sources(f, settings),
        sources_open=SOURCES_OPEN,
        sources_shown=SOURCES_SHOWN,
        absent_shown=ABSENT_SHOWN,
        lines=_lines(f),
        chinese=CHINESE,
        names=settings.names,
        pairs=content.pairs,
        matrix=drill.matrix(content.pairs),
        drill=drill.pair_details(f, content.pairs, groups, settings),
        trend=sections.trend(f, content.facts, content.history),
        ages=ages,
        ages_chart=charts.columns(ages, "age", "exceptions", "Exceptions by age") if ages else None,
        latency=latency,
        latency_chart=_latency_chart(latency) if latency else None,
        groups=groups,
        by_verdict=by_verdict,
        opened=next((message["anchor"] for group in groups for message in group["messages"] if message["story"]), ""),
        precision=sections.precision(f),
        sheet=content.exceptions.sheet,
        stories_max=settings.stories_max,
        repair=sorted(content.repair.items(), key=lambda entry: (-entry[1], entry[0])),
        nodes_shown=NODES_SHOWN,
        hub=f.hub,
    )
    return labelled(in_page(page))


@cache
def _template(calendar: Calendar) -> Any:
    environment = Environment(
        loader=PackageLoader("spark_reconcile.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    environment.filters["counted"] = lambda number, noun: f"{number:,} {noun}{'' if number == 1 else 's'}"
    environment.filters["percent"] = percent
    environment.filters["seconds"] = lambda at: f"{calendar.local(at)[:19]} {calendar.local(at)[23:]}"
    environment.filters["minutes"] = lambda at: f"{calendar.local(at)[:16]} {calendar.local(at)[23:]}"
    return environment.get_template("page.html")


def _latency_chart(rows: list[dict[str, Any]]) -> Any:
    return charts.columns(rows, "within", "messages", "Messages by time from acceptance to record")


def _lines(findings: Findings) -> list[dict[str, Any]]:
    sums: dict[tuple[int, int], int] = {}
    for row in findings.lines:
        key = (row["side"] or 0, row["event"] or 0)
        sums[key] = sums.get(key, 0) + row["lines"]
    return [
        {"side": side_word(side), "event": event_words(side, event), "lines": count}
        for (side, event), count in sorted(sums.items())
    ]
