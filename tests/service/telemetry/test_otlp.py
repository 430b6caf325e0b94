"""Spans as OTLP, and answers of a collector."""

import json
from datetime import UTC, datetime

import pytest

from semq.engine.document_spans import PARENTS, Span
from semq.service.telemetry.otlp import KINDS, encoded, pause_of, rejected
from semq.trace_context import TraceParent

PARENT = TraceParent("ab" * 16, "cd" * 8, "a=1")
NOW = datetime(2031, 1, 1, tzinfo=UTC)


def test_a_span_is_encoded_in_the_form_of_the_standard() -> None:
    span = Span("deliver", PARENT, "12" * 8, "34" * 8, "LK0", "1.56001", 5, 7, 3, 1, "lost", (("sent", 6),))
    [resource] = json.loads(encoded([span], {"service.name": "semq-1", "semq.id": 4}))["resourceSpans"]
    assert resource["resource"]["attributes"] == [
        {"key": "service.name", "value": {"stringValue": "semq-1"}},
        {"key": "semq.id", "value": {"intValue": "4"}},
    ]
    [result] = resource["scopeSpans"][0]["spans"]
    attributes = {attribute["key"]: next(iter(attribute["value"].values())) for attribute in result.pop("attributes")}
    assert result == {
        "traceId": "ab" * 16, "spanId": "12" * 8, "parentSpanId": "34" * 8, "traceState": "a=1", "flags": 1,
        "name": "deliver 1.56001", "kind": 1, "startTimeUnixNano": "5000000", "endTimeUnixNano": "7000000",
        "events": [{"name": "sent", "timeUnixNano": "6000000"}], "status": {"code": 2, "message": "lost"},
    }  # fmt: skip
    assert attributes == {
        "messaging.system": "semq", "messaging.operation.name": "deliver", "messaging.destination.name": "1.56001",
        "messaging.message.id": "LK0", "messaging.message.body.size": "3", "semq.attempt": "1", "error.type": "lost",
    }  # fmt: skip


def test_a_root_has_no_parent_and_every_stage_has_a_kind() -> None:
    assert set(KINDS) == set(PARENTS)
    spans = [Span(stage, TraceParent("ab" * 16, ""), "12" * 8, "", "LK0", "1.2", 5, 5) for stage in KINDS]
    for result in json.loads(encoded(spans, {}))["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        assert "parentSpanId" not in result
        assert result["status"] == {}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", (0, "")),
        (b"{}", (0, "")),
        (b'{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "no"}}', (3, "no")),
        (b'{"partialSuccess": {"rejectedSpans": 3}}', (3, "")),
        (b'{"partialSuccess": {"rejectedSpans": "many"}}', (0, "")),
        (b'{"partialSuccess": null}', (0, "")),
        (b"<html>", (0, "")),
        (b"\xff", (0, "")),
        (b'{"x": ' + b"[" * 4000, (0, "")),
    ],
)
def test_rejected_spans_are_read_from_the_answer(answer: bytes, expected: tuple[int, str]) -> None:
    assert rejected(answer) == expected


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 0), ("", 0), ("7", 7), ("-7", 0), ("soon", 0), ("9" * 400, 999_999_999), ("٣", 0),
        ("Wed, 01 Jan 2031 00:00:30 GMT", 30), ("Wed, 01 Jan 2030 00:00:30 GMT", 0),
    ],
)  # fmt: skip
def test_the_pause_that_a_collector_requests_is_read(header: str | None, seconds: float) -> None:
    assert pause_of(header, NOW) == seconds
