"""The report of a run: one page for people, files for spreadsheets, and summary and metrics for programs.

The page needs no network and no script. Most of its numbers are also in summary.json.

| module     | subject                                                             |
|------------|---------------------------------------------------------------------|
| findings   | the counts of a run                                                 |
| figures    | the three numbers of a verdict                                      |
| page       | the page; its parts are in the modules and templates below          |
| banner     | the result and the first steps                                      |
| work       | whose work the exceptions are, and what to do                       |
| sections   | the parts about the whole date                                      |
| exceptions | exceptions.csv, and the choice of exceptions for the page           |
| stories    | the exceptions on the page, with their ledger lines                 |
| order      | the order of these lines                                            |
| steps      | next steps: node and command                                        |
| partners   | pages that can be sent to partners                                  |
| pairs      | pairs.csv, and the pairs on the page                                |
| drill      | the details of each pair                                            |
| labels     | headings of columns beside the cells, for narrow screens            |
| words      | texts for events, states, ages and shares                           |
| summary    | summary.json                                                        |
| metrics    | metrics.prom                                                        |
| sheets     | files for spreadsheets                                              |
"""

import json
from datetime import date

from semq.clock import Clock
from semq.translations import CHOICES
from spark_reconcile.extracts.manifest import canonical
from spark_reconcile.language import report_name
from spark_reconcile.repair.repair_list import INDEX
from spark_reconcile.report.drill import worst_nodes
from spark_reconcile.report.exceptions import write_exceptions
from spark_reconcile.report.findings import Findings, tally
from spark_reconcile.report.metrics import metrics
from spark_reconcile.report.page import PageContent, render
from spark_reconcile.report.pairs import Pairs, date_counts, write_pairs
from spark_reconcile.report.partners import FOLDER as PARTNERS
from spark_reconcile.report.partners import write_partners
from spark_reconcile.report.summary import summary
from spark_reconcile.report.words import pair_name
from spark_reconcile.report.work import work
from spark_reconcile.run import readings, runs
from spark_reconcile.run.runs import SUMMARY, History
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place
from spark_reconcile.tables import Row

PAIR_DAYS = 14  # dates of the details of a pair
PAIRS = "pairs.parquet"
_INDEX_MAX = 64 << 20


def write_report(
    findings: Findings,
    place: Place,
    settings: ReconcileSettings,
    history: History,
    clock: Clock,
    begun: float,
) -> None:
    """Write pairs.csv, exceptions.csv, report.html, summary.json and metrics.prom into the run folder ``place``.

    ``history``: summaries of earlier dates, oldest first. ``begun``: start of the run by the monotonic clock.
    """
    pairs = _pairs(findings, place, settings, [day for day, _ in history[-PAIR_DAYS:]])
    exceptions = write_exceptions(
        place / "exceptions.parquet",
        place / "exceptions.csv",
        settings,
        findings.day.isoformat(),
        findings.hub,
        [pair.name for pair in pairs.shown],
    )
    lines = readings.stories(findings.exception_lines, [row["lk0"] for row in exceptions.sample])
    rows = work(readings.exceptions_by_pair(findings.cells), findings)
    facts = summary(findings, pairs, exceptions, rows, settings.contacts)
    content = PageContent(findings, pairs, exceptions, lines, history, _deeds(place), rows)
    for language in CHOICES:
        (place / report_name(language)).write(render(content, settings, language).encode())
    write_partners(place / "exceptions.parquet", place / PARTNERS, findings, settings)
    (place / SUMMARY).write(canonical(facts))
    seconds = clock.monotonic() - begun
    (place / runs.METRICS).write(metrics(findings, clock.wall().timestamp(), seconds, rows).encode())


def _pairs(findings: Findings, place: Place, settings: ReconcileSettings, days: list[date]) -> Pairs:
    sheet, shown, worst, institutions = write_pairs(place / PAIRS, place / "pairs.csv", settings, findings.breaches)
    names = [pair.name for pair in shown]
    cells: dict[str, list[Row]] = {name: [] for name in names}
    for cell in readings.drill(findings.cells, names):
        cells[pair_name(cell["sender"], cell["receiver"])].append(cell)
    nodes = worst_nodes(shown)
    reports = Place.at(settings.reports)
    published = [(day, run) for day in days if (run := runs.current(reports, day))]
    return Pairs(
        sheet,
        shown,
        worst,
        tallies={name: tally(rows) for name, rows in cells.items()},
        matrix=date_counts(place / PAIRS, {pair_name(sender, receiver) for sender in nodes for receiver in nodes}),
        past=[(day, date_counts(run.place / PAIRS, names)) for day, run in published],
        institutions=institutions,
    )


def _deeds(place: Place) -> dict[str, int]:
    index = place / "repair" / INDEX
    if not index.exists():
        return {}
    nodes = json.loads(index.read(_INDEX_MAX))["nodes"]
    return {node: int(entry["rows"]) for node, entry in nodes.items()}
