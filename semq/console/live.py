"""Live pages: an event when the node has something new, upon which a page renews its live parts.

All viewers share one look at the node in so many seconds; an event carries no data, since each page shows something
else and each viewer may see something else.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from starlette.responses import Response

from semq.errors import SemqError
from semq.web.event_stream import event
from semq.web.visit import Visit

LOOK_S = 3.0
# What changes without anything that a page shows: figures of the process itself.
LEFT_OUT = ("store", "waiting_work", "http")
LIVE = "/live"


async def live(visit: Visit) -> Response:
    """The stream of events."""
    return visit.stream(_changes(visit))


async def _changes(visit: Visit) -> AsyncIterator[str]:
    before = ""
    while True:
        mark = await visit.web.snapshot("console", LOOK_S, lambda: _mark(visit))
        if mark != before and before:
            yield event("changed", "", id=mark)
        before = mark
        await asyncio.sleep(LOOK_S)


async def _mark(visit: Visit) -> str:
    """Return a text that is another one when the node's state is another one; the same while it cannot be asked."""
    try:
        status: Mapping[str, Any] = await visit.ask("node.status")
    except SemqError as error:
        return f"no answer: {error.code}"
    shown = {name: value for name, value in status.items() if name not in LEFT_OUT}
    return sha256(msgspec.json.encode(shown, enc_hook=str)).hexdigest()[:16]
