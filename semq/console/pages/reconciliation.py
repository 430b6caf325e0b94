"""Reconciliation: dates and their runs, trend, verdicts, pairs, and exceptions with their messages."""

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from semq.console import runs
from semq.console.display import href, show
from semq.console.runs import RunFolder
from semq.console.words import OUTCOMES
from semq.web.errors import NoSuchPage
from semq.web.pages.visit import Visit, page
from spark_reconcile.judgement.verdicts import VERDICT

DATES_MAX, TREND_MAX, PAGE, PAIRS_MAX = 60, 14, 50, 200
CHART_WIDTH, CHART_HEIGHT = 640, 120


async def reconciliation(visit: Visit) -> Response:
    """Show the dates with their current runs, and the trend."""
    folder = runs.reports_folder(visit.web.settings)
    if folder is None:
        return show(visit, "reconciliation.html", rows=None, bars=[], place="")
    rows = await asyncio.to_thread(_dates, folder)
    trend = await asyncio.to_thread(runs.trend, folder, TREND_MAX)
    return show(visit, "reconciliation.html", rows=rows, bars=_bars(trend), place=str(folder))


def _dates(folder: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for day in runs.dates(folder)[:DATES_MAX]:
        of_date = runs.of_date(folder, day)
        current = next((run for run in of_date if run.is_current), of_date[0] if of_date else None)
        if current is not None:
            found.append({"day": day, "run": current, "runs": of_date, "kinds": runs.kinds(current.summary)})
    return [row | {"word": OUTCOMES[row["run"].outcome]} for row in found]


def _bars(trend: list[RunFolder]) -> list[dict[str, Any]]:
    """Return the bars of the chart of exceptions: place and height in the picture, date, figures."""
    figures = [(run, runs.kinds(run.summary)["exception"], int(run.summary.get("messages") or 0)) for run in trend]
    most = max((exceptions for _, exceptions, _ in figures), default=0) or 1
    width = CHART_WIDTH / max(len(figures), 1)
    return [
        {
            "x": round(number * width + 4), "width": round(width - 8), "day": run.day, "exceptions": exceptions,
            "height": max(2, round(exceptions / most * (CHART_HEIGHT - 30))), "messages": messages,
            "y": CHART_HEIGHT - 16 - max(2, round(exceptions / most * (CHART_HEIGHT - 30))), "name": run.name,
        }
        for number, (run, exceptions, messages) in enumerate(figures)
    ]  # fmt: skip


async def run(visit: Visit) -> Response:
    """Show one run: verdicts, pairs, sources, breaches, and its exceptions by filter."""
    found = await _run_of(visit)
    given = {name: visit.query.get(name, "") for name in ("verdict", "pair")}
    after = visit.query.get("after", "")
    number = int(after) if after.isascii() and after.isdigit() and len(after) < 10 else 0

    def fits(row: Mapping[str, str]) -> bool:
        return given["verdict"] in ("", row.get("Verdict")) and given["pair"] in ("", row.get("Pair"))

    rows, following = await asyncio.to_thread(runs.exceptions, found, fits, number, PAGE)
    here = f"/reconciliation/{found.day}/{found.name}"
    verdicts = [
        {"name": name, "count": count, "verdict": VERDICT[name], "href": href(here, verdict=name, pair=given["pair"])}
        for name, count in (found.summary.get("verdicts") or {}).items()
        if name in VERDICT
    ]
    verdicts.sort(key=lambda one: ("exception", "open", "fine").index(one["verdict"].kind))
    return show(
        visit, "run.html", run=found, word=OUTCOMES[found.outcome], verdicts=verdicts, given=given, rows=rows,
        here=here,
        pairs=(found.summary.get("pairs") or [])[:PAIRS_MAX], sources=found.summary.get("sources") or [],
        breaches=found.summary.get("breaches") or [], kinds=runs.kinds(found.summary),
        next=href(here, **given, after=following) if following else None, first=href(here, **given) if number else None,
    )  # fmt: skip


async def file(visit: Visit) -> Response:
    """Return a file of a run. The report has styles of its own, so it is shown in a sandbox."""
    found, name = await _run_of(visit), visit.request.path_params["file"]
    if name not in found.files:
        raise NoSuchPage
    content = await asyncio.to_thread((found.path / name).read_bytes)
    headers = {"x-content-type-options": "nosniff"}
    if name.endswith(".html"):
        headers["content-security-policy"] = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
    else:
        headers["content-disposition"] = f'attachment; filename="{found.day}-{name}"'
    return Response(content, media_type=runs.DOWNLOADS[name], headers=headers)


async def _run_of(visit: Visit) -> RunFolder:
    folder, given = runs.reports_folder(visit.web.settings), visit.request.path_params
    found = await asyncio.to_thread(runs.find, folder, given["day"], given["name"]) if folder is not None else None
    if found is None:
        raise NoSuchPage
    return found


ROUTES = [
    page("/reconciliation", reconciliation),
    page("/reconciliation/{day}/{name}", run),
    page("/reconciliation/{day}/{name}/{file}", file),
]
