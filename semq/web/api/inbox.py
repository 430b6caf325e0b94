"""The inbox over HTTP: receive documents by long polling, then acknowledge, requeue or park each one.

A received document belongs to the program for a time (its lease); what is not settled by then is delivered again.
"""

import math
import re
from base64 import b64encode
from typing import Any

from starlette.responses import Response

from semq.web.api.attributes import add_headers, described
from semq.web.api.endpoint import Call, told
from semq.web.api.leases import DocumentLease
from semq.web.errors import BadRequest, NoSuchPage, RoleMissing

USER = re.compile(r"[A-Za-z0-9_-]{0,64}")
WAIT_S_MAX, AT_MOST_MAX, LEASE_S_MAX = 60.0, 100, 3600.0
RAW = "application/octet-stream"
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
    try:
        answer = _raw(leases) if is_raw else _listed(leases)
        await call.note("inbox.receive", {"user": user, "documents": [one.document.lk0 for one in leases]})
    except BaseException:
        for one in leases:
            await call.web.leases.settle(owner, one.id, "requeue")
        raise
    for one in leases:
        one.document.payload = b""  # it is in the answer
    return answer


async def settle(call: Call) -> Response:
    """Settle one document. Raises LeaseGone, NodeUnreachable."""
    act = str(call.request.path_params["act"])
    if act not in ACTS:
        raise NoSuchPage("A document is settled by ack, requeue or park.")
    document = await call.web.leases.settle(call.who.key, str(call.request.path_params["lease"]), act)
    await call.note(ACTS[act], {"lk0": document.lk0})
    return Response(status_code=204)


def _listed(leases: list[DocumentLease]) -> Response:
    return told({"documents": [_facts(one) | _body(one.document.payload) for one in leases]})


def _raw(leases: list[DocumentLease]) -> Response:
    if not leases:
        return Response(status_code=204)
    (lease,) = leases
    response = Response(lease.document.payload, 200, {"content-disposition": "attachment"}, RAW)
    add_headers(response, _facts(lease))
    return response


def _facts(lease: DocumentLease) -> dict[str, Any]:
    return {"lease": lease.id, **described(lease.document)}


def _body(payload: bytes) -> dict[str, str]:
    return {"body_base64": b64encode(payload).decode()}


def _number(call: Call, name: str, default: float, least: float, most: float) -> float:
    text = call.request.query_params.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise BadRequest(f"{name} is a number from {least:g} to {most:g}.")
    return value
