"""Documents and events as HTTP requests."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.app import Document, DocumentEvent, GroupMember
from semq.umx_t.app_key import AppKey
from semq.webhooks.messages import of_document, of_event

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
AT = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def document(**changes: object) -> Document:
    values: dict[str, object] = {
        "lk0": "1.10008.1.1.7.1", "source": "1.10008", "target": "56001", "app_key": AppKey("trade", "order", "", "S1"),
        "body": b"<order/>", "digest": "ab", "content_type": "application/xml", "submitted_at": AT,
    }  # fmt: skip
    return Document(**values | changes)  # type: ignore[arg-type]


def test_a_document_keeps_its_body_and_carries_its_attributes() -> None:
    request = of_document(document())
    assert (request.id, request.body) == ("1.10008.1.1.7.1", b"<order/>")
    assert request.headers["content-type"] == "application/xml"
    assert request.headers["ce-type"] == "semq.document"
    assert request.headers["semq-app-key"] == "trade/order//S1"
    assert request.headers["ce-time"] == "2026-11-22T12:00:00+00:00"
    assert (request.headers["semq-deliveries"], request.headers["semq-redelivered"]) == ("1", "0")
    assert "semq-order-key" not in request.headers


def test_the_trace_of_the_sender_continues_at_the_application() -> None:
    sent = {"traceparent": PARENT, "tracestate": "a=1", "lot": 7}
    headers = of_document(document(headers=sent)).headers
    assert (headers["traceparent"], headers["tracestate"]) == (PARENT, "a=1")
    forged = of_document(document(headers={"traceparent": f"{PARENT}\r\nx: y", "tracestate": "a=1"})).headers
    assert "traceparent" not in forged
    assert "tracestate" not in forged


def test_own_headers_correlation_id_and_type_are_headers_of_the_request() -> None:
    sent = {"X-Ref": "R 1", "x-correlation-id": "C1", "x-type": "order", "文": "x", "lot": 7, "note": "文\r\nx: y"}
    sent |= {"list": [1, "a"], "yes": True, "raw": b"\xff", "ends": "  a b ", "blank": " ", "empty": ""}
    headers = of_document(document(headers=sent)).headers
    own = {name.removeprefix("semq-header-"): value for name, value in headers.items() if "semq-header-" in name}
    assert own == {
        "x-ref": "R 1", "x-correlation-id": "C1", "x-type": "order", "lot": "7", "note": "%E6%96%87%0D%0Ax: y",
        "list": "[1, %22a%22]", "yes": "true", "raw": "ff", "ends": "%20%20a b%20",
        "blank": "%20", "empty": "",
    }  # fmt: skip
    assert headers["semq-headers-omitted"] == "1"


def test_own_headers_have_a_bound_because_servers_refuse_large_ones() -> None:
    sent = {"small": "s", "large": "x" * 9000, "last": "l"} | {f"h{number}": "v" * 100 for number in range(60)}
    headers = of_document(document(headers=sent)).headers
    own = {name: value for name, value in headers.items() if name.startswith("semq-header-")}
    assert {"semq-header-small", "semq-header-last"} < own.keys()
    assert 3800 < sum(len(name) + len(value) for name, value in own.items()) <= 4096
    assert int(headers["semq-headers-omitted"]) == len(sent) - len(own)


@given(st.dictionaries(st.text(max_size=12), st.recursive(st.text(max_size=20) | st.integers(), st.lists), max_size=6))
def test_no_own_header_can_add_or_break_a_header(sent: dict[str, Any]) -> None:
    for name, value in of_document(document(headers=sent)).headers.items():
        assert name.isascii()
        assert value.isascii()
        assert value.isprintable()
        assert value == value.strip()


@pytest.mark.parametrize(
    ("content_type", "posted"),
    [
        ("", "application/octet-stream"), (" ", "application/octet-stream"), (" text/plain ", "text/plain"),
        ('text/plain; name="100%.txt"', 'text/plain; name="100%.txt"'), ("é", "%C3%A9"),
    ],
)  # fmt: skip
def test_the_content_type_is_posted_as_it_is_except_for_what_http_does_not_permit(
    content_type: str, posted: str
) -> None:
    assert of_document(document(content_type=content_type)).headers["content-type"] == posted


@given(st.text(max_size=60), st.text(max_size=30))
def test_foreign_text_cannot_add_a_header(key: str, kind: str) -> None:
    headers = of_document(document(app_key=AppKey("", "", "", key), content_type=kind, source=key)).headers
    for value in headers.values():
        assert value.isascii()
        assert value.isprintable()
        assert value == value.strip()


def test_an_event_is_a_cloud_event_with_a_unique_id() -> None:
    request = of_event(DocumentEvent("failed", "lk", "1.56001", AppKey(), AT, 1, "REJECTED", "SEMQ-1203 too large"))
    content = json.loads(bytes(request.body))
    assert (content["specversion"], content["type"], content["id"]) == ("1.0", "semq.document.failed", request.id)
    assert content["data"]["reason"] == "SEMQ-1203 too large"
    assert of_event(DocumentEvent("sent", "lk", "1.56001", AppKey(), AT, 2)).id != request.id


def test_an_event_of_a_member_names_the_group() -> None:
    member = GroupMember("group", "3.retailers", 2, 3)
    request = of_event(DocumentEvent("delivered", "lk", "1.56001", AppKey(), AT, group=member))
    assert json.loads(bytes(request.body))["data"]["group"] == {
        "lk0": "group", "target": "3.retailers", "member": 2, "members": 3,
    }  # fmt: skip
    assert "group" not in json.loads(bytes(of_event(DocumentEvent("sent", "lk", "1.56001", AppKey(), AT)).body))["data"]


def test_refused_documents_without_a_locator_are_distinguished() -> None:
    events = [DocumentEvent("refused", "", "", AppKey(), AT, token=token) for token in ("S1\r\n", "S2")]
    first, second = map(of_event, events)
    assert first.id != second.id
    assert len({of_event(DocumentEvent("refused", "", "", AppKey(), AT, id=name)).id for name in ("1-1", "1-2")}) == 2
    assert first.id.isascii()
    assert first.id.isprintable()
    content = json.loads(bytes(second.body))
    assert content["data"]["token"] == "S2"
    assert "subject" not in content
