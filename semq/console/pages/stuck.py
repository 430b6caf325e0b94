"""The page of stuck messages: their number by cause and partner; the messages of one cause."""

from starlette.responses import Response

from semq.console.display import href, show
from semq.console.live import LIVE
from semq.store.views.selection import PLACE
from semq.web.pages.visit import Visit, page


async def stuck(visit: Visit) -> Response:
    """Show the causes, or the messages of one cause."""
    cause, partner = visit.query.get("cause", ""), visit.query.get("partner", "")
    causes = await visit.ask("stuck.causes")
    of_cause = None
    if cause:
        continue_at = {name: visit.query[name] for name in PLACE if visit.query.get(name)}
        of_cause = await visit.ask("stuck.list", cause=cause, partner=partner or None, **continue_at)
    next_at = (of_cause or {}).get("next")
    next_page = href("/stuck", cause=cause, partner=partner, **next_at) if next_at else None
    return show(
        visit, "stuck.html", causes=causes["rows"], counted_at=causes["as_of"], cause=cause, partner=partner,
        shown=of_cause, next=next_page, first=href("/stuck", cause=cause, partner=partner), live=LIVE,
    )  # fmt: skip


ROUTES = [page("/stuck", stuck)]
