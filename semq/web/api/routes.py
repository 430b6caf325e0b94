"""All endpoints of the API, as rows, and their routes."""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Router

from semq.access_rights import AccessRole, AccessScope
from semq.service.operations.operation import Operation
from semq.web.api import attributes, documents, events, inbox
from semq.web.api.description import description
from semq.web.api.endpoint import JSON, Call, Endpoint, Parameter, Schema, json_response, route_of
from semq.web.api.node_operations import endpoints_of, parameters, schemas, schemas_of

PATH = "/api/v1"
# Rights to read state and trace of a sent document; one is enough
VIEWING = (AccessRole.VIEWER, AccessScope.EVENTS)
NAME = Parameter(
    "name",
    "path",
    {"type": "string"},
    "Short name, locator (LK0), row number, sql-NUMBER, AppKey, or key of the AppKey.",
    is_required=True,
)
BYTES = {"type": "string", "format": "binary"}


TEXT = {"type": "string"}
WHO = {
    "type": "object",
    "properties": {
        "name": TEXT, "via": TEXT, "rights": {"type": "array", "items": TEXT},
        "inbox": {"anyOf": [TEXT, {"type": "null"}]},
    },
}  # fmt: skip
OPENAPI = {"type": "object", "required": ["openapi", "info", "paths"], "properties": {"openapi": TEXT}}


async def show_caller(call: Call) -> Response:
    """Show the name and the rights of the caller."""
    visitor = call.visitor
    rights = sorted(str(right) for right in visitor.rights)
    return json_response({"name": visitor.name, "via": visitor.via, "rights": rights, "inbox": visitor.inbox})


def endpoints(kind: str, table: Mapping[str, Operation]) -> list[Endpoint]:
    """Return the endpoints of a kind of node."""
    any_right = tuple(AccessRole) + tuple(AccessScope)
    rows = [
        Endpoint("GET", "/openapi.json", "openapi", "Return this document.", _describe, (), result=OPENAPI),
        Endpoint(
            "GET",
            "/who",
            "who",
            "Show the name and the rights of the caller.",
            show_caller,
            any_right,
            answers={200: "Name and rights."},
            result=WHO,
        ),
    ]
    if kind == "local":
        rows += _document_endpoints(table)
    return [*rows, *endpoints_of(table)]


