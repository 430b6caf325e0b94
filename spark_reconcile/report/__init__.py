"""The report of a run: one page for people, a file for spreadsheets, and summary and metrics for programs.

``job`` calls ``write_report`` once all tables of a run are written. The page needs no network and no script; all its
numbers are also in summary.json.
"""

from datetime import date
from typing import Any

from semq.clock import Clock
from spark_reconcile import stages
from spark_reconcile.manifest import canonical
from spark_reconcile.report.exceptions import write_csv
from spark_reconcile.report.findings import Findings
from spark_reconcile.report.metrics import metrics
from spark_reconcile.report.page import render
from spark_reconcile.report.summary import summary
from spark_reconcile.runs import SUMMARY
from spark_reconcile.settings import Settings
from spark_reconcile.storage import Place

TREND_DAYS = 14


def write_report(
    findings: Findings,
    place: Place,
    settings: Settings,
    history: list[tuple[date, dict[str, Any]]],
    clock: Clock,
    begun: float,
) -> None:
    """Write exceptions.csv, report.html, summary.json and metrics.prom into a run folder."""
    written = write_csv(
        place / "exceptions.parquet",
        place / "exceptions.csv",
        settings.calendar,
        settings.csv_rows_max,
        settings.stories_max,
    )
    sampled = [row["lk0"] for rows in written.sample.values() for row in rows]
    told = stages.stories(findings.their_lines, sampled)
    facts = summary(findings)
    (place / "report.html").write(render(findings, facts, written, told, history[-TREND_DAYS:], settings).encode())
    (place / SUMMARY).write(canonical(facts))
    seconds = clock.monotonic() - begun
    (place / "metrics.prom").write(metrics(findings, clock.wall().timestamp(), seconds).encode())
