"""Primitive types and field tables."""

import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pamqp.decode
import pamqp.encode
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.amqp import wire
from semq.amqp.errors import AmqpError, FrameError, LocalMisuse, SyntaxFault
from semq.amqp.wire import Timestamp, decode_table, encode_table, encode_value, read_value, short_string, text_of
from tests.amqp.helpers import short_texts, tables, values


def table_of(*fields: bytes) -> bytes:
    return wire.long_string(b"".join(fields))


def nested(letter: bytes, depth: int) -> bytes:
    octets = table_of()
    for _ in range(depth - 1):
        octets = table_of((b"\x01x" if letter == b"F" else b"") + letter + octets)
    return octets


# letter and octets | value
GOLDEN: list[tuple[bytes, Any]] = [
    (b"t\x01", True),
    (b"t\x00", False),
    (b"b\xff", -1),
    (b"B\xff", 255),
    (b"s\xff\xfe", -2),
    (b"u\xff\xfe", 65534),
    (b"I\xff\xff\xff\xfe", -2),
    (b"i\xff\xff\xff\xfe", 4294967294),
    (b"l\xff\xff\xff\xff\xff\xff\xff\xfe", -2),
    (b"L\xff\xff\xff\xff\xff\xff\xff\xfe", -2),
    (b"f\x3f\x80\x00\x00", 1.0),
    (b"d\x3f\xf0\x00\x00\x00\x00\x00\x00", 1.0),
    (b"D\x02\x00\x00\x30\x39", Decimal("123.45")),
    (b"D\x00\xff\xff\xff\xff", Decimal(-1)),
    (b"S\x00\x00\x00\x02\xc3\xa9", "é"),
    (b"S\x00\x00\x00\x02\xff\xfe", b"\xff\xfe"),
    (b"x\x00\x00\x00\x02ab", b"ab"),
    (b"A\x00\x00\x00\x03t\x01V", [True, None]),
    (b"T\x00\x00\x00\x00\x65\x53\xf1\x00", Timestamp(1700000000)),
    (b"F\x00\x00\x00\x04\x01at\x01", {"a": True}),
    (b"V", None),
]


@pytest.mark.parametrize(("octets", "value"), GOLDEN)
def test_every_letter_is_read(octets: bytes, value: Any) -> None:
    assert read_value(octets, 0, 2) == (value, len(octets))
    table, _ = decode_table(table_of(b"\x01k", octets))
    assert table == {"k": value}
    assert type(table["k"]) is type(value)


class Number(IntEnum):
    ONE = 1


class ShortWord(StrEnum):
    ONE = "one"


# value | its letter and octets
WRITTEN: list[tuple[Any, bytes]] = [
    (True, b"t\x01"),
    (False, b"t\x00"),
    (-(1 << 31), b"I\x80\x00\x00\x00"),
    ((1 << 31) - 1, b"I\x7f\xff\xff\xff"),
    (1 << 31, b"l\x00\x00\x00\x00\x80\x00\x00\x00"),
    (-(1 << 31) - 1, b"l\xff\xff\xff\xff\x7f\xff\xff\xff"),
    (1.0, b"d\x3f\xf0\x00\x00\x00\x00\x00\x00"),
    (Decimal("123.45"), b"D\x02\x00\x00\x30\x39"),
    (Decimal("1E+2"), b"D\x00\x00\x00\x00\x64"),
    (Decimal("-1.5"), b"D\x01\xff\xff\xff\xf1"),
    ("é", b"S\x00\x00\x00\x02\xc3\xa9"),
    (b"ab", b"x\x00\x00\x00\x02ab"),
    (bytearray(b"ab"), b"x\x00\x00\x00\x02ab"),
    (memoryview(b"ab"), b"x\x00\x00\x00\x02ab"),
    ((True, None), b"A\x00\x00\x00\x03t\x01V"),
    (Timestamp(1700000000), b"T\x00\x00\x00\x00\x65\x53\xf1\x00"),
    (MappingProxyType({"a": True}), b"F\x00\x00\x00\x04\x01at\x01"),
    (None, b"V"),
    (Number.ONE, b"I\x00\x00\x00\x01"),
    (ShortWord.ONE, b"S\x00\x00\x00\x03one"),
]


@pytest.mark.parametrize(("value", "octets"), WRITTEN)
def test_every_type_is_written(value: Any, octets: bytes) -> None:
    assert encode_value(value) == octets
    assert encode_table({"k": value}) == table_of(b"\x01k", octets)


@given(tables)
def test_tables_are_decoded_as_they_were_encoded(table: dict[str, Any]) -> None:
    octets = encode_table(table)
    decoded, stop = decode_table(b"front" + octets + b"behind", 5)
    assert decoded == table
    assert stop == 5 + len(octets)
    assert types(decoded) == types(table)


