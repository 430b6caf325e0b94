"""Errors as answers: HTTP statuses, a page for persons, application/problem+json (RFC 9457) for programs."""

from typing import Protocol

import msgspec
from starlette.responses import Response

from semq.app.errors import BodyNotKept, IncompleteAnswer, NoAnswer, RefusedByNode
from semq.errors import BadInput, Misconfigured, SemqError, Unavailable, fact_text
from semq.foreign_text import in_json
from semq.web import errors as own

# Class of the error | status; the first row that fits decides
STATUS: tuple[tuple[type[SemqError], int], ...] = (
    (own.NotSignedIn, 401),
    (own.RoleMissing, 403),
    (own.ForeignForm, 403),
    (own.NoSuchPage, 404),
    (own.BodyTooSlow, 408),
    (own.BodyTooLarge, 413),
    (own.ForeignHost, 421),
    (own.LeaseGone, 410),
    (own.RangeNotSatisfiable, 416),
    (own.TooManyRequests, 429),
    (own.SpoolFull, 507),
    (BodyNotKept, 507),
    (NoAnswer, 504),
    (Unavailable, 503),
    (Misconfigured, 503),
    (BadInput, 400),
)
# Code of a refusal by the node | status
REFUSALS = {
    "SEMQ-1207": 404,  # no such message
    "SEMQ-2101": 404,  # no such operation
    "SEMQ-2102": 400,  # arguments
    "SEMQ-1201": 422,  # no such target
    "SEMQ-1203": 413,  # too large
    "SEMQ-4403": 403,  # permissions of a user of the node
    "SEMQ-4404": 404,  # no such queue or exchange
}
REFUSED = 409  # all other refusals by the node
PROBLEM = "application/problem+json"


def status_of(error: SemqError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, RefusedByNode):
        return REFUSALS.get(error.code, REFUSED)
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def headers_of(error: SemqError) -> dict[str, str]:
    """Return the headers of an answer about an error."""
    if isinstance(error, own.NotSignedIn):
        return {"www-authenticate": 'Bearer realm="semq", Basic realm="semq", charset="UTF-8"'}
    if isinstance(error, own.RangeNotSatisfiable):
        return {"content-range": f"bytes */{error.facts['size']}", "accept-ranges": "bytes"}
    if isinstance(error, Unavailable):
        return {"retry-after": str(max(1, round(float(error.facts.get("retry_after_s", 1)))))}
    return {}


def problem(error: SemqError, instance: str = "", status: int | None = None) -> Response:
    """Return an error as a problem document.

    ``instance``: path of the request; empty: left out. ``status``: default: ``status_of(error)``.
    """
    status = status or status_of(error)
    facts: dict[str, object] = {
        "type": f"urn:semq:error:{error.code}",
        "title": error.text,
        "status": status,
        "code": error.code,
        "remedy": error.remedy,
        "retry": isinstance(error, Unavailable),
        "facts": {name: fact_text(value) for name, value in error.facts.items()},
    }
    if isinstance(error, IncompleteAnswer):
        facts["result"] = error.result
    if instance:
        facts["instance"] = instance
    text = in_json(msgspec.json.encode(facts).decode())
    return Response(text, status, headers_of(error), PROBLEM)


class FailureView(Protocol):
    """The part of ``pages.visit.Visit`` that the page of an error uses."""

    def render(self, template: str, http_status: int = 200, **context: object) -> Response:
        """Return a page made from a template."""


def failure_page(visit: FailureView, error: SemqError) -> Response:
    """Return an error as a page, with its HTTP status and headers."""
    response = visit.render("failure.html", status_of(error), error=error)
    response.headers.update(headers_of(error))
    return response
