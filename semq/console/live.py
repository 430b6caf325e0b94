"""Live pages: events about changes of the node's state. ``static/console.js`` then refreshes parts of the page.

The state is read once in ASK_S seconds for all visitors. The identifier of an event is a hash of the state, so that a
browser that reconnects gets an event if the state has changed meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from hashlib import sha256

import msgspec
from starlette.responses import Response

from semq.errors import SemqError
from semq.web.pages.visit import Visit
from semq.web.transport.event_stream import event

ASK_S = 3.0  # interval between two requests for the state
HASH_MAX = 40  # characters
# Parts of ``node.status`` that are not in the hash, because they change all the time.
NOT_HASHED = ("store", "waiting_work", "http")
LIVE = "/live"  # address of the stream


async def live(visit: Visit) -> Response:
    """Stream an event for each change of the node's state."""
    return visit.stream(_changes(visit))


async def _changes(visit: Visit) -> AsyncIterator[str]:
    last_hash = visit.request.headers.get("last-event-id", "")[:HASH_MAX]
    while True:
        state_hash = await visit.web.snapshot("console", ASK_S, lambda: _state_hash(visit))
        if not last_hash:
            yield f"id: {state_hash}\n\n"  # no event: sets Last-Event-ID for the next connection
        elif state_hash != last_hash:
            yield event("changed", "", id=state_hash)
        last_hash = state_hash
        await asyncio.sleep(ASK_S)


async def _state_hash(visit: Visit) -> str:
    """Return a hash of the node's state, or a text with the error code."""
    try:
        status: Mapping[str, object] = await visit.ask("node.status")
    except SemqError as error:
        return f"no answer: {error.code}"
    parts = {name: value for name, value in status.items() if name not in NOT_HASHED}
    return sha256(msgspec.json.encode(parts, enc_hook=str)).hexdigest()[:16]
