"""Primitive types and field tables of AMQP 0-9-1: bytes to values and back.

Decoders take a buffer and a position and return the value and the next position. ``decode_table`` raises ``FrameError``
(501) for truncated data; the other decoders leave this check to their caller. Illegal values raise ``SyntaxFault``
(502). Encoders raise ``LocalMisuse``.

| letter | meaning                 | Python           | letter | meaning          | Python      |
| ------ | ----------------------- | ---------------- | ------ | ---------------- | ----------- |
| t      | boolean                 | bool             | f d    | float, double    | float       |
| b B    | 8 bits, signed, unsigned | int             | D      | decimal          | Decimal     |
| s u    | 16 bits                 | int              | S      | long string      | str         |
| I i    | 32 bits                 | int              | x      | bytes            | bytes       |
| l L    | 64 bits                 | int              | T      | POSIX seconds    | Timestamp   |
| F A    | table, array            | dict, list       | V      | nothing          | None        |

The letters are RabbitMQ's, which reads L as signed, too. A long string that is not UTF-8 is decoded as bytes. An int is
encoded as I or l, the first that is large enough; bytes are encoded as x. Names of fields may contain any character
except zero: clients ignore the rule of 4.2.5.5, which forbids ``x-match``. "Fields" are the bytes of a table without
its length.
"""

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from struct import Struct
from typing import Any, Final, TypeAlias

from semq.amqp.errors import FrameError, LocalMisuse, SyntaxFault

TABLE_DEPTH: Final = 64  # default nesting limit of tables and arrays from a peer
DEPTH_MAX: Final = 256  # largest nesting limit; the limit for encoding
CACHED_TEXTS_MAX: Final = 4096  # number of texts at which a cache is cleared


class Timestamp(int):
    """POSIX seconds in a field table (letter T)."""

    __slots__ = ()


FieldValue: TypeAlias = "bool | int | float | str | bytes | Decimal | Table | FieldArray | None"
Table: TypeAlias = Mapping[str, FieldValue]
FieldArray: TypeAlias = Sequence[FieldValue]

OCTET, SHORT, LONG, LONGLONG = Struct(">B"), Struct(">H"), Struct(">I"), Struct(">Q")
OCTETS: Final = tuple(bytes([octet]) for octet in range(256))
TRUNCATED = (IndexError, struct.error)  # raised by indexing and unpacking when the data ends too early

_read_long = LONG.unpack_from
known_texts: dict[bytes, str] = {}  # bytes of a short string -> its text
known_short_strings: dict[str, bytes] = {}  # text -> bytes of the short string, including the length


# Short and long strings


def text_of(octets: bytes) -> str:
    """Return the text of a short string. Raises ``SyntaxFault`` unless it is UTF-8 without zero bytes (4.2.5.3)."""
    text = known_texts.get(octets)
    return _learn_text(octets) if text is None else text


def _learn_text(octets: bytes) -> str:
    text = uncached_text(octets)
    if len(known_texts) >= CACHED_TEXTS_MAX:
        known_texts.clear()
    known_texts[octets] = text
    return text


def uncached_text(octets: bytes) -> str:
    """Do what ``text_of`` does, for texts that are rarely repeated."""
    try:
        text = octets.decode()
    except UnicodeDecodeError as error:
        raise SyntaxFault(f"a short string is not UTF-8: {octets[:40]!r}") from error
    if b"\0" in octets:
        raise SyntaxFault(f"a short string contains a zero byte: {octets[:40]!r}")
    return text


def short_string(text: str) -> bytes:
    """Return length and bytes of a short string: at most 255 bytes of UTF-8, none zero. Raises ``LocalMisuse``."""
    octets = known_short_strings.get(text)
    return _learn_short_string(text) if octets is None else octets


def _learn_short_string(text: str) -> bytes:
    octets = uncached_short_string(text)
    if len(known_short_strings) >= CACHED_TEXTS_MAX:
        known_short_strings.clear()
    known_short_strings[text] = octets
    return octets


