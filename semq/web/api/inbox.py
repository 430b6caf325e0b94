"""The inbox over HTTP: receive documents by long polling, then acknowledge, requeue or park each one.

A received document is leased to the program for a time; a document that is not settled by then is delivered again.
"""

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from starlette.responses import Response

from semq.foreign_text import in_json
from semq.transport.spool import SpooledBody
from semq.web.api.attributes import add_headers, described
from semq.web.api.endpoint import JSON, Call
from semq.web.api.leases import DocumentLease
from semq.web.errors import BadRequest, NoSuchPage, RoleMissing
from semq.web.transport.bodies import ChunkedResponse, chunks_of

USER = re.compile(r"[A-Za-z0-9_-]{0,64}")
WAIT_S_MAX, AT_MOST_MAX, LEASE_S_MAX = 60.0, 100, 3600.0
RAW = "application/octet-stream"
BEGIN, FIELD, END = b'{"documents":[', b',"body_base64":"', b"]}"
ACTS = {"ack": "inbox.ack", "requeue": "inbox.requeue", "park": "inbox.park"}


async def receive(call: Call) -> Response:
    """Receive documents. Raises BadRequest, RoleMissing, TooManyRequests, RefusedByNode, NodeUnreachable."""
    query = call.request.query_params
    user = query.get("user", call.who.inbox or "")
    if not USER.fullmatch(user):
        raise BadRequest("The user of an inbox has up to 64 letters, digits, _ or -.")
    if call.who.inbox is not None and user != call.who.inbox:
        raise RoleMissing("This token may open another inbox only.", inbox=call.who.inbox)
    wait_s = _number(call, "wait_s", 0.0, 0.0, WAIT_S_MAX)
    lease_s = _number(call, "lease_s", call.web.http.lease_s, 1.0, max(LEASE_S_MAX, call.web.http.lease_s))
    is_raw = RAW in call.request.headers.get("accept", "")
    wanted = 1 if is_raw else int(_number(call, "max", 1, 1, AT_MOST_MAX))
    owner = call.who.key
    room = call.web.leases.room(owner)
    leave = call.web.streams.enter(owner)
    try:
        client = call.who.login or call.web.client
        pulled = await client.pull(user, at_most=min(wanted, room), wait_s=wait_s)
    finally:
        leave()
    leases = call.web.leases.add(owner, pulled, lease_s)
    give_back = _nothing
    try:
        give_back = _room(call, leases)

        def ended() -> None:
            give_back()
            call.web.leases.begin(leases)

        answer = _raw(leases, ended) if is_raw else _listed(leases, ended)
        await call.note("inbox.receive", {"user": user, "documents": [one.document.lk0 for one in leases]})
    except BaseException:
        give_back()
        for one in leases:
            await call.web.leases.settle(owner, one.id, "requeue")
        raise
    for one in leases:
        one.document.drop_body()  # it is in the answer
    return answer


async def settle(call: Call) -> Response:
    """Settle one document. Raises LeaseGone, NodeUnreachable."""
    act = str(call.request.path_params["act"])
    if act not in ACTS:
        raise NoSuchPage("A document is settled by ack, requeue or park.")
    document = await call.web.leases.settle(call.who.key, str(call.request.path_params["lease"]), act)
    await call.note(ACTS[act], {"lk0": document.lk0})
    return Response(status_code=204)


def _room(call: Call, leases: list[DocumentLease]) -> Callable[[], None]:
    """Reserve memory and disk space for bodies; return the function that releases it. Raises BodiesFull, SpoolFull."""
    spooled = sum(one.document.size for one in leases if isinstance(one.document.body, SpooledBody))
    on_disk = call.web.disk.take_at_once(spooled)
    try:
        in_memory = call.web.memory.take_at_once(sum(one.document.size for one in leases) - spooled)
    except BaseException:
        on_disk()
        raise

    def give_back() -> None:
        on_disk()
        in_memory()

    return give_back


def _listed(leases: list[DocumentLease], ended: Callable[[], None]) -> Response:
    facts = [in_json(msgspec.json.encode(_facts(one), enc_hook=str).decode()).encode() for one in leases]
    bodies = [one.document.body for one in leases]
    frame = len(BEGIN) + len(END) + sum(len(one) + len(FIELD) + 1 for one in facts) + max(0, len(facts) - 1)
    size = frame + sum(4 * -(-len(body) // 3) for body in bodies)
    return ChunkedResponse(_written(facts, bodies), size, {}, JSON, ended)


def _written(facts: list[bytes], bodies: list[bytes | SpooledBody]) -> Iterator[bytes]:
    """Yield the answer; each body is forgotten when it was sent."""
    before = BEGIN
    for fact in facts:
        yield before + fact[:-1] + FIELD
        for chunk in chunks_of(bodies.pop(0)):
            yield b64encode(chunk)
        yield b'"}'
        before = b","
    yield END if facts else BEGIN + END


def _raw(leases: list[DocumentLease], ended: Callable[[], None]) -> Response:
    if not leases:
        ended()
        return Response(status_code=204)
    (lease,) = leases
    body = lease.document.body
    response = ChunkedResponse(chunks_of(body), len(body), {"content-disposition": "attachment"}, RAW, ended)
    add_headers(response, _facts(lease))
    return response


def _nothing() -> None:
    """Release nothing: used until the space is reserved."""


def _facts(lease: DocumentLease) -> dict[str, Any]:
    return {"lease": lease.id, **described(lease.document)}


def _number(call: Call, name: str, default: float, least: float, most: float) -> float:
    text = call.request.query_params.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise BadRequest(f"{name} is a number from {least:g} to {most:g}.")
    return value
