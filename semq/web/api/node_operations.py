"""An endpoint for each operation of the node: ``/api/v1/GROUP/VERB``.

Every operation takes its arguments as a JSON object by POST. An operation that changes nothing also takes them from the
query of a GET, unless an argument is an object or a list of objects.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from semq.service.operations.operation import Kind, Operation
from semq.web.api.endpoint import JSON, Call, CallHandler, Endpoint, Parameter, Schema, json_response
from semq.web.errors import BadRequest
from semq.web.transport.bodies import bounded, read_body

PATIENCE_S = 60.0  # longest wait for an answer of the node
BODY_MAX = 8 << 20  # bytes of arguments; the definitions of a hub are the largest
# Status | its meaning; ``semq.web.api.description`` has the meanings of errors
ANSWERS = {200: "The result.", 404: "", 409: ""}
ANSWERS_TO_BODY = {**ANSWERS, 413: "", 422: ""}


def endpoints_of(table: Mapping[str, Operation]) -> Iterator[Endpoint]:
    """Yield the endpoints of a table of operations."""
    for row in table.values():
        schema, definitions = schemas(row)
        result, definitions_of_result = schemas_of(row.answer)
        path = "/" + row.name.replace(".", "/")
        body = {JSON: {"$ref": f"#/components/schemas/{row.arguments.__name__}"}}
        endpoint = partial(
            Endpoint, rights=(row.role,), act=row.name if row.is_recorded else "", result=result,
            definitions=definitions | definitions_of_result,
        )  # fmt: skip
        if row.kind is Kind.LOOK and not has_nested(schema):
            query = tuple(parameters(schema))
            yield endpoint("GET", path, row.name, row.summary, _by_query(row), parameters=query, answers=ANSWERS)
        post = f"{row.name}.post"
        yield endpoint("POST", path, post, row.summary, _by_body(row), body=body, answers=ANSWERS_TO_BODY)


def schemas(row: Operation) -> tuple[Schema, Schema]:
    """Return the JSON schema of an operation's arguments, and the schemas to which it refers, keyed by name."""
    schema, components = schemas_of(row.arguments)
    return components[schema["$ref"].rpartition("/")[2]], components


@cache
def schemas_of(type_: object) -> tuple[Schema, Schema]:
    """Return the JSON schema of a type, and the schemas to which it refers, keyed by name."""
    (schema,), components = msgspec.json.schema_components([type_], ref_template="#/components/schemas/{name}")
    return schema, components


def has_nested(schema: Schema) -> bool:
    """Whether an argument is an object, or a list of objects, so that the arguments do not fit into a query."""
    return any(map(_has_object, schema.get("properties", {}).values()))


def _has_object(schema: Schema) -> bool:
    variants = (schema, *schema.get("anyOf", ()))
    return any("object" in (variant.get("type"), variant.get("items", {}).get("type")) for variant in variants)


def parameters(schema: Schema) -> Iterator[Parameter]:
    """Yield the arguments as parameters of a query."""
    for name, argument_schema in schema.get("properties", {}).items():
        without_description = {key: value for key, value in argument_schema.items() if key != "description"}
        meaning = argument_schema.get("description", "")
        yield Parameter(name, "query", without_description, meaning, name in schema.get("required", ()))


def _is_list(schema: Schema) -> bool:
    return any(variant.get("type") == "array" for variant in (schema, *schema.get("anyOf", ())))


def _by_query(row: Operation) -> CallHandler:
    properties = schemas(row)[0].get("properties", {})
    lists = {name for name, argument_schema in properties.items() if _is_list(argument_schema)}

    async def handle(call: Call) -> Response:
        query = call.request.query_params
        for name in set(query):
            if name not in lists and len(query.getlist(name)) > 1:
                raise BadRequest(f"{name[:60]} is given twice.")
        arguments = {name: query.getlist(name) if name in lists else query[name] for name in query}
        return json_response(await call.web.operations.ask(call.visitor, row.name, arguments, PATIENCE_S))

    return handle


def _by_body(row: Operation) -> CallHandler:
    async def handle(call: Call) -> Response:
        async with received_object(call) as arguments:
            return json_response(await call.web.operations.ask(call.visitor, row.name, arguments, PATIENCE_S))

    return handle


@asynccontextmanager
async def received_object(call: Call, at_most: int = BODY_MAX) -> AsyncIterator[dict[str, object]]:
    """Read a JSON object, whose memory stays reserved until the end of the ``async with``.

    Raises BadRequest, BodyTooLarge, BodiesFull.
    """
    async with call.web.memory.reserved(0, call.visitor.key) as space:
        body = await read_body(bounded(call.request, at_most, space))
        space.release(kept=len(body))  # without an announced length, ``at_most`` bytes were reserved
        yield _read_object(call.request, body)


def _read_object(request: Request, body: bytes) -> dict[str, object]:
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON and not kind.endswith("+json"):
        raise BadRequest("The body has to be JSON.", content_type=kind[:80])
    try:
        return msgspec.json.decode(body or b"{}", type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("The body is not a JSON object.", fault=str(error)) from error