def types(value: Any) -> Any:
    """Return the types in a value (for a list, those of its items), because 1, 1.0 and True are equal."""
    if isinstance(value, dict):
        return {name: types(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [types(inner) for inner in value]
    return type(value)


# Comparison with pamqp


def as_pamqp_reads(value: Any) -> Any:
    """Return a value as pamqp returns it: timestamps as datetime, bytes as bytearray."""
    if isinstance(value, dict):
        return {name: as_pamqp_reads(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_pamqp_reads(inner) for inner in value]
    if isinstance(value, Timestamp):
        return datetime.fromtimestamp(value, UTC)
    if isinstance(value, bytes):
        return bytearray(value)
    return value


pamqp_scalars = (
    st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)  # pamqp writes no doubles
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.binary(max_size=20)
    | st.builds(Timestamp, st.integers(0, 4_000_000_000))
    | st.none()
)
# pamqp cuts off names after 128 characters.
pamqp_names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
pamqp_tables = st.dictionaries(
    pamqp_names,
    st.recursive(
        pamqp_scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(pamqp_names, inner, max_size=3),
        max_leaves=4,
    ),
    max_size=4,
)


@given(pamqp_tables)
def test_pamqp_reads_written_values(table: dict[str, Any]) -> None:
    octets = encode_table(table)
    consumed, read = pamqp.decode.field_table(octets)
    assert consumed == len(octets)
    assert read == as_pamqp_reads(table)


@given(pamqp_tables)
def test_values_written_by_pamqp_are_read(table: dict[str, Any]) -> None:
    octets = pamqp.encode.field_table(as_pamqp_reads(table))
    assert decode_table(octets) == (table, len(octets))


# Malformed input


@given(tables, st.data())
def test_a_table_cut_off_anywhere_is_refused(table: dict[str, Any], data: st.DataObject) -> None:
    octets = encode_table(table)
    with pytest.raises((FrameError, SyntaxFault)):  # a name may be cut within a character
        decode_table(octets[: data.draw(st.integers(0, len(octets) - 1))])


@given(st.binary(max_size=80))
def test_noise_gives_a_table_or_an_error_of_amqp(noise: bytes) -> None:
    for octets in (noise, wire.long_string(noise)):
        try:
            table, stop = decode_table(octets)
        except (FrameError, SyntaxFault):
            continue
        assert stop <= len(octets)
        assert decode_table(encode_table(table))[0].keys() == table.keys()


@pytest.mark.parametrize(
    ("octets", "error"),
    [
        (encode_table({"k": "text"})[:-1], FrameError),
        (b"\xff\xff\xff\xff", FrameError),
        (table_of(b"\x01kS\xff\xff\xff\xff"), FrameError),
        (table_of(b"\x01kA\xff\xff\xff\xff"), FrameError),
        (table_of(b"\x01kF\xff\xff\xff\xff"), FrameError),
        # the value ends after its table, but within the data
        (table_of(b"\x01kx\x00\x00\x00\x05ab") + bytes(9), FrameError),
        (table_of(b"\x01kA\x00\x00\x00\x01I") + bytes(9), FrameError),  # the value ends after the array
        (table_of(b"\x09k"), FrameError),
        (table_of(b"\x01k"), FrameError),  # a name without a value
        (table_of(b"\x01kI\x00"), FrameError),
        (table_of(b"\x01kZ"), SyntaxFault),  # unknown letter
        (table_of(b"\x01kA\x00\x00\x00\x01Z"), SyntaxFault),
        (table_of(b"\x01\xfft\x01"), SyntaxFault),  # a name that is not UTF-8
        (table_of(b"\x01\x00t\x01"), SyntaxFault),  # a name with a zero octet
        (table_of(b"\x01kt\x01\x01kt\x00"), SyntaxFault),  # the same name twice
    ],
)
def test_malformed_tables_are_refused(octets: bytes, error: type[AmqpError]) -> None:
    with pytest.raises(error):
        decode_table(octets)


@pytest.mark.parametrize("letter", [b"F", b"A"])
def test_tables_nested_too_deeply_are_refused(letter: bytes) -> None:
    container = nested(letter, 3)
    octets = container if letter == b"F" else table_of(b"\x01xA" + container)
    depth = 3 if letter == b"F" else 4
    decode_table(octets, 0, depth)
    with pytest.raises(SyntaxFault, match="deep"):
        decode_table(octets, 0, depth - 1)


def test_64_levels_of_tables_are_read_by_default() -> None:
    decode_table(nested(b"F", 64))
    with pytest.raises(SyntaxFault, match="deep"):
        decode_table(nested(b"F", 65))


# Values that cannot be written


def deep(kind: type) -> Any:
    value: Any = kind()
    for _ in range(300):
        value = [value] if kind is list else {"x": value}
    return value


def unwritable() -> Iterator[Any]:
    yield 1 << 64
    yield -(1 << 63) - 1
    yield Decimal("NaN")
    yield Decimal("1E-256")
    yield Decimal(12345678901)
    yield Decimal(9999999999)
    yield Decimal("1E+10")
    yield Timestamp(-1)
    yield Timestamp(1 << 64)
    yield "\ud800"
    yield {1, 2}
    yield {1: 2}
    yield {"x" * 256: 1}
    yield {"a\0": 1}
    yield {"\ud800": 1}
    yield deep(list)
    yield deep(dict)


@pytest.mark.parametrize("value", list(unwritable()), ids=lambda value: f"{value!r:.30}")
def test_an_unwritable_value_is_misuse(value: Any) -> None:
    with pytest.raises(LocalMisuse):
        encode_table({"k": value})
    with pytest.raises(LocalMisuse):
        encode_value([value])


# Short strings


@pytest.mark.parametrize("octets", [b"\xff", b"a\0b"])
def test_a_short_string_is_text_without_zero(octets: bytes) -> None:
    with pytest.raises(SyntaxFault):
        text_of(octets)


@pytest.mark.parametrize("text", ["é" * 128, "a\0b", "\ud800", 5])
def test_a_short_string_that_does_not_fit_is_misuse(text: str) -> None:
    with pytest.raises(LocalMisuse):
        short_string(text)


@given(short_texts)
def test_short_strings_are_decoded_as_they_were_encoded(text: str) -> None:
    for _ in range(2):  # the second time from the cache
        octets = short_string(text)
        assert octets == struct.pack(">B", len(text.encode())) + text.encode()
        assert wire.read_short_string(octets, 0) == (text, len(octets))


def test_the_cache_of_names_is_bounded() -> None:
    for number in range(wire.CACHED_TEXTS_MAX + 10):
        text_of(b"name %d" % number)
        short_string(f"name {number}")
    assert len(wire.known_texts) <= wire.CACHED_TEXTS_MAX
    assert len(wire.known_short_strings) <= wire.CACHED_TEXTS_MAX


@given(values)
def test_an_encoded_value_is_read_back_unchanged(value: Any) -> None:
    octets = encode_value(value)
    assert read_value(octets, 0, 64) == (value, len(octets))


own_tables = st.dictionaries(short_texts.filter(lambda name: name[:1] != "@"), values, max_size=5)
at_tables = st.dictionaries(short_texts.map(lambda name: f"@{name}"[:80]), values, max_size=5)


@given(own_tables, at_tables, st.randoms())
def test_a_table_is_split_by_names_and_the_other_fields_keep_their_bytes(
    own: dict[str, Any], with_at: dict[str, Any], chance: Any
) -> None:
    fields = [(name, wire.encode_fields({name: value})) for name, value in (own | with_at).items()]
    chance.shuffle(fields)
    table = wire.long_string(b"".join(octets for _, octets in fields))
    decoded, others = wire.split_table(table)
    assert decoded == decode_table(wire.long_string(wire.encode_fields(with_at)))[0]
    assert others == b"".join(octets for name, octets in fields if name in own)
    assert wire.decode_fields(others) == decode_table(wire.long_string(others))[0]
    wanted = list(own)[:2]
    found = wire.find_fields(others, wanted)
    assert {name: read_value(octets, 0, 64)[0] for name, octets in found.items()} == {
        name: wire.decode_fields(others)[name] for name in wanted
    }


@given(tables, st.data())
def test_a_table_cut_off_anywhere_is_not_split(table: dict[str, Any], data: st.DataObject) -> None:
    octets = encode_table(table)
    with pytest.raises((FrameError, SyntaxFault)):
        wire.split_table(octets[: data.draw(st.integers(0, len(octets) - 1))])


@pytest.mark.parametrize(
    ("octets", "error"),
    [
        (table_of(b"\x01at\x01", b"\x01at\x00"), SyntaxFault),
        (table_of(b"\x01aI\x00"), FrameError),
        (table_of(b"\x01aS\x00\x00\x00\x09x"), FrameError),
        (table_of(b"\x02@aS\x00\x00\x00\x09x"), FrameError),
        (table_of(b"\x01a?"), SyntaxFault),
    ],
)
def test_malformed_tables_are_not_split(octets: bytes, error: type[AmqpError]) -> None:
    with pytest.raises(error):
        wire.split_table(octets)


def test_a_table_without_a_level_left_is_not_split() -> None:
    with pytest.raises(SyntaxFault, match="deep"):
        wire.split_table(table_of(), 0)


def test_a_table_nested_too_deeply_is_not_split() -> None:
    table = encode_table({"n": [[[1]]]})
    wire.split_table(table, 4)
    with pytest.raises(SyntaxFault, match="deep"):
        wire.split_table(table, 3)
