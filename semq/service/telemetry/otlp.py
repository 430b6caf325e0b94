"""Spans as OTLP 1.x in JSON, and the answers of a collector (opentelemetry.io/docs/specs/otlp, section OTLP/HTTP).

Attributes follow the semantic conventions for messaging. They contain no payload, key or header of a document.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from semq import __version__
from semq.engine.document_spans import Span

INTERNAL, PRODUCER, CONSUMER = 1, 4, 5
# Stage | kind of its span, and type of its operation, if the conventions have one
KINDS = {
    "submit": (PRODUCER, "send"),
    "deliver": (INTERNAL, ""),
    "forward": (INTERNAL, ""),
    "store": (INTERNAL, ""),
    "record": (CONSUMER, "receive"),
    "wait": (INTERNAL, ""),
    "process": (CONSUMER, "process"),
}
FAILED = 2  # code of the status of a span
RETRIABLE = frozenset({429, 502, 503, 504})  # HTTP statuses after which the same request may succeed
SAMPLED = 1  # flag of a span


def encoded(spans: Iterable[Span], resource: Mapping[str, object]) -> bytes:
    """Return the body of a request."""
    scope_spans = {"scope": {"name": "semq", "version": __version__}, "spans": [_span(span) for span in spans]}
    resource_spans = {"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope_spans]}
    return msgspec.json.encode({"resourceSpans": [resource_spans]})


def rejected(answer: bytes) -> tuple[int, str]:
    """Return the number of rejected spans in a successful answer, and the reason."""
    try:
        partial_success = msgspec.json.decode(answer or b"{}", type=_Answer).partial_success
        return int(partial_success.rejected_spans), partial_success.error_message
    except (ValueError, RecursionError):  # RecursionError: nested too deeply
        return 0, ""


def pause_of(retry_after: str | None, now: datetime) -> float:
    """Return the pause in seconds of a header Retry-After (a number or a date); 0 if it is missing or unreadable."""
    if not retry_after:
        return 0.0
    if retry_after.isdecimal() and retry_after.isascii():
        return float(retry_after[:9])
    try:
        until = parsedate_to_datetime(retry_after)
    except ValueError:
        return 0.0
    return max((until.replace(tzinfo=until.tzinfo or UTC) - now).total_seconds(), 0.0)


class _PartialSuccess(msgspec.Struct, rename="camel"):
    rejected_spans: int | str = 0  #: protobuf writes 64-bit numbers in JSON as texts
    error_message: str = ""


class _Answer(msgspec.Struct, rename="camel"):
    partial_success: _PartialSuccess = msgspec.field(default_factory=_PartialSuccess)


def _span(span: Span) -> dict[str, object]:
    kind, operation = KINDS[span.stage]
    attributes = {
        "messaging.system": "semq",
        "messaging.operation.name": span.stage,
        "messaging.operation.type": operation,
        "messaging.destination.name": span.target,
        "messaging.message.id": span.lk0,
        "messaging.message.body.size": span.size,
        "semq.attempt": span.att,
        "error.type": span.error,
    }
    fields: dict[str, object] = {
        "traceId": span.parent.trace_id,
        "spanId": span.span_id,
        "flags": SAMPLED,
        "name": f"{span.stage} {span.target}",
        "kind": kind,
        "startTimeUnixNano": _nanoseconds(span.began),
        "endTimeUnixNano": _nanoseconds(span.ended),
        "attributes": _attributes(attributes),
        "events": [{"name": name, "timeUnixNano": _nanoseconds(at)} for name, at in span.steps],
        "status": {"code": FAILED, "message": span.error} if span.error else {},
    }
    if span.parent_id:
        fields["parentSpanId"] = span.parent_id
    if span.parent.state:
        fields["traceState"] = span.parent.state
    return fields


def _attributes(values: Mapping[str, object]) -> list[dict[str, object]]:
    """Return the non-empty attributes in the form of OTLP."""
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value]


def _value(value: object) -> dict[str, str]:
    return {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}


def _nanoseconds(ms: int) -> str:
    return str(ms * 1_000_000)
