"""AMQP properties travel as headers and are properties again at the receiving application."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_node.doors.properties import CARRIED, DELAY_MAX_MS, expires_at, given_headers, restored, with_delay
from semq.amqp import errors as amqp
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.wire import Timestamp, decode_fields, encode_fields, long_string
from semq.umx_t.errors import BadAttribute

short = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)


def header(**properties: object) -> ContentHeader:
    return ContentHeader.build(0, Properties(**properties))  # type: ignore[arg-type]


@given(short, short, short)
def test_carried_properties_are_restored(correlation_id: str, type_: str, message_id: str) -> None:
    published = header(correlation_id=correlation_id, type=type_, message_id=message_id, headers={"own": 1})
    _, fields = given_headers(published)
    assert restored(fields) == {"correlation_id": correlation_id.encode(), "type": type_.encode()}
    assert decode_fields(fields)[CARRIED["message_id"]] == message_id
    assert decode_fields(fields)["own"] == 1


def test_every_property_that_a_node_sets_itself_travels_as_a_header_with_its_type() -> None:
    given: dict[str, Any] = {"message_id": "M-1", "timestamp": 1_764_325_800, "app_id": "erp", "cluster_id": "c"}
    _, fields = given_headers(header(**given))
    carried = {CARRIED[name]: Timestamp(value) if name == "timestamp" else value for name, value in given.items()}
    assert decode_fields(fields) == carried
    assert type(decode_fields(fields)["x-timestamp"]) is Timestamp


def test_a_property_that_is_not_utf_8_is_carried_unchanged() -> None:
    published = header(correlation_id=b"\xd6\xd0\xff")
    _, fields = given_headers(published)
    assert restored(fields) == {"correlation_id": b"\xd6\xd0\xff"}
    assert header(**restored(fields)).raw == published.raw


def test_headers_keep_their_letters_and_bytes() -> None:
    fields = b"\x01aL\xff\xff\xff\xff\xff\xff\xff\xfe\x01bS\x00\x00\x00\x01\xff\x01ct\x07"
    table = long_string(b"\x01@t\x01" + fields)
    assert given_headers(header(headers=table)) == ({"@": True}, fields)
    assert restored(fields) == {}
    assert given_headers(header()) == ({}, b"")


def test_the_correlation_id_of_a_request_is_not_carried() -> None:
    _, fields = given_headers(header(reply_to="answers", correlation_id="7", type="order"))
    assert decode_fields(fields) == {"x-type": "order"}


def test_a_header_set_by_the_application_has_priority() -> None:
    _, fields = given_headers(header(type="one", headers={"x-type": "two"}))
    assert decode_fields(fields) == {"x-type": "two"}


def test_headers_that_are_no_short_strings_are_not_restored() -> None:
    assert restored(encode_fields({"x-type": 7, "x-correlation-id": "x" * 256})) == {}
    assert restored(encode_fields({"x-type": "a\0b"})) == {}


def test_a_time_of_amqp_in_an_attribute_is_in_seconds() -> None:
    """Clients write a date as a timestamp of AMQP (letter T)."""
    given = {"@NotBefore": Timestamp(1_764_325_800), "@ExpiresAt": 1_764_325_800_000, "own": Timestamp(5)}
    attributes, fields = given_headers(header(headers=given))
    assert attributes == {"@NotBefore": 1_764_325_800_000, "@ExpiresAt": 1_764_325_800_000}
    assert fields == encode_fields({"own": Timestamp(5)})


@pytest.mark.parametrize("delay", [True, -1, DELAY_MAX_MS + 1, "5", Timestamp(5), [5], {"a": 5}])
def test_a_delay_is_a_number_of_milliseconds(delay: Any) -> None:
    assert with_delay({}, encode_fields({"x-delay": 5}), lambda: 1_000) == {"@NotBefore": 1_005}
    assert with_delay({"@NotBefore": 7}, encode_fields({"x-delay": 5}), lambda: 1_000) == {"@NotBefore": 7}
    assert with_delay({}, encode_fields({"x-delay": None, "y": "x-delay"}), lambda: 1_000) == {}
    with pytest.raises(BadAttribute, match="x-delay"):
        with_delay({}, encode_fields({"x-delay": delay}), lambda: 1_000)


def test_an_expiration_becomes_the_time_of_expiry() -> None:
    assert expires_at(header(expiration="1500"), {}, 1_000_000) == 1_001_500
    assert expires_at(header(expiration="1500"), {"@ExpiresAt": 5}, 1_000_000) is None
    assert expires_at(header(), {}, 1_000_000) is None
    with pytest.raises(amqp.PreconditionFailed, match="expiration"):
        expires_at(header(expiration="soon"), {}, 0)
