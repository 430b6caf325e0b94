"""Deliveries as values: a document can be read even if fields of the message are missing or malformed."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest

from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered
from semq.amqp.wire import FieldArray, Table, Timestamp
from semq.app import AlreadyGone, AppKey
from semq.app.values import Document, Fate, moment, read_document, read_event, reason_text
from semq.moments import EPOCH
from tests.app.without_node import closed_channel


def delivered(properties: Properties, body: bytes = b"body") -> Delivered:
    return Delivered(1, "tag", 7, True, "semq", "1.56001", ContentHeader.build(len(body), properties), body)


def test_a_document_without_headers_is_a_document() -> None:
    document = read_document(closed_channel(), delivered(Properties()))
    assert (document.lk0, document.source, document.app_key, document.deliveries) == ("", "", AppKey(), 1)
    assert (document.redelivered, document.submitted_at) == (True, EPOCH)


def test_headers_of_the_sender_are_kept_apart_from_attributes() -> None:
    headers: Table = {"@Source": b"1.10008", "@AppKey": "a/b/c/d", "@SubmittedAt": 1500, "own": "kept"}
    document = read_document(closed_channel(), delivered(Properties(headers=headers, message_id="lk0")))
    assert (document.source, document.app_key, document.headers) == ("1.10008", AppKey(*"abcd"), {"own": "kept"})
    assert document.submitted_at == datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)


def test_a_description_has_only_values_of_json() -> None:
    numbers: FieldArray = [1.5, float("nan"), float("-inf"), Decimal("12.50"), Timestamp(5)]
    headers: Table = {"bytes": b"\x01x", "table": {"numbers": numbers}}
    described = read_document(closed_channel(), delivered(Properties(headers=headers))).described()
    assert described["headers"] == {"bytes": "0178", "table": {"numbers": [1.5, "nan", "-inf", "12.50", 5]}}
    assert msgspec.json.encode(described)


def test_a_document_whose_body_does_not_have_its_digest_is_not_intact() -> None:
    assert not read_document(closed_channel(), delivered(Properties(headers={"@Digest": "00"}))).is_intact


@pytest.mark.parametrize("act", ["ack", "requeue", "reject"])
async def test_a_document_of_a_lost_connection_cannot_be_settled(act: str) -> None:
    document = read_document(closed_channel(), delivered(Properties()))
    with pytest.raises(AlreadyGone):
        await getattr(document, act)()
    with pytest.raises(AlreadyGone):
        await getattr(Document("lk0", "", "", AppKey(), b"", ""), act)()


def test_an_event_is_read() -> None:
    content = {"event": "failed", "lk0": "x", "app_key": "a/b/c/d", "at": 1000, "reason": ["SEMQ-1209", "unreadable"]}
    event = read_event(closed_channel(), delivered(Properties(message_id="x/failed/1"), json.dumps(content).encode()))
    assert event.id == "x/failed/1"
    assert (event.kind, event.app_key, event.reason) == ("failed", AppKey(*"abcd"), "SEMQ-1209 unreadable")
    assert event.is_final
    assert event.fate == Fate("x", "UNKNOWN", "SEMQ-1209 unreadable")


@pytest.mark.parametrize(
    "group",
    [{}, {"lk0": "x", "target": "3.g", "member": 1}, {"lk0": "x", "target": "3.g", "member": "1", "members": 2}, 5],
)
def test_an_event_with_an_incomplete_group_is_read_without_a_group(group: object) -> None:
    event = read_event(
        closed_channel(), delivered(Properties(), json.dumps({"event": "failed", "group": group}).encode())
    )
    assert (event.kind, event.group) == ("failed", None)


def test_malformed_moments_and_reasons_are_replaced() -> None:
    for malformed in (None, "soon", -1, float("nan"), float("inf"), 253_402_300_800_000, 2**63 - 1):
        assert moment(malformed) == EPOCH
    assert (reason_text(None), reason_text("why"), reason_text(["a", "b"])) == ("", "why", "a b")