def _document_endpoints(table: Mapping[str, Operation]) -> list[Endpoint]:
    schema, definitions = schemas(table["msg.submit"])
    by_header = [
        Parameter(attributes.header_of(argument.name), "header", argument.schema, argument.meaning)
        for argument in parameters(schema)
        if argument.name in attributes.NAMES and argument.name != "target"
    ]
    target = next(argument for argument in parameters(schema) if argument.name == "target")
    key = Parameter("Idempotency-Key", "header", {"type": "string", "maxLength": 200}, "The same as SEMQ-Token.")
    form = {"$ref": "#/components/schemas/SubmitDocument"}
    result, submitted_definitions = schemas_of(documents.SubmissionAnswer)
    search, search_definitions = schemas(table["msg.list"])
    number = {"type": "number", "minimum": 0}
    pull = (
        Parameter(
            "user",
            "query",
            {"type": "string", "pattern": "^[A-Za-z0-9_-]{0,64}$"},
            "User whose inbox is read; default: the only inbox of the token, or that of the institution.",
        ),
        Parameter(
            "wait_s", "query", number | {"maximum": inbox.WAIT_S_MAX}, "Longest wait for a document, in seconds."
        ),
        Parameter(
            "max",
            "query",
            {"type": "integer", "minimum": 1, "maximum": inbox.DOCUMENTS_MAX},
            "Largest number of documents.",
        ),
        Parameter(
            "lease_s",
            "query",
            {"type": "number", "minimum": 1, "maximum": inbox.LEASE_S_MAX},
            "Time to settle the documents, in seconds.",
        ),
    )
    lease = (
        Parameter("lease", "path", {"type": "string"}, "The lease of the document.", is_required=True),
        Parameter(
            "act", "path", {"type": "string", "enum": list(inbox.ACTS)}, "How to settle the document.", is_required=True
        ),
    )
    listen = (
        Parameter(
            "keys",
            "query",
            {"type": "string", "maxLength": 255},
            "Pattern of the events: EVENT.TARGET.TYPE with * and #.",
        ),
        Parameter(
            "queue",
            "query",
            {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
            "Name of a queue that keeps events between connections.",
        ),
    )
    submitted = {
        201: "The document is committed.",
        200: "A document with this token was committed before.",
        409: "",
        413: "",
        422: "",
        507: "",
    }
    shown = {200: "The present state.", 404: ""}
    range_of_body = (
        NAME,
        Parameter("Range", "header", {"type": "string"}, "One range of bytes, for instance `bytes=1000-`."),
        Parameter(
            "If-Range",
            "header",
            {"type": "string"},
            "ETag of an earlier answer; if the body has a different ETag, all bytes are returned.",
        ),
    )
    bytes_read = {200: "All bytes.", 206: "The bytes that Content-Range names.", 404: "", 416: ""}
    stream = ("text/event-stream",)

    def answer_of(operation: str, more_definitions: Schema | None = None) -> dict[str, Any]:
        result, found = schemas_of(table[operation].answer)
        return {"result": result, "definitions": found | (more_definitions or {})}

    return [
        Endpoint("POST", "/documents", "documents.submit", "Submit a document.", documents.submit,
                 (AccessScope.SUBMIT,), (target, key, *by_header), {"*/*": BYTES, documents.FORM: form}, submitted,
                 act=documents.ACT, definitions=definitions | submitted_definitions, result=result),
        Endpoint("GET", "/documents", "documents.search", "Search documents.", documents.search, (AccessRole.VIEWER,),
                 tuple(parameters(search)), **answer_of("msg.list", search_definitions)),
        Endpoint("GET", "/documents/{name:path}/trace", "documents.trace",
                 "Show the history of a document at all parties.", documents.trace, VIEWING, (NAME,), answers=shown,
                 **answer_of("msg.trace")),
        Endpoint("GET", "/documents/{name:path}/body", "documents.body",
                 "Return the payload of a document, or a range of its bytes.", documents.body, (AccessRole.PAYLOAD,),
                 range_of_body, answers=bytes_read, media=("application/octet-stream",), act="msg.body"),
        Endpoint("GET", "/documents/{name:path}", "documents.show", "Show the state of a document.", documents.show,
                 VIEWING, (NAME,), answers=shown, **answer_of("msg.show")),
        Endpoint("POST", "/inbox/receive", "inbox.receive", "Receive documents.", inbox.receive,
                 (AccessScope.RECEIVE,), pull,
                 answers={200: "Documents with their leases.", 204: "No document is waiting.", 507: ""},
                 media=(JSON, inbox.RAW), act="inbox.receive", result=inbox.ANSWER),
        Endpoint("POST", "/inbox/leases/{lease}/{act}", "inbox.settle", "Settle a received document.",
                 inbox.settle, (AccessScope.RECEIVE,), lease, answers={204: "Settled.", 404: "", 410: ""}),
        Endpoint("GET", "/events", "events", "Follow events about sent documents.", events.events,
                 (AccessScope.EVENTS,), listen, media=stream),
    ]  # fmt: skip


async def _describe(call: Call) -> Response:
    kind = call.web.settings.node.kind

    async def make() -> Response:  # only once, because it takes long and everybody may request it
        return json_response(description(kind, endpoints(kind, call.web.operations.table)))

    document: Response = await call.web.snapshot("openapi", math.inf, make)
    return document


def api_routes(kind: str, table: Mapping[str, Operation]) -> list[BaseRoute]:
    """Return the routes of the API of a kind of node."""
    by_path: dict[str, dict[str, Endpoint]] = defaultdict(dict)
    for row in endpoints(kind, table):
        by_path[row.path][row.method] = row
    routes: list[BaseRoute] = [route_of(path, rows) for path, rows in by_path.items()]
    return [Mount(PATH, Router(routes, redirect_slashes=False), name="api")]
