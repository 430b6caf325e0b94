"""The page of failed documents of a local node: list, requeue, remove; and the pages of acts on many messages."""

from collections.abc import AsyncIterator, Mapping

from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.answers.messages import MessageRow
from semq.console import bulk
from semq.console.acts import ACTS
from semq.console.bulk import identity
from semq.console.display import Row, href, show, translator
from semq.console.live import LIVE
from semq.console.pages.acts import SAMPLE_MAX, prepare_named
from semq.store.views.selection import PLACE
from semq.web.pages.visit import Visit, form, page

FILTERS = ("side", "partner", "type", "key", "code")
PAGE_MAX = 500  # documents in a request that lists


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
    fields = await visit.form()
    name, _sep, scope = str(fields.get("act", "")).partition("-")
    chosen = {name: str(fields.get(name, "")).strip() for name in FILTERS if str(fields.get(name, "")).strip()}
    back = href("/failed", **chosen)
    if scope != "all" or name not in ACTS:
        return await prepare_named(visit, name, [str(id_) for id_ in fields.getlist("ids")], back)
    rows: dict[str, Row] = {identity(row): row async for row in _all_matching(visit, chosen)}
    if not rows:
        return visit.see_other(back, translator(visit)("Nothing was chosen."))
    prepared = bulk.prepare(
        visit, act=name, back=back, total=len(rows), sample=list(rows.values())[:SAMPLE_MAX],
        work=bulk.by_names(ACTS[name], list(rows)), filter_text=bulk.filter_text(chosen),
    )  # fmt: skip
    return visit.see_other(f"/acts/{prepared.key}")


async def _all_matching(visit: Visit, chosen: Mapping[str, str]) -> AsyncIterator[MessageRow]:
    place: dict[str, object] | None = {}
    while place is not None:
        answer = await visit.ask("failed.list", **chosen, **place, limit=PAGE_MAX)
        for row in answer["rows"]:
            yield row
        place = answer["next"]


ROUTES = [page("/failed", failed), form("/failed/prepare", prepare, role=AccessRole.OPERATOR)]
