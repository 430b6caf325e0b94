"""The page of copies that the hub stores: by pair of institutions, and one by one; refuse them, or send them again."""

from collections import Counter
from collections.abc import AsyncIterator

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.console import bulk
from semq.console.acts import ACTS, MessageAct
from semq.console.display import href, now_ms, show, translator
from semq.console.live import LIVE
from semq.console.pages.acts import prepare_named
from semq.web.pages.visit import Visit, form, page

FILTERS = ("target", "source", "type", "key")


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
    fields = await visit.form()
    chosen: dict[str, object] = {
        name: str(fields.get(name, "")).strip() for name in FILTERS if str(fields.get(name, "")).strip()
    }
    name, _sep, scope = str(fields.get("act", "")).partition("-")
    back = href("/held", **chosen)
    if scope != "all" or name not in ACTS:
        return await prepare_named(visit, name, [str(id_) for id_ in fields.getlist("ids")], back)
    selection = {**chosen, "before_ms": now_ms(visit)}
    total = sum(row["rows"] for row in await visit.ask("held.count", **selection))
    if not total:
        return visit.see_other(back, translator(visit)("Nothing was chosen."))
    prepared = bulk.prepare(
        visit, act=name, back=back, total=total, sample=[], work=_by_filter(ACTS[name], selection, total),
        filter_text=bulk.filter_text(chosen),
    )  # fmt: skip
    return visit.see_other(f"/acts/{prepared.key}")


def _by_filter(act: MessageAct, selection: dict[str, object], total: int) -> bulk.Work:
    """Return the work that applies an act to the ``total`` copies of a selection."""

    async def work(visit: Visit, why: str) -> AsyncIterator[Counter[str]]:
        after, remaining = 0, total
        while True:
            answer = await visit.ask(act.operation, **selection, why=why, after=after, limit=act.batch)
            results = bulk.results_of(act.operation, answer)
            after, remaining = answer["after"], remaining - results.total()
            yield results + Counter({bulk.GONE: remaining if answer["done"] else 0})
            if answer["done"]:
                return

    return work


ROUTES = [page("/held", held), form("/held/prepare", prepare, role=AccessRole.OPERATOR)]
