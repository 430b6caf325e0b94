"""The page of stuck messages: their number by cause and partner; the messages of one cause."""

from starlette.responses import Response

from semq.console.acts import ACTS, in_step
from semq.console.display import href, next_step_of, show
from semq.console.live import LIVE
from semq.engine.people.stuck import StuckCause
from semq.store.views.selection import PLACE
from semq.web.pages.visit import Visit, page


async def stuck(visit: Visit) -> Response:
    """Show the causes, or the messages of one cause."""
    cause, partner = visit.query.get("cause", ""), visit.query.get("partner", "")
    causes = await visit.ask("stuck.causes")
    of_cause = None
    continue_at = {name: visit.query[name] for name in PLACE if visit.query.get(name)}
    if cause:
        of_cause = await visit.ask("stuck.list", cause=cause, partner=partner or None, **continue_at)
    rows = (of_cause or {"rows": []})["rows"]
    steps = " ".join(next_step_of(str, row) for row in rows)
    next_at = (of_cause or {}).get("next")
    next_page = href("/stuck", cause=cause, partner=partner, **next_at) if next_at else None
    return show(
        visit, "stuck.html", causes=causes["rows"], counted_at=causes["as_of"], cause=cause, partner=partner,
        acts={name: ACTS[name] for name in in_step(steps)}, choice=lambda row: row["lk0"],
        back=href("/stuck", cause=cause, partner=partner), shown=of_cause, next=next_page,
        first=href("/stuck", cause=cause, partner=partner) if continue_at else None, live=LIVE,
        meaning=StuckCause[cause].value[0] if cause in StuckCause.__members__ else "",
    )  # fmt: skip


ROUTES = [page("/stuck", stuck)]
