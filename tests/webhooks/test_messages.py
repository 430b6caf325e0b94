"""Documents and events as HTTP requests."""

import json
from datetime import UTC, datetime

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
