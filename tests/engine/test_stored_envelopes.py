"""Envelopes come back from the store as they were, and SQL shows headers of every type that AMQP carries."""

import struct
from collections.abc import Iterator
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
from semq.store.embedded.cluster import DATABASE
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.rows import Stored
from semq.umx_t.address import parse_address
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.locator import LK0
from tests.amqp.helpers import tables
from tests.conftest import new_database_of

# A value of each type in the table of ``semq.amqp.wire``.
EVERY_TYPE: dict[str, Any] = {
    "t": True, "bBsuIilL": [-128, 255, 65535, 2**32 - 1, -(2**63), 2**63 - 1], "fd": 1.5, "D": Decimal("12.50"),
    "S": "ü", "x": b"\xff\0", "T": Timestamp(2**64 - 1), "V": None,
    "F": {"A": [{"time": Timestamp(5)}, Decimal("0E-7")]},
}  # fmt: skip


@pytest.fixture(scope="module")
def session(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    with new_database_of(postgres, DATABASE) as url, psycopg.connect(url, autocommit=True) as connection:
        yield connection


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


@pytest.mark.parametrize(
    "unknown", [{"fields": "!"}, {"fields": 1}, {"fields": "AWFJ"}, {"@Price": 1}, {"fields": "AWFxAA=="}]
)
def test_damaged_attributes_of_newer_versions_are_an_unreadable_body(unknown: dict[str, Any]) -> None:
    damaged = msgspec.json.encode(envelope_with({}, unknown))
    with pytest.raises(BodyUnreadable):
        decode_envelope(Stored(damaged, b""))


@pytest.mark.parametrize("damaged", [b"", b"x", b"{}", b"\xff", b"[" * 5000])
def test_damaged_envelopes_are_an_unreadable_body(damaged: bytes) -> None:
    with pytest.raises(BodyUnreadable):
        decode_envelope(Stored(damaged, b""))


def test_values_that_are_the_defaults_are_not_stored() -> None:
    assert msgspec.json.decode(encode_envelope(envelope_with({}, {}))) == {
        "source": [1, "10008", ""], "target": [1, "10008", ""], "lk0": [1, "10008", 1, 1, 5, 1], "attributes": {},
    }  # fmt: skip


@given(texts=st.lists(st.text(st.sampled_from('\\\0u0a"é'), max_size=12), min_size=1, max_size=4))
def test_sql_replaces_zero_characters_in_an_envelope(session: psycopg.Connection, texts: list[str]) -> None:
    found = session.execute("SELECT semq_envelope(%s)", (msgspec.json.encode(texts),)).fetchone()
    assert found == ([text.replace("\0", "\ufffd") for text in texts],)


PIECE = """
    INSERT INTO tb_0030
        (bref, lk0, store, inc, src_object_id, target, target_user, save_fwd, ack2, status, received_at, source)
    SELECT n, n, '1.50001.1.1', 1, n, '1.10008', '_pieces', 3, true, 410, now(), '1.50001'
    FROM (SELECT %s::bigint AS n) AS p"""


@pytest.mark.parametrize("name", ["1.50001.1.1.aa.7", 'a "b\\c', "ü/é", "\n\x7f", "a\0b"])
def test_sql_finds_the_pieces_of_a_document_by_any_name(database: str, name: str) -> None:
    with psycopg.connect(database) as connection:
        for bref, pieces in enumerate([f"{name}/0", f"{name}/12", f"x{name}/1", f"{name}x/1"]):
            envelope = envelope_with({}, {})
            envelope = replace(envelope, attributes=Attributes(pieces=pieces))
            connection.execute(PIECE, (bref,))
            connection.execute("INSERT INTO tb_0030_body VALUES (%s, %s, '')", (bref, encode_envelope(envelope)))
        shown = name.replace("\0", "\ufffd")
        found = connection.execute("SELECT bref, number FROM semq_pieces_of('1.50001', %s)", (shown,)).fetchall()
    assert sorted(found) == [(0, 0), (1, 12)]


# Letter and bytes of a value | the value in SQL
SHOWN: list[tuple[bytes, Any]] = [
    (b"t\x02", True), (b"t\x00", False), (b"V", None), (b"b\x80", -128), (b"B\xff", 255), (b"s\x80\x00", -32768),
    (b"u\xff\xff", 65535), (b"I\x80\x00\x00\x00", -(2**31)), (b"i\xff\xff\xff\xff", 2**32 - 1),
    (b"l\x80" + bytes(7), -(2**63)), (b"L\xff\xff\xff\xff\x4d\x2f\xa2\x00", -3_000_000_000),
    (b"f\x3f\xc0\x00\x00", 1.5), (b"d\x3f\xb9\x99\x99\x99\x99\x99\x9a", 0.1), (b"d\x7f\xf0" + bytes(6), None),
    (b"f\x80\x00\x00\x01", -(2.0**-149)), (b"f\xff\x80\x00\x00", None), (b"d" + bytes(7) + b"\x01", 5e-324),
    (b"f" + bytes(4), 0),
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


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_sql_shows_floats_exactly(session: psycopg.Connection, number: float) -> None:
    for letter, form in (("d", ">d"), ("f", ">f")):
        packed = struct.pack(form, number) if letter == "d" or abs(number) < 3e38 else bytes(4)
        found = session.execute("SELECT semq_number(%s, %s)::text::float8", (letter, packed)).fetchone()
        assert found == struct.unpack(form, packed)


@pytest.mark.parametrize("value", [b"", b"I\x00", b"q", b"S\xff\xff\xff\xff", b"S\x00\x00\x00\x09x"])
def test_sql_refuses_headers_that_are_damaged(database: str, value: bytes) -> None:
    with psycopg.connect(database) as connection, pytest.raises(psycopg.Error, match=r"header|range"):
        connection.execute("SELECT semq_fields(%s)", (b"\x01a" + value,))
