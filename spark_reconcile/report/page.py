"""The page for analysts: ``render`` selects the contents and passes them to the templates, which have the layout.

Runs of equal inputs and history give equal pages. The templates escape texts of ledgers and names.
"""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from jinja2.ext import Extension

from semq.foreign_text import in_page
from semq.translations import ENGLISH, thousands, used
from spark_reconcile.days import Calendar
from spark_reconcile.judgement.verdicts import VERDICT
from spark_reconcile.language import LANGUAGES
from spark_reconcile.report import drill, sections, stories
from spark_reconcile.report.banner import banner
from spark_reconcile.report.exceptions import Exceptions
from spark_reconcile.report.findings import Findings
from spark_reconcile.report.labels import labelled
from spark_reconcile.report.pairs import Pairs
from spark_reconcile.report.words import age, event_words, percent, side_word
from spark_reconcile.report.work import PartyWork
from spark_reconcile.run.runs import History
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.tables import Row

BREACHES_SHOWN = 30
DOCUMENTS_SHOWN = 20  # documents in pieces that are not MATCHED
NODES_SHOWN = 30  # repair lists, the longest first
SOURCES_SHOWN = 300  # rows of each of the two tables of ledgers
WORK_FIRST, GAPS_FIRST = 5, 2  # rows of work and missing extracts that are not folded
WORK_SHOWN, ABSENT_SHOWN = 60, 30  # rows of work and missing extracts in all, those with the most messages first


class PageContent(NamedTuple):
    """The contents of a page."""

    findings: Findings
    pairs: Pairs
    exceptions: Exceptions
    lines: Mapping[str, list[Row]]  #: ledger lines by LK0
    history: History
    repair: Mapping[str, int]  #: number of deeds by node
    work: list[PartyWork]


def render(content: PageContent, settings: ReconcileSettings, language: str = ENGLISH) -> str:
    """Return the page in a language, as one HTML text that refers to no other file or server."""
    with used(language):
        return _render(content, settings, language)


def _render(content: PageContent, settings: ReconcileSettings, language: str) -> str:
    f = content.findings
    groups = stories.by_finding(f, content.exceptions.sample, content.lines, content.pairs)
    anchors = {group.verdict.name: f"f-{group.finding}" for group in reversed(groups)}
    page = template(f.calendar, language).render(
        f=f,
        language=language,
        banner=banner(f, content.pairs, content.work, anchors),
        anchors=anchors,
        verdict_of=VERDICT,
        contacts=settings.contacts,
        work_first=WORK_FIRST,
        work_shown=WORK_SHOWN,
        gaps_first=GAPS_FIRST,
        breaches_shown=BREACHES_SHOWN,
        documents_shown=DOCUMENTS_SHOWN,
        age=age,
        young_ms=settings.in_flight_s * 1000,
        verdicts=sections.verdicts(f, settings),
        sources=sections.sources(f, settings),
        sources_shown=SOURCES_SHOWN,
        absent_shown=ABSENT_SHOWN,
        lines=_lines(f),
        names=settings.names,
        pairs=content.pairs,
        matrix=drill.matrix(content.pairs),
        drill=drill.pair_details(f, content.pairs, groups, settings),
        trend=sections.trend(f, content.history),
        ages=sections.ages(f.tally),
        latency=sections.latency(f.tally),
        groups=groups,
        precision=sections.precision(f),
        sheet=content.exceptions.sheet,
        stories_max=settings.stories_max,
        repair=sorted(content.repair.items(), key=lambda entry: (-entry[1], entry[0])),
        nodes_shown=NODES_SHOWN,
        hub=f.hub,
    )
    return labelled(in_page(page))


class FullWidthMarks(Extension):
    """Punctuation of the templates as Chinese writes it: full width, without a space."""

    # after an expression, a statement or an element; between the entries of a list
    marks = str.maketrans({",": "，", ";": "；", ":": "：", ".": "。"})
    after = re.compile(r"(?:(?<=[%}]\})|(?<=</code>)|(?<=</a>))([,;:.]) ?(?=[\s<{]|$)", re.MULTILINE)
    between = re.compile(r'(?<=")([,;.]) (?=" )')

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Return the source of a template with these marks."""
        for marks in (self.after, self.between):
            source = marks.sub(lambda found: found[1].translate(self.marks), source)
        return source


@cache
def template(calendar: Calendar, language: str, name: str = "page.html") -> Template:
    """Return a template for a language; times are written in the zone of the calendar."""
    environment = Environment(
        # Packages, not folders: a cluster may have them as a zip. The second one has look.css.
        loader=ChoiceLoader([PackageLoader("spark_reconcile.report", "."), PackageLoader("semq", ".")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n", *([FullWidthMarks] if language == "zh" else ())],
    )
    environment.policies["ext.i18n.trimmed"] = True  # a text of several lines is one of the translations, too
    environment.install_gettext_callables(LANGUAGES.gettext, LANGUAGES.ngettext, newstyle=True)  # type: ignore[attr-defined]
    environment.filters["thousands"] = thousands
    environment.filters["at_least_0"] = lambda number: max(number, 0)
    environment.filters["percent"] = percent
    environment.filters["seconds"] = lambda at: f"{calendar.local(at)[:19]} {calendar.local(at)[23:]}"
    environment.filters["minutes"] = lambda at: f"{calendar.local(at)[:16]} {calendar.local(at)[23:]}"
    return environment.get_template(name)


def _lines(findings: Findings) -> list[sections.Shown]:
    sums = Counter[tuple[int, int]]()
    for row in findings.lines:
        sums[row.side or 0, row.event or 0] += row.lines
    return [
        {"side": side_word(side), "event": event_words(side, event), "lines": count}
        for (side, event), count in sorted(sums.items())
    ]
