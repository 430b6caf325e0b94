"""The OpenAPI 3.1 document of a kind of node, derived from the rows of the endpoints when it is first requested."""

import re
from collections.abc import Iterable
from http import HTTPStatus

from semq import __version__
from semq.web.api.endpoint import JSON, Endpoint, Parameter, Schema

TITLES = {"local": "SEMQ: node of an institution", "platform": "SEMQ: hub"}
ABOUT = (
    "Errors are application/problem+json with a stable code (`semq errors lookup CODE`) and a remedy. `retry` states"
    " whether the same request may succeed later; Retry-After states when. Times in requests, and in answers about"
    " messages, queues and the broker, are numbers: milliseconds since 1970 UTC. Times of received documents and of"
    " events, and in answers about the node, certificates, tokens, jobs and the audit log, are texts: ISO 8601 with the"
    " offset from UTC."
)
# The schema of a problem document (RFC 9457)
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "code", "remedy", "retry", "facts"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "pattern": "^SEMQ-[0-9]{4}$"},
        "remedy": {"type": "string"},
        "retry": {"type": "boolean"},
        "facts": {"type": "object", "additionalProperties": {"type": "string"}},
        "instance": {"type": "string"},
    },
}
SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "Made by `semq token create`."},
    "user": {"type": "http", "scheme": "basic", "description": "A user of the node ([amqp.users])."},
    "certificate": {"type": "mutualTLS", "description": "A client certificate ([http.certificates])."},
}
# Status | its meaning
MEANINGS = {
    400: "The request is wrong.",
    401: "The request has no valid login.",
    403: "The caller does not have the right.",
    404: "Nothing has this name.",
    409: "The node refuses the request in the present state.",
    410: "The lease of the document has ended.",
    413: "The body is too large.",
    416: "The body has none of the requested bytes.",
    421: "The request names a host that is not this node.",
    422: "The target is unknown.",
    429: "Too many requests.",
    503: "The node or its database is not available.",
    504: "The node does not answer in time.",
    507: "There is no room for the body.",
}
# Status | name of the response
PROBLEMS = {status: HTTPStatus(status).phrase.replace(" ", "") for status in MEANINGS}
COMMON = (400, 401, 403, 421, 429, 503, 504)  # errors of every endpoint that needs a right
CONVERTOR = re.compile(r":[a-z]+}")  # in Starlette's paths, for instance {name:path}


def description(kind: str, endpoints: Iterable[Endpoint]) -> Schema:
    """Return the OpenAPI document for a kind of node."""
    paths: dict[str, dict[str, object]] = {}
    schemas: Schema = {"Problem": PROBLEM}
    for row in endpoints:
        paths.setdefault(CONVERTOR.sub("}", row.path), {})[row.method.lower()] = _operation(row)
        schemas |= row.definitions
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLES[kind], "version": __version__, "description": ABOUT},
        "servers": [{"url": "/api/v1"}],
        "security": [{name: []} for name in SECURITY],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "responses": _problems(),
            "securitySchemes": SECURITY,
        },
    }


def _operation(row: Endpoint) -> dict[str, object]:
    rights = [str(right) for right in row.rights]
    described: dict[str, object] = {
        "operationId": row.name,
        "summary": row.summary,
        "description": f"Needs {' or '.join(rights)}." if rights else "Needs no right.",
        "tags": [row.name.partition(".")[0]],
        "x-semq-rights": rights,
    }
    if not rights:
        described["security"] = []
    if row.parameters:
        described["parameters"] = [_parameter(parameter) for parameter in row.parameters]
    if row.body:
        content = {media: {"schema": dict(schema)} for media, schema in row.body.items()}
        described["requestBody"] = {"required": True, "content": content}
    described["responses"] = _responses(row)
    return described


def _parameter(parameter: Parameter) -> dict[str, object]:
    described = {
        "name": parameter.name, "in": parameter.place, "schema": dict(parameter.schema),
        "description": parameter.meaning,
    }  # fmt: skip
    return described | ({"required": True} if parameter.is_required else {})


def _responses(row: Endpoint) -> dict[str, object]:
    results = {status: text for status, text in row.answers.items() if status < 400}
    if not results:
        results[200] = "The result."
    described: dict[str, object] = {
        str(status): {"description": text} | _content(row, status) for status, text in results.items()
    }
    problems = {*(COMMON if row.rights else ()), *(status for status in row.answers if status >= 400)}
    return described | {
        str(status): {"$ref": f"#/components/responses/{PROBLEMS[status]}"} for status in sorted(problems)
    }


def _content(row: Endpoint, status: int) -> dict[str, object]:
    described = {"schema": dict(row.result)} if row.result else {}
    return {} if status == 204 else {"content": {media: described if media == JSON else {} for media in row.media}}


def _problems() -> dict[str, object]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {PROBLEMS[status]: {"description": text, "content": content} for status, text in MEANINGS.items()}
