"""The page of figures over time: charts and table of one period, for all or one partner."""

import asyncio
from collections.abc import Callable

from starlette.responses import Response

from semq.console.charts import DOCUMENTS, TIMED, axis, charts_of, latency_text
from semq.console.display import Row, show, translator
from semq.console.live import LIVE
from semq.service.operations.figures import PERIODS
from semq.status_words import FIGURES, LATENCIES
from semq.web.pages.visit import Visit, page


def period_words(_: Callable[[str], str]) -> dict[str, str]:
    """Return the names of the periods."""
    return {"hour": _("Last hour"), "day": _("Last 24 hours"), "week": _("Last 7 days")}


async def figures(visit: Visit) -> Response:
    """Show the charts and the table of one period."""
    _ = translator(visit)
    period = visit.query.get("period", "day")
    partner = visit.query.get("partner", "").strip()
    wanted = {"period": period if period in PERIODS else "day"} | ({"partner": partner} if partner else {})
    traffic, census = await asyncio.gather(visit.ask("figures.traffic", **wanted), visit.ask("queue.census"))
    kind = visit.web.settings.node.kind
    kinds = [name for _title, names in DOCUMENTS[kind] for name in names]
    queues = list(traffic["backlog"])
    heads = [_(FIGURES[name]) for name in (*kinds, *queues)]
    heads += [
        _(LATENCIES[name]) + _(": ") + word.replace(" ", "\xa0")
        for name in TIMED[kind]
        for word in (_("median"), _("99 %"))
    ]

    def cells(row: Row) -> list[str]:
        documents, backlog, latency = (row.get(name, {}) for name in ("documents", "backlog", "latency"))
        sums = [documents.get(name, 0) for name in kinds] + [backlog.get(name, 0) for name in queues]
        found = [latency.get(name) for name in TIMED[kind]]
        times = [latency_text(one.get(part)) if one else "" for one in found for part in ("median_ms", "p99_ms")]
        return [f"{number:,}" for number in sums] + times

    points = [point for point in reversed(traffic["points"]) if point.get("documents")]
    return show(
        visit, "figures.html", traffic=traffic, partner=partner, periods=list(period_words(_).items()),
        partners=sorted({pair["target"] for pair in census["pairs"]}), charts=list(charts_of(_, traffic, kind)),
        axis=axis(traffic), heads=heads, live=LIVE,
        rows=[(None, cells(traffic)), *((point["at"], cells(point)) for point in points)],
    )  # fmt: skip


ROUTES = [page("/figures", figures)]
