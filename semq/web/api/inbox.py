"""The inbox over HTTP: receive documents by long polling, then acknowledge, requeue or park each one.

A received document is leased to the program (``leases``).
"""

import math
import re
from base64 import b64encode
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, get_type_hints

import msgspec
from starlette.responses import Response

from semq.app import Document
from semq.app.pull import PulledDocuments
from semq.app.values import DESCRIBED
from semq.foreign_text import in_json
from semq.service.message_names import full_label
from semq.transport.spool import SpooledBody
from semq.web.api.attributes import add_headers, described
from semq.web.api.endpoint import JSON, Call
from semq.web.api.leases import DocumentLease
from semq.web.api.polls import AnswerSpace
from semq.web.errors import BadRequest, NoSuchPage, RoleMissing
from semq.web.transport.bodies import ChunkedResponse, Reservation, chunks_of

USER = re.compile(r"[A-Za-z0-9_-]{0,64}")
# Largest values of wait_s, max and lease_s in the query; for lease_s, the setting http.lease_s if that is larger.
WAIT_S_MAX, DOCUMENTS_MAX, LEASE_S_MAX = 60.0, 100, 3600.0
RAW = "application/octet-stream"
# Parts of the answer around attributes and bodies
BEGIN, FIELD, END = b'{"documents":[', b',"body_base64":"', b"]}"
_NAMES = ("lease", *DESCRIBED, "bytes", "body_base64")
_KINDS = {int: "integer", bool: "boolean", Mapping[str, Any]: "object"}  # type of a field | its kind in JSON
_TYPES = get_type_hints(Document) | {"bytes": int}
_DOCUMENT = {name: {"type": _KINDS.get(_TYPES.get(name, str), "string")} for name in _NAMES}
ANSWER = {
    "type": "object",
    "properties": {"documents": {"type": "array", "items": {"type": "object", "properties": _DOCUMENT}}},
}
OnEnd = Callable[[bool], None]  # called at the end of an answer; True: the answer was sent
# Act in the address | act in the audit log
ACTS = {"ack": "inbox.ack", "requeue": "inbox.requeue", "park": "inbox.park"}


async def receive(call: Call) -> Response:
    """Receive documents and lease them to the caller."""
    query = call.request.query_params
    user = query.get("user", call.visitor.inbox or "")
    if not USER.fullmatch(user):
        raise BadRequest("The user of an inbox has up to 64 letters, digits, _ or -.")
    if call.visitor.inbox is not None and user != call.visitor.inbox:
        raise RoleMissing("This token may open one inbox only, and not this one.", inbox=call.visitor.inbox)
    wait_s = _number(call, "wait_s", 0.0, 0.0, WAIT_S_MAX)
    lease_s = _number(call, "lease_s", call.web.http.lease_s, 1.0, max(LEASE_S_MAX, call.web.http.lease_s))
    is_raw = RAW in call.request.headers.get("accept", "")
    documents_max = 1 if is_raw else int(_number(call, "max", 1, 1, DOCUMENTS_MAX))
    owner = call.visitor.key
    space = AnswerSpace(Reservation(call.web.memory, owner), Reservation(call.web.disk, owner))
    leases = list[DocumentLease]()
    try:
        if not call.web.polls.is_audited:
            await _note(call, user)
        with call.web.leases.reserved(owner, documents_max) as at_most:
            pulled = await _pull(call, user, at_most, wait_s, space)
            leases = call.web.leases.add(owner, pulled, lease_s)
        call.web.polls.reserve(user, pulled.documents, space)

        def on_end(is_sent: bool) -> None:
            space.release()
            if is_sent:
                call.web.leases.start_timers(leases)
            else:
                call.web.leases.give_up(leases)

        answer = _raw_answer(call, leases, on_end) if is_raw else _json_answer(call, leases, on_end)
        await _note(call, user, *leases)
    except BaseException:
        space.release()
        call.web.leases.give_up(leases)
        raise
    for lease in leases:
        lease.document.drop_body()  # the answer has it
    return answer


async def settle(call: Call) -> Response:
    """Acknowledge, requeue or park one document."""
    act = str(call.request.path_params["act"])
    if act not in ACTS:
        raise NoSuchPage("A document is settled by ack, requeue or park.")
    document = await call.web.leases.settle(call.visitor.key, str(call.request.path_params["lease"]), act)
    # Not before the answer: the document is settled, also if the audit log cannot be written now.
    visitor = call.visitor
    call.web.audit.note_soon(visitor.name, visitor.via, visitor.peer, ACTS[act], _labels(document), "done")
    return Response(status_code=204)


async def _note(call: Call, user: str, *leases: DocumentLease) -> None:
    with call.web.polls.auditing():
        await call.note("inbox.receive", {"user": user, **_labels(*(lease.document for lease in leases))})


def _labels(*documents: Document) -> dict[str, list[str]]:
    return {"documents": [full_label({"app_key": str(each.app_key), "lk0": each.lk0}) for each in documents]}


async def _pull(call: Call, user: str, at_most: int, wait_s: float, space: AnswerSpace) -> PulledDocuments:
    """Take documents from the inbox of a user. Do not wait while ``space`` is reserved: other answers need it."""
    client = call.visitor.login or call.web.client
    leave = call.web.streams.enter(call.visitor.key)
    try:
        async with call.web.polls.waiting(user, at_most, call.request, space) as at_most:
            return await client.pull(user, at_most=at_most, wait_s=0.0 if space.is_reserved else wait_s)
    finally:
        leave()


def _json_answer(call: Call, leases: list[DocumentLease], on_end: OnEnd) -> Response:
    """Return documents as JSON; the size is computed before the bodies are encoded."""
    objects = [in_json(msgspec.json.encode(_attributes(lease), enc_hook=str).decode()).encode() for lease in leases]
    bodies = [lease.document.body for lease in leases]
    size = sum(map(len, _json_chunks(objects, [b""] * len(objects)))) + sum(4 * -(-len(body) // 3) for body in bodies)
    return _response(call, _json_chunks(objects, bodies), size, {}, JSON, on_end)


def _response(
    call: Call, chunks: Iterator[bytes], size: int, headers: dict[str, str], media_type: str, on_end: OnEnd
) -> Response:
    """Return an answer in chunks. ``on_end`` gets whether the client was connected after the last chunk."""
    is_sent = False

    async def all_chunks() -> AsyncIterator[bytes]:
        nonlocal is_sent
        for chunk in chunks:
            yield chunk
        is_sent = not await call.request.is_disconnected()

    return ChunkedResponse(all_chunks(), size, headers, media_type, lambda: on_end(is_sent))


def _json_chunks(objects: list[bytes], bodies: Sequence[bytes | SpooledBody]) -> Iterator[bytes]:
    """Yield the answer: each object with its body in base64. Sent bodies are dropped."""
    remaining = deque(bodies)
    yield BEGIN
    for number, attributes in enumerate(objects):
        yield (b"," if number else b"") + attributes.removesuffix(b"}") + FIELD
        for chunk in chunks_of(remaining.popleft()):
            yield b64encode(chunk)
        yield b'"}'
    yield END


def _raw_answer(call: Call, leases: list[DocumentLease], on_end: OnEnd) -> Response:
    """Return the only document as bytes, with its attributes as headers; status 204 without one."""
    if not leases:
        on_end(True)
        return Response(status_code=204)
    (lease,) = leases
    body = lease.document.body
    headers = {"content-disposition": "attachment"}
    response = _response(call, chunks_of(body), len(body), headers, RAW, on_end)
    add_headers(response, _attributes(lease))
    return response


def _attributes(lease: DocumentLease) -> dict[str, object]:
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
