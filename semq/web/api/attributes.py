"""Attributes of documents over HTTP: as headers ``SEMQ-…``, in the query, or as keys of the JSON form.

The names follow from the arguments of ``msg.submit``: ``save_fwd`` is the header ``SEMQ-Save-Fwd``. Headers are UTF-8.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from local_node.operations.submission import SubmitDocument
from semq.app.values import Document
from semq.foreign_text import shown
from semq.service.operations.arguments import read_arguments
from semq.trace_context import trace_context
from semq.umx_t.app_key import AppKey
from semq.web.errors import BadRequest

PREFIX = b"semq-"
OWN_PREFIX = b"semq-header-"  # of the application's own headers
TOKEN_HEADER = b"idempotency-key"  # the same as SEMQ-Token
# Arguments of msg.submit without a header SEMQ-…
NOT_PREFIXED = ("body_base64", "headers", "sender", "content_type", "content_encoding")
NAMES = tuple(
    field.encode_name for field in msgspec.structs.fields(SubmitDocument) if field.encode_name not in NOT_PREFIXED
)
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # token of RFC 9110, section 5.6.2
# A string of structured fields with parameters, which have no meaning here (RFC 9651, sections 3.3 and 3.3.3)
QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"[ ]*(?:;.*)?')
ESCAPED = re.compile(r'\\(["\\])')
# Content-Type that curl and others add to any body, so that it says nothing about a document
DEFAULT_OF_CLIENTS = b"application/x-www-form-urlencoded"
HEADER_MAX = 2000  # characters of an attribute; a longer one is cut
OMITTED = "semq-headers-omitted"
OWN_BYTES_MAX = 4096  # of names and values of all own headers: many clients refuse more than 8 KiB of headers
# Header | argument of msg.submit
STANDARD_HEADERS = {b"content-type": "content_type", b"content-encoding": "content_encoding"}
BY_HEADER = (
    {PREFIX + name.replace("_", "-").encode(): name for name in NAMES} | {TOKEN_HEADER: "token"} | STANDARD_HEADERS
)


def header_of(name: str) -> str:
    """Return the header of an attribute: SEMQ-Save-Fwd for save_fwd."""
    return "SEMQ-" + "-".join(part.capitalize() for part in name.split("_"))


def attributes_of(request: Request) -> dict[str, object]:
    """Return the attributes in headers and query of a request, as arguments of ``msg.submit``. Raises BadRequest."""
    arguments: dict[str, object] = {}
    own_headers: dict[str, object] = {}
    for name, value in request.headers.raw:
        if name.startswith(OWN_PREFIX):
            _put(own_headers, _text(name[len(OWN_PREFIX) :]), _text(value), "header")
        elif name == TOKEN_HEADER:
            _put(arguments, "token", _key(_text(value)))
        elif name in BY_HEADER:
            if name != b"content-type" or value.strip().lower() != DEFAULT_OF_CLIENTS:
                _put(arguments, BY_HEADER[name], _text(value))
        elif name.startswith(PREFIX):
            raise BadRequest(f"There is no attribute {_text(name)[:60]}.", attributes=" ".join(map(header_of, NAMES)))
    for key, text in request.query_params.multi_items():
        _put(arguments, key, text)
    return arguments | ({"headers": own_headers} if own_headers else {})


def combined(form: dict[str, Any], given: dict[str, Any]) -> dict[str, object]:
    """Return the attributes of the JSON form together with those in headers and query. Raises BadRequest."""
    attributes = dict(form)
    own = attributes.get("headers")
    if isinstance(own, dict):
        attributes["headers"] = dict(own)
        for name, text in given.get("headers", {}).items():
            _put(attributes["headers"], name, text, "header")
    for name, text in given.items():
        if name != "headers" or not isinstance(own, dict):
            _put(attributes, name, text)
    return attributes


def _put(values: dict[str, object], name: str, value: object, kind: str = "attribute") -> None:
    """Refuse a second, different value: a proxy may join two headers of one name to one value (RFC 9110, 5.3)."""
    if str(values.setdefault(name, value)) != str(value):
        raise BadRequest(f"The {kind} {name[:60]} is given twice, with different values.")


def _key(text: str) -> str:
    """Return the key in a header Idempotency-Key: a quoted string of structured fields (RFC 9651), or an unquoted text.

    Both forms of one key are the same token.
    """
    if not text.startswith('"'):
        return text
    string = QUOTED.fullmatch(text)
    if string is None:
        raise BadRequest('A quoted Idempotency-Key ends with a quotation mark and has \\ only before " and \\.')
    return ESCAPED.sub(r"\1", string[1])


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise BadRequest("Headers with attributes must be UTF-8.") from None


def submission(attributes: Mapping[str, object]) -> tuple[str, bytes, dict[str, object]]:
    """Return target, body and other arguments of ``Client.send``; the body is empty unless it is in the JSON form.

    Raises BadArguments.
    """
    arguments = read_arguments("documents", SubmitDocument, attributes)
    values = {name: getattr(arguments, name) for name in (*NAMES, "content_type", "content_encoding", "headers")}
    present = {name: value for name, value in values.items() if value is not None and name != "target"}
    if isinstance(present.get("app_key"), tuple | list):
        present["app_key"] = AppKey(*present["app_key"])
    return arguments.target, arguments.body_base64, present


def described(document: Document) -> dict[str, object]:
    """Return the attributes of a received document as a JSON object, without the payload."""
    return document.described() | {"bytes": document.size}


def add_headers(response: Response, attributes: Mapping[str, Any]) -> None:
    """Add the attributes of a document to an answer as headers ``SEMQ-…``, and its ``traceparent``, ``tracestate``."""
    own = attributes.get("headers", {})
    response.headers.update(trace_context(own))
    for name, value in (*_as_headers(attributes), *_own_headers(own)):
        response.raw_headers.append((name.encode(), value.encode("utf-8", "replace")))


def _as_headers(attributes: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in attributes.items():
        text = shown(str(int(value) if isinstance(value, bool) else value), HEADER_MAX)
        if name != "headers" and text:
            yield header_of(name).lower(), text


def _own_headers(own: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the headers of the application that HTTP can carry unchanged, and the number of the others."""
    taken: set[str] = set()
    room, omitted = OWN_BYTES_MAX, 0
    for name, value in own.items():
        header = f"{OWN_PREFIX.decode()}{name.lower()}"
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        size = len(header) + len(text.encode("utf-8", "replace"))
        is_fit = HEADER_NAME.fullmatch(name) and text == text.strip() and shown(text, OWN_BYTES_MAX) == text
        if is_fit and size <= room and header not in taken:
            taken.add(header)
            room -= size
            yield header, text
        else:
            omitted += 1
    if omitted:
        yield OMITTED, str(omitted)
