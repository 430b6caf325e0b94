"""The packed form of an envelope: complete, and with the same limits as the table of attributes."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.errors import SemqError
from semq.umx_t.attributes import TABLE
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.errors import BadEnvelope
from semq.umx_t.headers import (
    CARRIED,
    DATA_TYPE,
    IN_PACKED,
    PACKED,
    read_envelope,
    write_envelope,
    write_packed,
)
from semq.umx_t.locator import INT64_MAX, LK0, LK1, Pos
from semq.umx_t.packed_envelope import Packed, pack
from tests.umx_t.samples.strategies import envelopes, texts

LK0_1 = LK0(1, "10008", 1, 1, 255, 1)
PLAIN = Envelope(source=LK0_1.node, target=LK0_1.node, lk0=LK0_1, attributes=Attributes(), sid=0)
FIELDS = Packed.__struct_fields__
LIMITED = ("text", "repeated")
VALUES: list[Any] = msgspec.msgpack.decode(pack(PLAIN))


def read(packed: Any, user_headers: Any = b"", **beside: Any) -> Envelope:
    return read_envelope({"app_id": "1.10008"}, {PACKED: packed, **beside}, "1.10008", user_headers)


def altered(**changes: Any) -> bytes:
    return msgspec.msgpack.encode([changes.get(name, value) for name, value in zip(FIELDS, VALUES, strict=True)])


@given(envelopes)
def test_the_packed_form_agrees_with_the_table(envelope: Envelope) -> None:
    target = str(envelope.target)
    fields = envelope.attributes.user_headers
    packed = read_envelope(*write_packed(envelope), target, fields)
    assert packed == read_envelope(*write_envelope(envelope), target, fields) == envelope


def test_the_array_has_every_attribute_of_version_1_and_no_later_one() -> None:
    assert sorted(FIELDS) == sorted(["lk0", *(each.field for each in CARRIED if each.since == 1)])
    assert len(FIELDS) == 24  # the number of fields never changes


ROWS = [[cell.strip() for cell in line.split("|")[:7]] for line in TABLE.strip().splitlines()]
TEXTS = {row[1]: int(row[6].split()[1]) for row in ROWS if row[0] in IN_PACKED and row[6].split()[0] in LIMITED}


@pytest.mark.parametrize("field", TEXTS)
def test_texts_have_the_bounds_of_the_table(field: str) -> None:
    assert "x" * TEXTS[field] in repr(read(altered(**{field: "x" * TEXTS[field]})))
    with pytest.raises(BadEnvelope, match=f"max_length|<= {TEXTS[field]}"):
        read(altered(**{field: "x" * (TEXTS[field] + 1)}))


def test_the_packed_attributes_are_one_header() -> None:
    properties, headers = write_packed(PLAIN)
    assert properties == {"app_id": "1.10008", "type": DATA_TYPE}
    assert list(headers) == [PACKED]


def test_later_attributes_and_headers_of_the_application_stand_beside_the_field() -> None:
    assert read(pack(PLAIN), **{"@Colour": "red"}).unknown == {"@Colour": "red"}
    assert read(pack(PLAIN), b"fields").attributes.user_headers == b"fields"


def test_further_elements_of_the_array_are_ignored() -> None:
    assert read(msgspec.msgpack.encode([*VALUES, "new"])) == PLAIN


@pytest.mark.parametrize("name", sorted(IN_PACKED))
def test_no_attribute_is_packed_twice(name: str) -> None:
    with pytest.raises(BadEnvelope, match=name):
        read(pack(PLAIN), **{name: 1})


@pytest.mark.parametrize(
    "changes",
    [
        {"lk0": "1.10008.1.1.ff"}, {"lk0": "x" * 200}, {"save_fwd": 0}, {"save_fwd": 4}, {"ack2": 2},
        {"app_key": "a/b/c"}, {"app_key": "a/b/c/d\n"}, {"app_key": 7}, {"order_key": "o" * 129}, {"order_key": "\n"},
        {"expires_at": -1}, {"expires_at": 253_402_300_800_000}, {"sender": "s" * 65}, {"sender": "\x1b"},
        {"submitted_at": -1}, {"digest": b"d"}, {"digest": b"d" * 33}, {"digest": "d" * 32}, {"sid": -2}, {"sid": -1},
        {"sid": INT64_MAX + 1}, {"floor": -1}, {"floor": 1.5}, {"prev": [1]}, {"prev": [-1, 0]}, {"prev": "ff.1"},
        {"att": -1}, {"att": 2**31}, {"void": None}, {"lk1": [1, 1]}, {"lk1": [1, 1, INT64_MAX + 1]},
        {"session_key": "k" * 8193}, {"session_key": "\0"}, {"alg": "a" * 65}, {"key_id": "\u2028"},
        {"origin": "o" * 401}, {"signature": "s" * 2049}, {"signature": None},
    ],
    ids=str,
)  # fmt: skip
def test_impossible_values_of_a_peer_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SemqError):
        read(altered(**changes))


@pytest.mark.parametrize(
    "packed",
    [
        b"", b"\xc1", b"\x80", "text", 5, [1], pack(PLAIN)[:-1], pack(PLAIN) + b"x", b"\x91" * 100_000,
        pack(PLAIN).replace(PLAIN.ident.encode(), b"\xff" * len(PLAIN.ident)),
    ],
)  # fmt: skip
def test_an_invalid_packed_envelope_is_refused(packed: Any) -> None:
    with pytest.raises(BadEnvelope):
        read(packed)


@given(st.integers(0, len(VALUES) - 1), st.none() | st.booleans() | st.integers() | st.binary(max_size=40) | texts)
def test_any_value_is_read_or_refused(index: int, value: Any) -> None:
    try:
        envelope = read(altered(**{FIELDS[index]: value}))
    except (SemqError, OverflowError):  # OverflowError: msgpack cannot encode such a number
        return
    assert not envelope.proved
    assert write_packed(envelope)[1][PACKED]


def test_locators_and_positions_have_their_types() -> None:
    envelope = read(altered(prev=[9, 3], lk1=[1, 1, 12]))
    assert (envelope.prev, envelope.lk1) == (Pos(9, 3), LK1(1, 1, 12))
    assert (str(envelope.prev), str(envelope.lk1)) == ("9.3", "1.1.12")
