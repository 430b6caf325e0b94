"""Live pages: an event when the node's state has changed, at which a page reloads its live parts.

The node is asked once in ASK_S seconds for all viewers together. An event carries no data, because pages and the
rights of viewers differ. Its identifier is a hash of the state, so that a browser that reconnects gets an event if
the state has changed in between.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from starlette.responses import Response

from semq.errors import SemqError
from semq.web.pages.visit import Visit
from semq.web.transport.event_stream import event

ASK_S = 3.0
MARK_MAX = 40
# Parts of ``node.status`` that no page shows and that change all the time: figures of the process.
LEFT_OUT = ("store", "waiting_work", "http")
LIVE = "/live"


async def live(visit: Visit) -> Response:
    """Stream an event for each change of the node's state."""
    return visit.stream(_changes(visit))


async def _changes(visit: Visit) -> AsyncIterator[str]:
    before = visit.request.headers.get("last-event-id", "")[:MARK_MAX]
    while True:
        mark = await visit.web.snapshot("console", ASK_S, lambda: _mark(visit))
        if not before:
            yield f"id: {mark}\n\n"  # no event: sets the Last-Event-ID that the browser sends when it reconnects
        elif mark != before:
            yield event("changed", "", id=mark)
        before = mark
        await asyncio.sleep(ASK_S)


async def _mark(visit: Visit) -> str:
    """Return a hash of the node's state, or the error code of the failed request for it."""
    try:
        status: Mapping[str, Any] = await visit.ask("node.status")
    except SemqError as error:
        return f"no answer: {error.code}"
    shown = {name: value for name, value in status.items() if name not in LEFT_OUT}
    return sha256(msgspec.json.encode(shown, enc_hook=str)).hexdigest()[:16]
