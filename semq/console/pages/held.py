"""Copies that the hub stores, by pair of institutions and one by one; refuse or send again some, or all that match."""

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
BATCH, SAMPLE = 200, 10


async def held(visit: Visit) -> Response:
    """The pairs, and the copies that fit the filter, the oldest first."""
    given = {name: visit.query.get(name, "").strip() for name in FILTERS}
    chosen = {name: value for name, value in given.items() if value}
    place = {"outbound": visit.query["outbound"]} if visit.query.get("outbound") else {}
    census = await visit.ask("queue.census")
    wanted = {"partner" if name == "target" else name: value for name, value in chosen.items()}
    answer = await visit.ask("msg.search", **wanted, **place, side="outbound", order="oldest", limit=50)
    following = {"outbound": answer["next"]["outbound"]} if answer["next"] else {}
    status = await visit.ask("nodes.list")
    return show(
        visit, "held.html", pairs=census["pairs"], counted_at=census["as_of"], rows=answer["rows"], given=given,
        online={one["node"] for one in status if one["online"]}, acts=bulk.recent(visit),
        interrupted=await bulk.interrupted(visit), live=LIVE,
        next=href("/held", **chosen, **following) if following else None,
        first=href("/held", **chosen) if place else None, identity=lambda row: row["lk0"],
    )  # fmt: skip


async def prepare(visit: Visit) -> Response:
    """Freeze a set of copies: those that are named, or those that fit and were stored until now."""
    _ = translator(visit)
    given = await visit.form()
    chosen: dict[str, Any] = {
        name: str(given.get(name, "")).strip() for name in FILTERS if str(given.get(name, "")).strip()
    }
    act, _sep, scope = str(given.get("act", "")).partition("-")
    back = href("/held", **chosen)
    if act not in ACTS:
        return visit.see_other(back, _("There is no such act."))
    if scope == "all":
        frozen = {**chosen, "before_ms": now_ms(visit)}
        counted = await visit.ask("held.count", **frozen)
        total, sample = sum(row["rows"] for row in counted), []
        work = _of_filter(ACTS[act], frozen, total)
    else:
        names = [str(one) for one in given.getlist("ids")]
        total, sample = len(names), [{"lk0": name, "name": name} for name in names[:SAMPLE]]
        work = bulk.by_names(ACTS[act], names, BATCH)
    if not total:
        return visit.see_other(back, _("Nothing was chosen."))
    prepared = bulk.prepare(
        visit, act=act, back=back, total=total, sample=sample, work=work,
        chosen=", ".join(f"{name} {value}" for name, value in chosen.items()),
    )  # fmt: skip
    return visit.see_other(f"/acts/{prepared.key}")


def _of_filter(operation: str, frozen: dict[str, Any], total: int) -> bulk.Work:
    async def work(visit: Visit, why: str) -> AsyncIterator[int]:
        after, done = 0, 0
        while True:
            answer = await visit.ask(operation, **frozen, why=why, after=after, limit=BATCH)
            count = min(BATCH, max(0, total - done)) if not answer["done"] else max(0, total - done)
            after, done = answer["after"], done + count
            yield count
            if answer["done"]:
                return

    return work


ROUTES = [page("/held", held), form("/held/prepare", prepare, role=AccessRole.OPERATOR)]
