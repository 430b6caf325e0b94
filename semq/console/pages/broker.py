"""The page of the broker: queues, consumers, connections, channels and workers."""

import json

from starlette.responses import Response

from semq.console.display import href, show
from semq.console.live import LIVE
from semq.web.pages.visit import Visit, page

# Part of the page | operation
PARTS = {
    "queues": "broker.queues", "consumers": "broker.consumers", "connections": "broker.connections",
    "channels": "broker.channels", "workers": "worker.list",
}  # fmt: skip


async def broker(visit: Visit) -> Response:
    """Show one part, in pages."""
    part = visit.query.get("part", "queues")
    part = part if part in PARTS else "queues"
    name = visit.query.get("name", "").strip()
    after = None
    if visit.query.get("after"):
        try:
            after = [str(key) for key in json.loads(visit.query["after"])]
        except (ValueError, TypeError):
            after = None
    answer = await visit.ask(PARTS[part], name=name or None, after=after, limit=100)
    next_page = href("/broker", part=part, name=name, after=json.dumps(answer["next"])) if answer["next"] else None
    first = href("/broker", part=part, name=name) if after else None
    return show(
        visit, "broker.html", part=part, parts=list(PARTS), rows=answer["rows"], name=name, next=next_page, first=first,
        live=LIVE,
    )  # fmt: skip


ROUTES = [page("/broker", broker)]
