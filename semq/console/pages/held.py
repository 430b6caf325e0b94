"""The page of copies that the hub stores: by pair of institutions, and one by one; refuse them, or send them again."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.console import bulk
from semq.console.display import href, now_ms, show, translator
from semq.console.live import LIVE
from semq.web.pages.visit import Visit, form, page

FILTERS = ("target", "source", "type", "key")
ACTS = {"refuse": "held.refuse", "resend": "held.resend"}
BATCH_MAX = 200  # copies in a request that acts
SAMPLE_MAX = 10  # copies that the page of an act shows


async def held(visit: Visit) -> Response:
    """Show the pairs, and the copies that match the filter, the oldest first."""
    filters = {name: visit.query.get(name, "").strip() for name in FILTERS}
    chosen = {name: value for name, value in filters.items() if value}
    continue_at = {"outbound": visit.query["outbound"]} if visit.query.get("outbound") else {}
    census = await visit.ask("queue.census")
    search_filters = {"partner" if name == "target" else name: value for name, value in chosen.items()}
    answer = await visit.ask("msg.list", **search_filters, **continue_at, side="outbound", order="oldest", limit=50)
    next_at = {"outbound": answer["next"]["outbound"]} if answer["next"] else {}
    nodes = await visit.ask("nodes.list")
    return show(
        visit, "held.html", pairs=census["pairs"], counted_at=census["as_of"], rows=answer["rows"], filters=filters,
        online={node["node"] for node in nodes if node["online"]}, acts=bulk.recent(visit),
        interrupted=await bulk.interrupted(visit), live=LIVE,
        next=href("/held", **chosen, **next_at) if next_at else None,
        first=href("/held", **chosen) if continue_at else None, identity=lambda row: row["lk0"],
    )  # fmt: skip


async def prepare(visit: Visit) -> Response:
    """Prepare an act on the selected copies, or on all that match the filter and are stored now."""
    _ = translator(visit)
    fields = await visit.form()
    chosen: dict[str, Any] = {
        name: str(fields.get(name, "")).strip() for name in FILTERS if str(fields.get(name, "")).strip()
    }
    act, _sep, scope = str(fields.get("act", "")).partition("-")
    back = href("/held", **chosen)
    if act not in ACTS:
        return visit.see_other(back, _("There is no such act."))
    if scope == "all":
        selection = {**chosen, "before_ms": now_ms(visit)}
        counted = await visit.ask("held.count", **selection)
        total, sample = sum(row["rows"] for row in counted), []
        work = _by_filter(ACTS[act], selection, total)
    else:
        rows = await bulk.rows_of(visit, "msg.show", [str(id_) for id_ in fields.getlist("ids")])
        total, sample = len(rows), list(rows.values())[:SAMPLE_MAX]
        work = bulk.by_names(ACTS[act], rows, BATCH_MAX)
    if not total:
        return visit.see_other(back, _("Nothing was chosen."))
    prepared = bulk.prepare(
        visit, act=act, back=back, total=total, sample=sample, work=work,
        filter_text=bulk.filter_text(chosen) if scope == "all" else "",
    )  # fmt: skip
    return visit.see_other(f"/acts/{prepared.key}")


def _by_filter(operation: str, selection: dict[str, Any], total: int) -> bulk.Work:
    """Return the work that applies an operation to the ``total`` copies of a selection."""

    async def work(visit: Visit, why: str) -> AsyncIterator[Counter[str]]:
        after, remaining = 0, total
        while True:
            answer = await visit.ask(operation, **selection, why=why, after=after, limit=BATCH_MAX)
            results = bulk.results_of(operation, answer)
            after, remaining = answer["after"], remaining - results.total()
            yield results + Counter({bulk.GONE: remaining if answer["done"] else 0})
            if answer["done"]:
                return

    return work


ROUTES = [page("/held", held), form("/held/prepare", prepare, role=AccessRole.OPERATOR)]
