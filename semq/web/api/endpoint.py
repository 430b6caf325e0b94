"""An endpoint of the API as a row of a table, and the frame around its handler.

If the endpoint needs a right, the frame authenticates the caller, counts the request and checks the right. It turns
errors into problem documents.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from semq.access_rights import Right
from semq.errors import SemqError
from semq.foreign_text import in_json
from semq.web.access.visitor import Visitor
from semq.web.api.authentication import authenticate
from semq.web.errors import RoleMissing
from semq.web.services import Web, web_of
from semq.web.transport.failures import problem

JSON = "application/json"


class Call(Struct, frozen=True):
    """A request and its caller, which has the right that the endpoint needs."""

    request: Request
    web: Web
    visitor: Visitor

    async def note(self, act: str, arguments: Mapping[str, object], **more: Any) -> int:
        """Write a line of the audit log; return its number."""
        return await self.web.audit.note(self.visitor.name, self.visitor.via, self.visitor.peer, act, arguments, **more)


CallHandler = Callable[[Call], Awaitable[Response]]
Schema = dict[str, Any]  #: a JSON schema, or several by name


class Parameter(Struct, frozen=True):
    """A parameter of an endpoint, in the OpenAPI document."""

    name: str
    place: str  #: query, header, path
    schema: Schema
    meaning: str
    is_required: bool = False


class Endpoint(Struct, frozen=True):
    """One endpoint of the API."""

    method: str
    path: str
    name: str
    summary: str
    handler: CallHandler
    rights: tuple[Right, ...]  #: one of them is enough; empty: no right is needed
    parameters: tuple[Parameter, ...] = ()
    body: Schema = field(default_factory=dict)  #: media type | schema
    #: status | meaning. The text for an error status is empty: module ``description`` has the meanings.
    answers: Mapping[int, str] = field(default_factory=dict)
    media: tuple[str, ...] = (JSON,)  #: media types of the answer
    result: Schema = field(default_factory=dict)  #: schema of the answer in JSON; empty: none is in JSON
    act: str = ""  #: name in the audit log of a request that is refused because a right is missing; empty: not recorded
    definitions: Schema = field(default_factory=dict)  #: schemas that the row refers to


def route_of(path: str, endpoints: Mapping[str, Endpoint]) -> Route:
    """Return the route of a path; ``endpoints``: HTTP method | endpoint."""

    async def respond(request: Request) -> Response:
        row = endpoints.get("GET" if request.method == "HEAD" else request.method)
        assert row is not None
        return await answer(request, row)

    return Route(path, respond, methods=list(endpoints), name=f"api:{path}")


async def answer(request: Request, row: Endpoint) -> Response:
    """Answer a request to the endpoint of a row."""
    web = web_of(request)
    try:
        if not row.rights:
            return await row.handler(Call(request, web, NOBODY))
        visitor = await authenticate(request, web)
        web.rates.count(visitor.key)
        call = Call(request, web, visitor)
        if not any(right in visitor.rights for right in row.rights):
            if row.act:
                await call.note(row.act, {}, outcome="refused", detail=RoleMissing.code)
            raise visitor.lacks(*row.rights)
        return await row.handler(call)
    except SemqError as error:
        return problem(error, request.url.path)


NOBODY = Visitor("", "", "", frozenset())


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a value as JSON; values that JSON cannot represent become texts."""
    text = in_json(msgspec.json.encode(value, enc_hook=str).decode())
    return Response(text, status, dict(headers or {}), JSON)
