"""Events about sent documents, as server-sent events.

Without ``queue`` a stream has only new events; a client that reconnects with Last-Event-ID gets an event ``gap``,
because some events may be missing.

With ``queue`` the node keeps the unsent events, and the last BEHIND sent events. A client that reconnects with
Last-Event-ID gets the later events. Without Last-Event-ID, and after a restart of this process, a client gets some
events again, with the same identifiers.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator
from contextlib import nullcontext

import msgspec
from starlette.responses import Response

from semq.access_rights import AccessScope
from semq.app import DocumentEvent
from semq.app.client import EVENTS
from semq.errors import SemqError
from semq.foreign_text import in_json
from semq.moments import utc_text
from semq.web.api.authentication import authenticate
from semq.web.api.endpoint import Call
from semq.web.api.sent_events import BEHIND
from semq.web.errors import BadRequest, TooManyRequests
from semq.web.transport.event_stream import event, stream

QUEUE = re.compile(r"[A-Za-z0-9_-]{1,64}")
KEYS_MAX, ID_MAX = 255, 400  # bytes of a pattern, characters of an identifier
GAP = "Events between the previous stream and this one may be missing. With a queue (?queue=NAME) the node keeps them."
EXPIRES_S = 7 * 86_400  # time for which the node keeps a queue without a connection
PATTERNS_MAX = 16  # patterns of one queue; each is a binding at the node
PREFETCH = BEHIND + 64  # the sent events, which stay unacknowledged, and some unsent ones


async def events(call: Call) -> Response:
    """Follow events about sent documents."""
    query = call.request.query_params
    keys, name = query.get("keys", "#"), query.get("queue")
    if len(keys.encode()) > KEYS_MAX or not keys.isprintable():
        raise BadRequest(f"keys has up to {KEYS_MAX} printable characters, for instance delivered.# or *.56001.order.")
    if name is not None and not QUEUE.fullmatch(name):
        raise BadRequest("The name of a queue has up to 64 letters, digits, _ or -.")
    own_queues = f"semq.web.events.{re.sub('[^A-Za-z0-9_-]', '-', call.visitor.key)}."
    queue = None if name is None else own_queues + name
    leave = call.web.streams.enter(call.visitor.key)
    expires_s = None if name is None else EXPIRES_S
    client = call.visitor.login or call.web.client
    behind = 0 if queue is None else BEHIND
    subscription = client.events(keys, queue=queue, expires_s=expires_s, prefetch=PREFETCH, behind=behind)
    last = call.request.headers.get("last-event-id", "")[:ID_MAX]
    try:
        making = call.web.making_queues.setdefault(call.visitor.key, asyncio.Lock())
        async with making if queue is not None else nullcontext():
            if queue is not None:
                await _check_queues(call, own_queues, queue)
                await _check_patterns(call, queue, keys)
            await subscription.open()
    except BaseException:
        leave()
        raise

    async def texts() -> AsyncIterator[str]:
        async with subscription:
            if queue is None and last:
                yield event("gap", GAP)
            received = call.web.sent_events.sent_up_to(queue, last) if queue is not None else set()
            sent = call.web.sent_events.begin(queue) if queue is not None else deque(maxlen=1)
            async for document_event in subscription:
                if not await _may_follow(call):
                    return
                id_ = document_event.id
                if id_ in received:
                    subscription.acknowledge()
                else:
                    yield event_text(document_event)
                sent.append(id_)

    return stream(texts(), leave)


async def _check_queues(call: Call, own_queues: str, queue: str) -> None:
    """Raise TooManyRequests if the visitor has as many other queues as permitted. The node keeps them for EXPIRES_S."""
    at_most = call.web.http.event_queues
    arguments = {"vhost": "/", "name": own_queues, "limit": at_most + 1}
    rows = (await call.web.client.request("broker.queues", arguments))["rows"]
    if len({row["name"] for row in rows} - {queue}) >= at_most:
        text = "Too many queues of events are kept; one ends after 7 days without a connection."
        raise TooManyRequests(text, at_most=at_most, retry_after_s=3600)


async def _check_patterns(call: Call, queue: str, keys: str) -> None:
    """Raise TooManyRequests if the queue has as many other patterns as permitted."""
    # The first row after this key is the first binding of the queue.
    arguments = {"vhost": "/", "name": EVENTS, "after": ("/", EVENTS, queue), "limit": PATTERNS_MAX}
    rows = (await call.web.client.request("broker.bindings", arguments))["rows"]
    patterns = {row["routing_key"] for row in rows if row["destination"] == queue}
    if len(patterns) >= PATTERNS_MAX and keys not in patterns:
        text = "This queue of events has too many patterns (keys): use another queue, or one pattern for all."
        raise TooManyRequests(text, at_most=PATTERNS_MAX, retry_after_s=3600)


async def _may_follow(call: Call) -> bool:
    """Whether the visitor may still see events: a token can end while a stream is open."""
    try:
        return (await authenticate(call.request, call.web)).may(AccessScope.EVENTS)
    except SemqError:
        return False


def event_text(document_event: DocumentEvent) -> str:
    """Return an event as a server-sent event."""
    facts = {
        "event": document_event.kind, "lk0": document_event.lk0, "target": document_event.target,
        "app_key": str(document_event.app_key), "at": utc_text(document_event.at, exact=True),
        "attempt": document_event.attempt, "outcome": document_event.outcome, "reason": document_event.reason,
        "corrects": document_event.corrects, "token": document_event.token, "group": document_event.group or "",
    }  # fmt: skip
    text = in_json(msgspec.json.encode({name: value for name, value in facts.items() if value != ""}).decode())
    return event(document_event.kind, text, document_event.id)
