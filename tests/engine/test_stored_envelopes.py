"""Envelopes come back from the store as they were, with headers of every type that AMQP carries."""

from decimal import Decimal
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given

from semq.amqp.wire import Timestamp, decode_table, encode_table
from semq.engine.errors import BodyUnreadable
from semq.engine.stored_envelopes import decode_envelope, encode_envelope
from semq.store.rows import Stored
from semq.umx_t.address import parse_address
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.locator import LK0
from tests.amqp.helpers import tables

# A value of each type in the table of ``semq.amqp.wire``.
EVERY_TYPE: dict[str, Any] = {
    "t": True, "bBsuIilL": [-128, 255, 65535, 2**32 - 1, -(2**63), 2**64 - 1], "fd": 1.5, "D": Decimal("12.50"),
    "S": "ü", "x": b"\xff\0", "T": Timestamp(2**64 - 1), "V": None,
    "F": {"A": [{"time": Timestamp(5)}, Decimal("0E-7")]},
}  # fmt: skip


def envelope_with(headers: dict[str, Any], unknown: dict[str, Any]) -> Envelope:
    node, lk0 = parse_address("1.10008"), LK0(1, "10008", 1, 1, 5, 1)
    return Envelope(source=node, target=node, lk0=lk0, attributes=Attributes(user_headers=headers), unknown=unknown)


def stored(envelope: Envelope) -> Envelope:
    return decode_envelope(Stored(encode_envelope(envelope), b""))


@given(headers=tables, unknown=tables)
def test_headers_of_every_type_are_the_same_on_the_wire_after_the_store(
    headers: dict[str, Any], unknown: dict[str, Any]
) -> None:
    read = stored(envelope_with(headers, unknown))
    assert encode_table(read.attributes.user_headers) == encode_table(headers)
    assert encode_table(read.unknown) == encode_table(unknown)


def test_each_type_comes_back() -> None:
    headers, _ = decode_table(encode_table(EVERY_TYPE))
    read = stored(envelope_with(headers, {"@New": headers}))
    assert repr(read.attributes.user_headers) == repr(EVERY_TYPE)
    assert repr(read.unknown) == repr({"@New": EVERY_TYPE})


def test_an_envelope_without_these_types_is_stored_as_by_earlier_versions() -> None:
    envelope = envelope_with({"text": "12.50", "list": [1, None, {"b": b"x"}]}, {"@New": 1})
    assert encode_envelope(envelope) == msgspec.msgpack.encode(envelope)


@pytest.mark.parametrize(("code", "data"), [(1, b"twelve"), (1, b"\xff"), (3, b"12.50")])
def test_a_damaged_or_unknown_value_is_an_unreadable_body(code: int, data: bytes) -> None:
    envelope = envelope_with({"price": msgspec.msgpack.Ext(code, data)}, {})
    with pytest.raises(BodyUnreadable):
        decode_envelope(Stored(msgspec.msgpack.encode(envelope), b""))


def test_sql_shows_decimals_as_texts_and_timestamps_as_numbers(database: str) -> None:
    prices = [Decimal(number) for number in ("5", "-1", "1.25", "1234.567", "12.50", "-2147483.648", "0E-7")]
    headers = {"prices": prices, "x-death": [{"time": Timestamp(1_700_000_000)}], "highest": Timestamp(2**64 - 1)}
    packed = encode_envelope(envelope_with(headers, {"@New": Decimal("0.1")}))
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT place, value FROM semq_unpack(%s)", (packed,)).fetchone()
    place, envelope = found or (0, {})
    assert place == len(packed)
    assert envelope["unknown"] == {"@New": "0.1"}
    assert envelope["attributes"]["user_headers"] == {
        "prices": ["5", "-1", "1.25", "1234.567", "12.50", "-2147483.648", "0E-7"],
        "x-death": [{"time": 1_700_000_000}],
        "highest": 2**64 - 1,
    }