def uncached_short_string(text: str | bytes) -> bytes:
    """Do what ``short_string`` does, for texts that are rarely repeated, and for bytes."""
    try:
        octets = text if isinstance(text, bytes) else text.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise LocalMisuse(f"not a text that AMQP can carry: {text!r:.60}") from error
    if len(octets) > 255 or b"\0" in octets:
        raise LocalMisuse(f"a short string has at most 255 bytes and none is zero: {text!r:.60}")
    return OCTETS[len(octets)] + octets


def long_string(octets: bytes) -> bytes:
    """Return length and bytes of a long string."""
    return LONG.pack(len(octets)) + octets


def read_short_string(data: bytes, at: int) -> tuple[str, int]:
    """Return the short string at ``at`` and the next position, which may be beyond the data."""
    stop = at + 1 + data[at]
    return text_of(data[at + 1 : stop]), stop


def read_long_string(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the long string at ``at`` and the next position, which may be beyond the data."""
    stop = at + 4 + _read_long(data, at)[0]
    return data[at + 4 : stop], stop


# Field tables: decoding

# letter -> (reader, size in bytes)
NUMBERS: dict[int, tuple[Callable[[bytes, int], tuple[object, ...]], int]] = {
    ord(letter): (Struct(">" + form).unpack_from, Struct(">" + form).size)
    for letter, form in zip("tbBsuIilLfd", "?bBhHiIqqfd", strict=True)
}


def decode_table(data: bytes, at: int = 0, depth: int = TABLE_DEPTH) -> tuple[dict[str, Any], int]:
    """Return the table at ``at`` and the position after it. Raises ``FrameError`` or ``SyntaxFault``.

    ``depth``: permitted levels of tables and arrays, including this table.
    """
    try:
        table, stop = read_table(data, at, depth)
    except TRUNCATED as error:
        raise FrameError("a table is truncated") from error
    if stop > len(data):
        raise FrameError("a table is truncated")
    return table, stop


def read_table(data: bytes, at: int, depth: int) -> tuple[dict[str, object], int]:
    """Do what ``decode_table`` does. Data that ends too early may also raise the exceptions in ``TRUNCATED``, or give a
    position beyond the data.
    """
    if not depth:
        raise SyntaxFault("a table or array is nested too deeply")
    end = at + 4 + _read_long(data, at)[0]
    at += 4
    table: dict[str, object] = {}
    value: object
    while at < end:
        stop = at + 1 + data[at]
        octets = data[at + 1 : stop]
        name = known_texts.get(octets)
        if name is None:
            name = _learn_text(octets)
        kind = data[stop]
        if kind == 0x53:  # S, the most common type, read without a call
            at = stop + 5 + _read_long(data, stop + 1)[0]
            octets = data[stop + 5 : at]
            try:
                value = octets.decode()
            except UnicodeDecodeError:
                value = octets
        elif kind in NUMBERS:
            unpack, size = NUMBERS[kind]
            value = unpack(data, stop + 1)[0]
            at = stop + 1 + size
        elif kind == 0x78:  # x, in every message between nodes
            at = stop + 5 + _read_long(data, stop + 1)[0]
            value = data[stop + 5 : at]
        else:
            value, at = read_value(data, stop, depth)
        if name in table:
            raise SyntaxFault(f"field {name!r} occurs twice in a table")
        table[name] = value
    if at != end:
        raise FrameError("a field ends outside its table")
    return table, end


def split_table(table: bytes, depth: int = TABLE_DEPTH) -> tuple[dict[str, object], bytes]:
    """Return the fields of an encoded table whose names begin with ``@``, decoded, and the bytes of the others.

    The bytes of the others are checked like those of a decoded table. Raises ``FrameError`` or ``SyntaxFault``.
    """
    decoded: dict[str, object] = {}
    others: list[bytes] = []
    names: set[bytes] = set()
    at = others_at = 4
    try:
        end = at + _read_long(table)[0]
        if end != len(table) or not depth:
            raise FrameError("a table is truncated") if depth else SyntaxFault("a table is nested too deeply")
        while at < end:
            start, stop = at, at + 1 + table[at]
            octets = table[at + 1 : stop]
            if octets not in known_texts:
                _learn_text(octets)
            if octets in names:
                raise SyntaxFault(f"field {octets.decode()!r} occurs twice in a table")
            names.add(octets)
            if octets[:1] == b"@":
                others.append(table[others_at:start])
                decoded[text_of(octets)], at = read_value(table, stop, depth)
                others_at = at
            else:
                at = _after_value(table, stop, depth)
    except TRUNCATED as error:
        raise FrameError("a table is truncated") from error
    if at != end:
        raise FrameError("a field ends outside its table")
    return decoded, b"".join(others) + table[others_at:]


def find_fields(fields: bytes, names: Collection[str]) -> dict[str, bytes]:
    """Return the encoded values (letter and bytes) of the fields with these names, from fields that were checked."""
    found: dict[str, bytes] = {}
    at, end = 0, len(fields)
    while at < end:
        stop = at + 1 + fields[at]
        name, at = text_of(fields[at + 1 : stop]), _after_value(fields, stop, DEPTH_MAX)
        if name in names:
            found[name] = fields[stop:at]
    return found


def decode_fields(fields: bytes) -> dict[str, object]:
    """Return the values of encoded fields. Raises ``FrameError`` or ``SyntaxFault``."""
    return decode_table(long_string(fields), 0, DEPTH_MAX)[0]


def _after_value(data: bytes, at: int, depth: int) -> int:
    """Return the position after the value whose letter is at ``at``."""
    kind = data[at]
    stop: int
    if kind in STRINGS:
        stop = at + 5 + _read_long(data, at + 1)[0]
    elif kind in NUMBERS:
        stop = at + 1 + NUMBERS[kind][1]
    else:
        _, stop = read_value(data, at, depth)
    return stop


def read_value(data: bytes, at: int, depth: int) -> tuple[object, int]:
    """Return the value whose letter is at ``at``, and the next position. ``depth``: of the enclosing table or array."""
    kind = data[at]
    if kind in NUMBERS:
        unpack, size = NUMBERS[kind]
        return unpack(data, at + 1)[0], at + 1 + size
    reader = READERS.get(kind)
    if reader is None:
        raise SyntaxFault(f"a field has an unknown type: {bytes([kind])!r}")
    return reader(data, at + 1, depth - 1)


def _read_string(data: bytes, at: int, _depth: int) -> tuple[str | bytes, int]:
    octets, stop = read_long_string(data, at)
    try:
        return octets.decode(), stop
    except UnicodeDecodeError:
        return octets, stop


def _read_octets(data: bytes, at: int, _depth: int) -> tuple[bytes, int]:
    return read_long_string(data, at)


def _read_array(data: bytes, at: int, depth: int) -> tuple[list[object], int]:
    if not depth:
        raise SyntaxFault("a table or array is nested too deeply")
    end = at + 4 + _read_long(data, at)[0]
    at += 4
    values = []
    while at < end:
        value, at = read_value(data, at, depth)
        values.append(value)
    if at != end:
        raise FrameError("a value ends outside its array")
    return values, end


def _read_decimal(data: bytes, at: int, _depth: int) -> tuple[Decimal, int]:
    places, number = DECIMAL.unpack_from(data, at)
    return Decimal(number).scaleb(-places), at + 5


def _read_timestamp(data: bytes, at: int, _depth: int) -> tuple[Timestamp, int]:
    return Timestamp(LONGLONG.unpack_from(data, at)[0]), at + 8


def _read_nothing(_data: bytes, at: int, _depth: int) -> tuple[None, int]:
    return None, at


DECIMAL = Struct(">Bi")
STRINGS = b"Sx"
READERS: dict[int, Callable[[bytes, int, int], tuple[object, int]]] = {
    ord("S"): _read_string,
    ord("x"): _read_octets,
    ord("F"): read_table,
    ord("A"): _read_array,
    ord("D"): _read_decimal,
    ord("T"): _read_timestamp,
    ord("V"): _read_nothing,
}


# Field tables: encoding

_string_head = Struct(">BI").pack  # letter and length
_int_head = Struct(">Bi").pack  # letter and value
_TRUE, _FALSE = b"t\x01", b"t\x00"


def encode_table(table: Table) -> bytes:
    """Return length and bytes of a table. Raises ``LocalMisuse`` for names and values that AMQP cannot carry."""
    return long_string(encode_fields(table))


def encode_fields(table: Table, depth: int = DEPTH_MAX) -> bytes:
    """Return the bytes of the fields of a table. Raises ``LocalMisuse`` as ``encode_table`` does."""
    if not depth:
        raise LocalMisuse("a table or array is nested too deeply")
    parts: list[bytes] = []
    for name, value in table.items():
        key = known_short_strings.get(name)
        if key is None:
            key = _learn_short_string(name)
        kind = type(value)
        if kind is str:
            octets = _utf8(value)  # type: ignore[arg-type]
            parts += (key, _string_head(0x53, len(octets)), octets)
        elif kind is int and -0x8000_0000 <= value < 0x8000_0000:  # type: ignore[operator]
            parts += (key, _int_head(0x49, value))
        elif kind is bool:
            parts += (key, _TRUE if value else _FALSE)
        elif kind is bytes:
            parts += (key, _string_head(0x78, len(value)), value)  # type: ignore[arg-type]
        else:
            parts += (key, encode_value(value, depth))
    return b"".join(parts)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LocalMisuse(f"not a text that AMQP can carry: {text!r:.60}") from error


def encode_value(value: FieldValue, depth: int = DEPTH_MAX) -> bytes:
    """Return one field value with its letter. Raises ``LocalMisuse``."""
    for kind, writer in WRITERS:
        if isinstance(value, kind):
            return writer(value, depth)
    raise LocalMisuse(f"a field cannot hold a {type(value).__name__}")


def _encode_int(value: int, _depth: int) -> bytes:
    for letter, form, low, high in INTEGERS:
        if low <= value < high:
            return letter + form.pack(value)
    raise LocalMisuse("an integer field is from -2^63 to 2^63 - 1; write larger numbers as text")


def _encode_decimal(value: Decimal, _depth: int) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or not -255 <= exponent <= 9 or len(digits) > 10:
        raise LocalMisuse(f"not a number that a decimal field can hold: {value}")
    number = int("".join(map(str, digits))) * 10 ** max(exponent, 0) * (-1 if sign else 1)
    if not -0x8000_0000 <= number < 0x8000_0000:
        raise LocalMisuse(f"a decimal field has at most 32 bits: {value}")
    return b"D" + DECIMAL.pack(max(-exponent, 0), number)


def _encode_timestamp(value: Timestamp, _depth: int) -> bytes:
    if not 0 <= value < 1 << 64:
        raise LocalMisuse(f"a timestamp is an unsigned number of 64 bits: {int(value)}")
    return b"T" + LONGLONG.pack(value)


def _encode_string(value: str, _depth: int) -> bytes:
    return b"S" + long_string(_utf8(value))


def _encode_octets(value: bytes, _depth: int) -> bytes:
    return b"x" + long_string(bytes(value))


def _encode_table(value: Table, depth: int) -> bytes:
    return b"F" + long_string(encode_fields(value, depth - 1))


def _encode_array(value: FieldArray, depth: int) -> bytes:
    if depth <= 1:
        raise LocalMisuse("a table or array is nested too deeply")
    return b"A" + long_string(b"".join([encode_value(item, depth - 1) for item in value]))


INTEGERS = (
    (b"I", Struct(">i"), -(1 << 31), 1 << 31),
    (b"l", Struct(">q"), -(1 << 63), 1 << 63),
)
WRITERS: tuple[tuple[type | tuple[type, ...], Callable[[Any, int], bytes]], ...] = (  # the first match is used
    (str, _encode_string),
    (bool, lambda value, _: _TRUE if value else _FALSE),
    (Timestamp, _encode_timestamp),
    (int, _encode_int),
    ((bytes, bytearray, memoryview), _encode_octets),
    (float, lambda value, _: b"d" + struct.pack(">d", value)),
    (type(None), lambda _value, _depth: b"V"),
    (Decimal, _encode_decimal),
    ((dict, Mapping), _encode_table),
    ((list, tuple), _encode_array),
)
