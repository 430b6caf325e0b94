"""Documents: submit and search them, and read state, trace and body of a document.

A submission is answered after the commit at the node. The header ``Idempotency-Key`` is the token of the document: a
repeated request with the same token makes no second document.
"""

from typing import Any

from msgspec import Struct
from starlette.responses import Response

from semq.access_rights import AccessRole
from semq.amqp.errors import LocalMisuse, SyntaxFault
from semq.app import Client, RefusedByNode
from semq.app.values import Sent
from semq.errors import BadInput, SemqError
from semq.foreign_text import shortened
from semq.trace_context import trace_context
from semq.transport.spool import SpooledBody
from semq.umx_t.headers import USER_HEADERS_DEPTH
from semq.web.api import attributes
from semq.web.api.endpoint import Call, json_response
from semq.web.api.node_operations import PATIENCE_S, received_object
from semq.web.errors import BadRequest, NoSuchPage
from semq.web.node.payloads import payload_chunks
from semq.web.transport.bodies import ChunkedResponse
from semq.web.transport.ranges import ByteRange, entity_tag, if_range_holds
from semq.web.transport.spooling import kept_body

FORM = "application/vnd.semq.document+json"  # attributes and body as one JSON object
FORM_BODY_MAX = 16 << 20  # bytes; the form is complete in memory
SUBMIT_S = 60.0
# The table of all headers is a level of its own.
NOT_CARRIED = f"A header or attribute cannot be carried over AMQP (headers: at most {USER_HEADERS_DEPTH - 1} levels)."
ACT = "document.submit"  # name of a submission in the audit log


async def submit(call: Call) -> Response:
    """Submit a document."""
    web = call.web
    given_attributes = attributes.attributes_of(call.request)
    is_form = str(given_attributes.get("content_type", "")).partition(";")[0].strip().lower() == FORM
    if is_form:
        del given_attributes["content_type"]
        at_most = min(web.settings.protocol.max_document_bytes, FORM_BODY_MAX)
        async with received_object(call, at_most * 4 // 3 + 65_536) as form:  # base64, and the attributes
            target, decoded, arguments = attributes.submission(attributes.combined(form, given_attributes))
            return await _submit(call, target, decoded, arguments)
    target, _, arguments = attributes.submission(given_attributes)
    at_most = min(web.settings.largest_document_bytes, web.http.spool_bytes)
    async with kept_body(call.request, at_most, web.memory, web.disk, call.visitor.key) as body:
        return await _submit(call, target, body, arguments)


class SubmissionAnswer(Struct, frozen=True, omit_defaults=True):
    """The answer to a submission; the fields are those of ``Sent``."""

    lk0: str
    name: str
    digest: str
    repeated: bool
    token: str
    not_before: int = 0
    members: int = 0


async def _submit(call: Call, target: str, body: bytes | SpooledBody, arguments: dict[str, Any]) -> Response:
    if headers := trace_context(call.request.headers) | dict(arguments.get("headers", {})):
        arguments = arguments | {"headers": headers}
    facts = {"target": target, "app_key": str(arguments.get("app_key", "")), "bytes": len(body)}
    try:
        web, visitor, is_large = call.web, call.visitor, isinstance(body, SpooledBody)
        client = visitor.bulk or web.bulk if is_large else visitor.login or web.client
        sent = await _send(client, target, body, arguments)
    except SemqError as error:
        outcome = "refused" if isinstance(error, BadInput) else "failed"
        _note(call, facts, outcome, str(error))
        raise
    _note(call, facts | {"name": sent.name, "repeated": sent.repeated}, "done")
    answer = SubmissionAnswer(
        sent.lk0, sent.name, sent.digest, sent.repeated, sent.token, sent.not_before, sent.members
    )
    location = {"location": f"/api/v1/documents/{sent.lk0}"}
    return json_response(answer, 200 if sent.repeated else 201, location)


async def _send(client: Client, target: str, body: bytes | SpooledBody, arguments: dict[str, Any]) -> Sent:
    try:
        return await client.send(target, body, timeout_s=SUBMIT_S, **arguments)
    except (TypeError, ValueError, OverflowError) as error:  # AMQP has no type for the value of a header
        raise BadRequest(NOT_CARRIED, fault=str(error)) from error
    except RefusedByNode as error:
        if isinstance(error.__cause__, LocalMisuse | SyntaxFault):  # nothing was sent
            raise BadRequest(NOT_CARRIED, fault=shortened(error.text, 200)) from error
        raise


def _note(call: Call, facts: dict[str, object], outcome: str, detail: str = "") -> None:
    call.web.audit.note_soon(call.visitor.name, call.visitor.via, call.visitor.peer, ACT, facts, outcome, detail)


async def search(call: Call) -> Response:
    """Search documents by key, partner, state and time."""
    return json_response(
        await call.web.operations.ask(call.visitor, "msg.list", dict(call.request.query_params), PATIENCE_S)
    )


async def show(call: Call) -> Response:
    """Show the state of one document."""
    return json_response(await _record(call))


async def trace(call: Call) -> Response:
    """Show the history of a document at all parties."""
    record = await _record(call)
    arguments = {"id": record.get("lk0") or _name(call), "parties": True}
    return json_response(await call.web.client.request("msg.trace", arguments, timeout_s=PATIENCE_S))


async def body(call: Call) -> Response:
    """Return the payload of a document that is still in a queue of the node, or one range of its bytes."""
    byte_range = ByteRange.requested(call.request)
    arguments: dict[str, Any] = {"id": _name(call), "offset": 0}
    if byte_range is not None:
        arguments |= {"offset": byte_range.expected.begin, "length": byte_range.expected.size}
    has_body = call.request.method != "HEAD"
    if not has_body:
        arguments["length"] = 0
    space = await call.web.memory.reserve(call.web.settings.protocol.max_document_bytes, call.visitor.key)
    try:
        answer = await call.web.operations.ask(call.visitor, "msg.body", arguments, PATIENCE_S)
        tag = entity_tag(str(answer["digest"]))
        extent = byte_range.within(answer["size"]) if byte_range and if_range_holds(call.request, tag) else None
        client = call.visitor.login or call.web.client
        chunks, size = payload_chunks(client, call.visitor.name, answer, arguments["offset"], extent)
        chunks = chunks if has_body else ()
    except BaseException:
        space.release()
        raise
    headers = {
        "content-disposition": "attachment", "semq-lk0": str(answer["lk0"]), "semq-digest": str(answer["digest"]),
        "accept-ranges": "bytes",
    }  # fmt: skip
    if tag:
        headers["etag"] = tag
    if extent is not None:
        headers["content-range"] = f"bytes {extent.begin}-{extent.end - 1}/{answer['size']}"
    status = 200 if extent is None else 206
    return ChunkedResponse(chunks, size, headers, "application/octet-stream", space.release, status)


async def _record(call: Call) -> dict[str, object]:
    """Return the record of a document; a caller without the role viewer sees sent documents only."""
    record: dict[str, object] = await call.web.client.request("msg.show", {"id": _name(call)})
    if not call.visitor.may(AccessRole.VIEWER) and record.get("side", "outbound") == "inbound":
        raise NoSuchPage("There is no such sent document.").with_remedy(
            "Compare the name with the name in the answer to the submission; `semq msg list` lists the documents."
        )
    return record


def _name(call: Call) -> str:
    return str(call.request.path_params["name"])
