"""Envelopes come back from the store as they were, and SQL shows headers of every type that AMQP carries."""

from decimal import Decimal
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from semq.amqp.wire import Timestamp, decode_table, encode_fields, encode_table
from semq.engine.errors import BodyUnreadable
from semq.engine.stored_envelopes import decode_envelope, encode_envelope
from semq.store.rows import Stored
from semq.umx_t.address import parse_address
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.locator import LK0
from tests.amqp.helpers import tables

# A value of each type in the table of ``semq.amqp.wire``.
EVERY_TYPE: dict[str, Any] = {
    "t": True, "bBsuIilL": [-128, 255, 65535, 2**32 - 1, -(2**63), 2**63 - 1], "fd": 1.5, "D": Decimal("12.50"),
    "S": "ü", "x": b"\xff\0", "T": Timestamp(2**64 - 1), "V": None,
    "F": {"A": [{"time": Timestamp(5)}, Decimal("0E-7")]},
}  # fmt: skip


def envelope_with(headers: dict[str, Any], unknown: dict[str, Any]) -> Envelope:
    node, lk0 = parse_address("1.10008"), LK0(1, "10008", 1, 1, 5, 1)
    attributes = Attributes(user_headers=encode_fields(headers))
    return Envelope(source=node, target=node, lk0=lk0, attributes=attributes, unknown=unknown)


def stored(envelope: Envelope) -> Envelope:
    return decode_envelope(Stored(encode_envelope(envelope), b""))


@given(fields=st.binary(), unknown=tables)
def test_headers_leave_the_store_as_they_were(fields: bytes, unknown: dict[str, Any]) -> None:
    envelope = envelope_with({}, unknown)
    read = stored(replace(envelope, attributes=Attributes(user_headers=fields)))
    assert read.attributes.user_headers == fields
    assert encode_table(read.unknown) == encode_table(unknown)


def test_each_type_comes_back() -> None:
    headers, _ = decode_table(encode_table(EVERY_TYPE))
    assert repr(stored(envelope_with({}, {"@New": headers})).unknown) == repr({"@New": EVERY_TYPE})


def test_an_envelope_of_an_earlier_version_whose_headers_are_values_is_read() -> None:
    earlier = msgspec.to_builtins(envelope_with({}, {"@New": 1}))
    extensions = {"D": msgspec.msgpack.Ext(1, b"12.50"), "T": msgspec.msgpack.Ext(2, bytes(8))}
    earlier["attributes"]["user_headers"] = {"n": 2**40, **extensions}
    earlier["digest"] = b""
    read = decode_envelope(Stored(msgspec.msgpack.encode(earlier), b""))
    assert read == envelope_with({"n": 2**40, "D": Decimal("12.50"), "T": Timestamp(0)}, {"@New": 1})


@pytest.mark.parametrize(("code", "data"), [(1, b"twelve"), (1, b"\xff"), (3, b"12.50")])
def test_a_damaged_or_unknown_value_is_an_unreadable_body(code: int, data: bytes) -> None:
    envelope = envelope_with({}, {"@Price": msgspec.msgpack.Ext(code, data)})
    with pytest.raises(BodyUnreadable):
        decode_envelope(Stored(msgspec.msgpack.encode(envelope), b""))


# Letter and bytes of a value | the value in SQL
SHOWN: list[tuple[bytes, Any]] = [
    (b"t\x02", True), (b"t\x00", False), (b"V", None), (b"b\x80", -128), (b"B\xff", 255), (b"s\x80\x00", -32768),
    (b"u\xff\xff", 65535), (b"I\x80\x00\x00\x00", -(2**31)), (b"i\xff\xff\xff\xff", 2**32 - 1),
    (b"l\x80" + bytes(7), -(2**63)), (b"L\xff\xff\xff\xff\x4d\x2f\xa2\x00", -3_000_000_000),
    (b"f\x3f\xc0\x00\x00", 1.5), (b"d\x3f\xb9\x99\x99\x99\x99\x99\x9a", 0.1), (b"d\x7f\xf0" + bytes(6), None),
    (b"T" + b"\xff" * 8, 2**64 - 1), (b"D\x02\x00\x00\x04\xe2", "12.50"), (b"D\x07" + bytes(4), "0.0000000"),
    (b"D\x00\x80\x00\x00\x00", "-2147483648"), (b"S\x00\x00\x00\x03\xc3\xbc\x00", "ü\ufffd"),
    (b"S\x00\x00\x00\x02\xd6\xd0", "d6d0"), (b"x\x00\x00\x00\x02\xff\x00", "ff00"),
    (b"A\x00\x00\x00\x04t\x01VV", [True, None, None]), (b"A\x00\x00\x00\x00", []), (b"F\x00\x00\x00\x00", {}),
]  # fmt: skip


def test_sql_shows_each_type(database: str) -> None:
    nested = b"".join(bytes([1, 97 + at]) + value for at, (value, _) in enumerate(SHOWN))
    fields = nested + b"\x06nested" + b"F" + len(nested).to_bytes(4, "big") + nested
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT semq_fields(%s)", (fields,)).fetchone()
    expected = {chr(97 + at): value for at, (_, value) in enumerate(SHOWN)}
    assert found == (expected | {"nested": expected},)


@pytest.mark.parametrize("value", [b"", b"I\x00", b"q", b"S\xff\xff\xff\xff", b"S\x00\x00\x00\x09x"])
def test_sql_refuses_headers_that_are_damaged(database: str, value: bytes) -> None:
    with psycopg.connect(database) as connection, pytest.raises(psycopg.Error, match=r"header|range"):
        connection.execute("SELECT semq_fields(%s)", (b"\x01a" + value,))
