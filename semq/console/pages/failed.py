"""The page of failed documents of a local node: list, requeue, remove; and the pages of acts on many messages."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.console import bulk
from semq.console.bulk import BulkAct
from semq.console.display import Row, href, now_ms, show, translator
from semq.console.live import LIVE
from semq.console.words import RESULTS
from semq.store.views.selection import PLACE
from semq.web.pages.visit import Visit, form, page

FILTERS = ("side", "partner", "type", "key", "code")
ACTS = {"requeue": "failed.requeue", "remove": "failed.remove"}
BATCH_MAX, PAGE_MAX = 100, 500  # documents in a request that acts, and in one that lists
SAMPLE_MAX = 10  # documents that the page of an act shows


def identity(row: Mapping[str, Any]) -> str:
    """Return the name of a failed document for operations."""
    return str(row["id"]) if row["side"] == "inbound" else str(row["lk0"])


async def failed(visit: Visit) -> Response:
    """Show the failed documents that match the filter, the newest first."""
    filters = {name: visit.query.get(name, "").strip() for name in FILTERS}
    chosen = {name: value for name, value in filters.items() if value}
    continue_at = {name: visit.query[name] for name in PLACE if visit.query.get(name)}
    answer = await visit.ask("failed.list", **chosen, **continue_at, limit=50)
    return show(
        visit, "failed.html", rows=answer["rows"], of=answer["of"], counted_at=answer["as_of"], filters=filters,
        is_filtered=bool(chosen), identity=identity,
        next=href("/failed", **chosen, **answer["next"]) if answer["next"] else None,
        first=href("/failed", **chosen) if continue_at else None, acts=bulk.recent(visit),
        interrupted=await bulk.interrupted(visit), live=LIVE,
    )  # fmt: skip


async def prepare(visit: Visit) -> Response:
    """Prepare an act on the selected documents, or on all that match the filter."""
    _ = translator(visit)
    fields = await visit.form()
    act, _sep, scope = str(fields.get("act", "")).partition("-")
    chosen = {name: str(fields.get(name, "")).strip() for name in FILTERS if str(fields.get(name, "")).strip()}
    back = href("/failed", **chosen)
    if act not in ACTS:
        return visit.see_other(back, _("There is no such act."))
    if scope == "all":
        rows: dict[str, Row] = {identity(row): row async for row in _all_matching(visit, chosen)}
    else:
        rows = await bulk.rows_of(visit, "failed.show", [str(id_) for id_ in fields.getlist("ids")])
    if not rows:
        return visit.see_other(back, _("Nothing was chosen."))
    prepared = bulk.prepare(
        visit, act=act, back=back, total=len(rows), sample=list(rows.values())[:SAMPLE_MAX],
        work=bulk.by_names(ACTS[act], rows, BATCH_MAX),
        filter_text=bulk.filter_text(chosen) if scope == "all" else "",
    )  # fmt: skip
    return visit.see_other(f"/acts/{prepared.key}")


async def _all_matching(visit: Visit, chosen: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
    place: dict[str, Any] | None = {}
    while place is not None:
        answer = await visit.ask("failed.list", **chosen, **place, limit=PAGE_MAX)
        for row in answer["rows"]:
            yield row
        place = answer["next"]


async def act_page(visit: Visit) -> Response:
    """Show a prepared act, or the progress of a started one."""
    act = _act_of(visit)
    if act is None:
        return _forgotten(visit)
    return show(visit, "act.html", act=act, results=RESULTS, live=LIVE)


async def act_start(visit: Visit) -> Response:
    """Start a prepared act with a reason."""
    _ = translator(visit)
    act, why = _act_of(visit), str((await visit.form()).get("why", "")).strip()
    if act is None:
        return _forgotten(visit)
    if not why:
        return visit.see_other(f"/acts/{act.key}", _("Nothing was done: give a reason."))
    await act.start(visit, why, now_ms(visit))
    return visit.see_other(f"/acts/{act.key}")


async def act_stop(visit: Visit) -> Response:
    """Stop a running act, or discard a prepared act."""
    act = _act_of(visit)
    if act is None:
        return visit.see_other("/")
    act.stop()
    return visit.see_other(act.back if not act.results else f"/acts/{act.key}")


def _forgotten(visit: Visit) -> Response:
    _ = translator(visit)
    text = _(
        "This act is no longer known: the web process was restarted, or newer acts replaced it. "
        "Completed parts remain; prepare the act again for the rest."
    )
    return visit.see_other("/failed" if visit.web.settings.node.kind == "local" else "/held", text)


def _act_of(visit: Visit) -> BulkAct | None:
    return bulk.find(visit, visit.request.path_params["key"])


ROUTES = [
    page("/failed", failed),
    form("/failed/prepare", prepare, role=AccessRole.OPERATOR),
    page("/acts/{key}", act_page, role=AccessRole.OPERATOR),
    form("/acts/{key}/start", act_start, role=AccessRole.OPERATOR),
    form("/acts/{key}/stop", act_stop, role=AccessRole.OPERATOR),
]
