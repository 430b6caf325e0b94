"""Envelopes as AMQP headers and back: strict reading of submissions, tolerant reading of peers, hostile headers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.errors import SemqError
from semq.umx_t.app_key import AppKey
from semq.umx_t.attributes import PROPERTIES
from semq.umx_t.envelope import Attributes, Envelope, Function, Primitive
from semq.umx_t.errors import BadAttribute, BadCombination, BadEnvelope
from semq.umx_t.headers import (
    APPLICATION,
    DATA_TYPE,
    TRANSPORT,
    packet_type,
    read_envelope,
    read_submission,
    read_type,
    write_envelope,
)
from semq.umx_t.status import SaveFwd
from tests.umx_t.samples.strategies import envelopes, numbers, printable, table_values

PEER = {"app_id": "1.10008", "message_id": "1.10008.1.1.ff.1"}


@given(envelopes)
def test_every_envelope_is_read_as_it_was_written(envelope: Envelope) -> None:
    properties, headers = write_envelope(envelope)
    assert read_envelope(properties, headers, str(envelope.target), envelope.attributes.user_headers) == envelope


def test_default_values_are_omitted() -> None:
    lk0 = read_envelope(PEER, {"@Sid": 0}, "56001").lk0
    plain = Envelope(source=lk0.node, target=lk0.node, lk0=lk0, attributes=Attributes(), sid=0)
    properties, headers = write_envelope(plain)
    assert properties == {**PEER, "type": DATA_TYPE}
    assert headers == {"@SaveFwd": 3, "@Ack2": 1, "@Att": 0, "@Digest": b"", "@SubmittedAt": 0, "@Sid": 0}


@pytest.mark.parametrize("function", Function)
@pytest.mark.parametrize("primitive", Primitive)
def test_packet_types_are_read_as_they_were_written(function: Function, primitive: Primitive) -> None:
    assert read_type(packet_type(function, primitive)) == (function, primitive)


def test_the_type_of_a_message_has_no_primitive() -> None:
    assert read_type(DATA_TYPE) == (Function.DATA, Primitive.NONE)


@pytest.mark.parametrize("text", [None, "", "1", "1.810.maybe", "1.811.request", "2.810.response", "0.810.request"])
def test_invented_types_are_refused(text: str | None) -> None:
    with pytest.raises(BadEnvelope):
        read_type(text)


# ---------------------------------------------------------------------------------- submissions of applications


def test_a_submission_with_every_attribute() -> None:
    headers = {
        "@SaveFwd": 3,
        "@Reliable": 1,
        "@Ack2": b"0",
        "@AppKey": ["trade", "order", "standard", "S0001"],
        "@Encrypt": "1",
        "@Fixed": True,
        "@OrderKey": b"customer-7",
        "@Token": "t-1",
        "@ExpiresAt": 10**11,
        "@NotBefore": 10**11 + 7,
    }
    properties = {"content_type": "text/xml", "content_encoding": "gzip", "priority": 4}
    assert {*headers} == {*APPLICATION}
    assert {*properties} == {*PROPERTIES}
    attributes, requests = read_submission(headers, properties, b"fields")
    assert requests == ("t-1", 10**11 + 7)
    assert attributes == Attributes(
        ack2=False,
        app_key=AppKey("trade", "order", "standard", "S0001"),
        encrypt=True,
        fixed=True,
        order_key="customer-7",
        content_type="text/xml",
        content_encoding="gzip",
        priority=4,
        expires_at=10**11,
        user_headers=b"fields",
    )


def test_defaults_of_a_submission() -> None:
    assert read_submission({}, {}) == (Attributes(), ("", 0))
    assert read_submission(dict.fromkeys(APPLICATION), {}) == (Attributes(), ("", 0))


@pytest.mark.parametrize("value", [1, "1", b"1", True])
def test_class_1_requests_no_receipt_by_default(value: Any) -> None:
    attributes, _ = read_submission({"@SaveFwd": value}, {})
    assert attributes.save_fwd is SaveFwd.DROP
    assert not attributes.ack2
    assert read_submission({"@SaveFwd": value, "@Ack2": 1}, {})[0].ack2


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"@SaveFwd": 7}, "@SaveFwd must be 1 (drop)"),
        ({"@SaveFwd": 3.7}, "@SaveFwd must be"),
        ({"@SaveFwd": float("inf")}, "@SaveFwd must be"),
        ({"@SaveFwd": "３"}, "@SaveFwd must be"),
        ({"@SaveFwd": []}, "@SaveFwd must be"),
        ({"@Ack2": 2}, "@Ack2 must be 0 or 1"),
        ({"@Ack2": {}}, "@Ack2 must be 0 or 1"),
        ({"@ExpiresAt": -1}, "integer of 0 or more"),
        ({"@ExpiresAt": True}, "integer of 0 or more"),
        ({"@ExpiresAt": 2**63}, "integer of 0 or more"),
        ({"@ExpiresAt": 253_402_300_800_000}, "the year 9999"),
        ({"@ExpiresAt": "5"}, "integer of 0 or more"),
        ({"@NotBefore": -1}, "integer of 0 or more"),
        ({"@NotBefore": 253_402_300_800_000}, "the year 9999"),
        ({"@OrderKey": "x" * 129}, "at most 128"),
        ({"@OrderKey": "a\x00"}, "at most 128"),
        ({"@OrderKey": 5}, "at most 128"),
        ({"@Token": "x" * 201}, "at most 200"),
        ({"@Savefwd": 3}, "did you mean @SaveFwd?"),
        ({"@ordrkey": "k"}, "did you mean @OrderKey?"),
        ({"@Nonsense": 3}, "There is no attribute @Nonsense."),
        ({"@SessionKey": "k"}, "@SessionKey is set by nodes; an application must omit it."),
        ({"@LK1": "1.1.1"}, "@LK1 is set by nodes"),
        ({"@zzzzzz": 1}, "There is no attribute @zzzzzz."),
        ({"@NotBefore": 1_764_325_800}, "@NotBefore must be in milliseconds"),
        ({"@ExpiresAt": 10**11 - 1}, "@ExpiresAt must be in milliseconds"),
        ({"@ExpiresAt": 2**63}, "integer"),
    ],
)
def test_unknown_attributes_and_invalid_values_are_refused(headers: dict[str, Any], words: str) -> None:
    with pytest.raises(BadAttribute) as refusal:
        read_submission(headers, {})
    assert words in refusal.value.text


@pytest.mark.parametrize(
    "headers",
    [
        {"@Reliable": 0},
        {"@Reliable": 0, "@SaveFwd": 2, "@Ack2": 0},
        {"@Reliable": 0, "@SaveFwd": 1, "@Ack2": 1},
        {"@OrderKey": "k", "@SaveFwd": 2},
        {"@Fixed": 1, "@SaveFwd": 2},
    ],
)
def test_attributes_that_contradict_each_other_are_refused(headers: dict[str, Any]) -> None:
    with pytest.raises(BadCombination):
        read_submission(headers, {})


def test_best_effort_is_legal() -> None:
    assert not read_submission({"@Reliable": 0, "@SaveFwd": 1}, {})[0].reliable


header_names = st.sampled_from([*APPLICATION, *TRANSPORT, "@Colour", "x"])


@given(st.dictionaries(header_names, table_values, max_size=4))
def test_any_submission_is_read_or_refused(headers: dict[str, Any]) -> None:
    try:
        read_submission(headers, {})
    except SemqError:
        pass


# ---------------------------------------------------------------------------------- messages from peers


def test_a_number_of_attempts_above_the_limit_is_refused() -> None:
    with pytest.raises(BadAttribute, match="must be the number of an attempt"):
        read_envelope(PEER, {"@Sid": 1, "@Att": 2**31}, "1.56001")


def test_attributes_of_a_newer_version_are_carried() -> None:
    envelope = read_envelope(PEER, {"@Sid": 1, "@Colour": "red"}, "1.56001", b"fields")
    assert envelope.unknown == {"@Colour": "red"}
    assert envelope.attributes.user_headers == b"fields"
    assert write_envelope(envelope)[1]["@Colour"] == "red"


@pytest.mark.parametrize(
    ("properties", "headers", "routing_key"),
    [
        ({}, {"@Sid": 1}, "1.56001"),
        (PEER, {}, "1.56001"),
        (PEER, {"@Sid": 1}, "not an address"),
        (PEER | {"app_id": 5}, {"@Sid": 1}, "1.56001"),
        (PEER | {"message_id": "1"}, {"@Sid": 1}, "1.56001"),
        (PEER, {"@Sid": 1, "@Digest": b"short"}, "1.56001"),
        (PEER, {"@Sid": 1, "@Digest": "text"}, "1.56001"),
        (PEER, {"@Sid": 1, "@Prev": 7}, "1.56001"),
        (PEER, {"@Sid": 1, "@LK1": "x"}, "1.56001"),
        (PEER, {"@Sid": 1, "@Sender": "x" * 65}, "1.56001"),
        (PEER, {"@Sid": 1, "@AppKey": 7}, "1.56001"),
        (PEER, {"@Sid": 1, "@AppKey": b"a/b/c"}, "1.56001"),
    ],
)
def test_impossible_values_of_a_peer_are_refused(
    properties: dict[str, Any], headers: dict[str, Any], routing_key: str
) -> None:
    with pytest.raises(SemqError):
        read_envelope(properties, headers, routing_key)


def test_an_attribute_without_a_value_has_its_default() -> None:
    nulls: dict[str, Any] = dict.fromkeys([*APPLICATION, *TRANSPORT])
    assert read_envelope(PEER, {**nulls, "@Sid": 1}, "1.56001") == read_envelope(PEER, {"@Sid": 1}, "1.56001")


def test_classes_1_and_2_have_no_position() -> None:
    assert read_envelope(PEER, {"@SaveFwd": 2}, "1.56001").sid == -1


@given(
    st.dictionaries(st.sampled_from(["app_id", "message_id", "content_type", "priority"]), table_values, max_size=3),
    st.dictionaries(header_names, table_values | numbers | printable, max_size=5),
    st.sampled_from(["1.56001", "x/y", ""]),
)
def test_any_headers_are_read_or_refused(properties: dict[str, Any], headers: dict[str, Any], routing_key: str) -> None:
    try:
        read_envelope(PEER | properties, {"@Sid": 1} | headers, routing_key)
    except SemqError:
        pass
