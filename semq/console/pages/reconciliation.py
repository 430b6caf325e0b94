"""The pages of the reconciliation: dates with their runs and trend; one run with verdicts, pairs and exceptions."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from starlette.responses import Response

from semq.console import runs
from semq.console.display import href, show, translator
from semq.console.runs import RunFolder
from semq.console.words import FILES, OUTCOMES
from semq.durations import duration
from semq.web.errors import NoSuchPage
from semq.web.pages.visit import Visit, page
from spark_reconcile.judgement.verdicts import VERDICT, next_step
from spark_reconcile.language import headline

DATES_MAX, TREND_MAX, PAIRS_MAX = 60, 30, 200  # dates of the table and of the chart; pairs of a run
EXCEPTIONS_MAX, WORK_MAX = 50, 60  # on a page
CHART_WIDTH, CHART_HEIGHT = 640, 120  # in units of the picture


async def reconciliation(visit: Visit) -> Response:
    """Show the dates, each with its current or newest run if it has one, and the trend."""
    folder = runs.reports_folder(visit.web.settings)
    if folder is None:
        return show(visit, "reconciliation.html", rows=None, bars=[], folder="")
    rows = await asyncio.to_thread(_dates, folder)
    trend = await asyncio.to_thread(runs.trend, folder, TREND_MAX)
    return show(visit, "reconciliation.html", rows=rows, words=OUTCOMES, bars=_bars(trend), folder=str(folder))


def _dates(folder: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for day in runs.dates(folder)[:DATES_MAX]:
        of_date = runs.of_date(folder, day)
        shown = runs.shown(of_date)
        outcome = runs.outcome_of_date(folder, day, shown)
        kinds = runs.counts_by_kind(shown.summary if shown is not None else {})
        rows.append({"day": day, "run": shown, "runs": of_date, "kinds": kinds, "outcome": outcome})
    return rows


def _bars(trend: list[RunFolder]) -> list[dict[str, object]]:
    """Return the bars of the chart of exceptions."""
    figures = [
        (run, runs.counts_by_kind(run.summary)["exception"], int(run.summary.get("messages") or 0)) for run in trend
    ]
    most = max((exceptions for _, exceptions, _ in figures), default=0) or 1
    heights = [max(2, round(exceptions / most * (CHART_HEIGHT - 30))) for _, exceptions, _ in figures]
    width = CHART_WIDTH / max(len(figures), TREND_MAX)
    return [
        {
            "x": round(number * width + 4), "width": round(width - 8), "day": run.day, "exceptions": exceptions,
            "height": heights[number], "messages": messages,
            "y": CHART_HEIGHT - 16 - heights[number], "name": run.name,
        }
        for number, (run, exceptions, messages) in enumerate(figures)
    ]  # fmt: skip


async def run(visit: Visit) -> Response:
    """Show one run, with the exceptions that match the filter."""
    shown = await _run_of(visit)
    filters = {name: visit.query.get(name, "") for name in ("verdict", "pair")}
    first_row = visit.number("after")

    def matches(row: Mapping[str, str]) -> bool:
        return filters["verdict"] in ("", row.get("Verdict")) and filters["pair"] in ("", row.get("Pair"))

    rows, next_row = await asyncio.to_thread(runs.exceptions, shown, matches, first_row, EXCEPTIONS_MAX)
    path = f"/reconciliation/{shown.day}/{shown.name}"
    of_date = shown.summary.get("verdicts") or {}
    earlier = (shown.summary.get("carried") or {}).get("verdicts") or {}
    verdicts = [
        {"name": name, "date": of_date.get(name, 0), "earlier": earlier.get(name, 0), "verdict": VERDICT[name],
         "all": of_date.get(name, 0) + earlier.get(name, 0),
         "href": href(path, verdict=name, pair=filters["pair"])}
        for name in {**of_date, **earlier}
        if name in VERDICT
    ]  # fmt: skip
    verdicts.sort(key=lambda row: ("exception", "open", "fine").index(row["verdict"].kind))
    need = shown.summary.get("need_work")
    return show(
        visit, "run.html", run=shown, word=OUTCOMES[shown.outcome], verdicts=verdicts, filters=filters, rows=rows,
        headline=headline(need["date"], need["earlier"], shown.summary["messages"]) if need else "",
        work=(shown.summary.get("work") or [])[:WORK_MAX],
        gaps=(shown.summary.get("absent") or [])[:WORK_MAX], next_step=next_step, verdict_of=VERDICT,
        path_of_run=path, breaches=shown.summary.get("breaches") or [],
        breach_words=partial(breach_words, translator(visit)), file_words=FILES,
        partner_pages=(await asyncio.to_thread(lambda: shown.partner_pages))[:PAIRS_MAX],
        pairs=(shown.summary.get("pairs") or [])[:PAIRS_MAX],
        next=href(path, **filters, after=next_row) if next_row else None,
        first=href(path, **filters) if first_row else None,
    )  # fmt: skip


def breach_words(_: Callable[[str], str], breach: Mapping[str, Any]) -> str:
    """Return found and accepted value of an exceeded threshold."""

    def text(value: float) -> str:
        if breach["what"] == "max_age_s":
            return duration(value)
        return f"{100 * value:.3g} %" if breach["what"] == "max_rate" else f"{value:,.0f}"

    return _("found %(found)s, allowed %(accepted)s") % {name: text(breach[name]) for name in ("found", "accepted")}


async def file(visit: Visit) -> Response:
    """Return a file of a run."""
    run_folder, name = await _run_of(visit), visit.request.path_params["file"]
    if name not in run_folder.files:
        raise NoSuchPage
    return await _content(run_folder, run_folder.path / name, runs.DOWNLOADS[name])


async def partner_page(visit: Visit) -> Response:
    """Return the page of a run that can be sent to a partner."""
    run_folder, name = await _run_of(visit), visit.request.path_params["file"]
    if name not in await asyncio.to_thread(lambda: run_folder.partner_pages):
        raise NoSuchPage
    return await _content(run_folder, run_folder.path / runs.PARTNERS / name, "text/html")


async def _content(run_folder: RunFolder, path: Path, media_type: str) -> Response:
    """Return a report as a page in a sandbox, another file as a download."""
    headers = {"x-content-type-options": "nosniff"}
    if path.suffix == ".html":
        headers["content-security-policy"] = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
    else:
        headers["content-disposition"] = f'attachment; filename="{run_folder.day}-{path.name}"'
    return Response(await asyncio.to_thread(path.read_bytes), media_type=media_type, headers=headers)


async def _run_of(visit: Visit) -> RunFolder:
    """Return the run that the address names. Raises NoSuchPage."""
    folder, path = runs.reports_folder(visit.web.settings), visit.request.path_params
    named = await asyncio.to_thread(runs.find, folder, path["day"], path["name"]) if folder is not None else None
    if named is None:
        raise NoSuchPage
    return named


ROUTES = [
    page("/reconciliation", reconciliation),
    page("/reconciliation/{day}/{name}", run),
    page("/reconciliation/{day}/{name}/{file}", file),
    page("/reconciliation/{day}/{name}/partners/{file}", partner_page),
]
