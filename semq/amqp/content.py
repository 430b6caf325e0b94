"""Content headers, kept as raw bytes until a field is read. Source: AMQP 0-9-1, 4.2.6.1."""

import struct
from collections.abc import Callable, Mapping
from operator import attrgetter
from struct import Struct
from typing import Any, Final, Generic, TypeVar

import msgspec

from semq.amqp.errors import AmqpError, FrameError, LocalMisuse, SyntaxFault
from semq.amqp.spec import BASIC, PROPERTIES
from semq.amqp.wire import (
    DEPTH_MAX,
    LONG,
    LONGLONG,
    OCTET,
    TABLE_DEPTH,
    TRUNCATED,
    FieldValue,
    Table,
    decode_table,
    encode_table,
    encode_value,
    long_string,
    read_short_string,
    read_value,
    short_string,
    split_table,
    uncached_short_string,
    uncached_text,
)

HEAD: Final = Struct(">HHQ")  # class id, weight, body size
HEAD_AND_FLAGS: Final = Struct(">HHQH")  # HEAD, then the property flags
PROPERTIES_AT: Final = HEAD_AND_FLAGS.size  # position of the first property
UNKNOWN_FLAGS: Final = 0b11  # a bit without a property, and the bit that announces 16 more flags

# Type of property | writer, size in bytes (TEXT_SIZE, TABLE_SIZE: the size precedes the value).
TEXT_SIZE: Final = 0
TABLE_SIZE: Final = -1
PROPERTY_TYPES: dict[str, tuple[Callable[[Any], bytes], int]] = {
    "shortstr": (uncached_short_string, TEXT_SIZE),
    "octet": (OCTET.pack, 1),
    "timestamp": (LONGLONG.pack, 8),
    "table": (lambda table: table if isinstance(table, bytes) else encode_table(table), TABLE_SIZE),
}
NAMES: Final = tuple(name for name, _ in PROPERTIES)
FLAGS: dict[str, int] = {name: 0x8000 >> number for number, name in enumerate(NAMES)}
WRITERS: dict[str, Callable[[object], bytes]] = {name: PROPERTY_TYPES[kind][0] for name, kind in PROPERTIES}
SIZES: dict[str, int] = {name: PROPERTY_TYPES[kind][1] for name, kind in PROPERTIES}
NO_CHANGES: Mapping[str, FieldValue] = {}
NO_FIELDS: Final = LONG.pack(0)  # an empty table
T = TypeVar("T")
_long_at = LONG.unpack_from


class Properties(msgspec.Struct):
    """The properties of class basic; None: absent. ``timestamp`` is in POSIX seconds.

    ``headers`` may be an encoded table. Texts that nodes pass on may be bytes, because some clients send no UTF-8.
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | bytes | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | bytes | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | bytes | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


_values_of = attrgetter(*NAMES)
_FLAGS_AND_WRITERS = tuple(FLAGS.values()), tuple(WRITERS.values())


class LazyProperty(Generic[T]):
    """A property of a header, decoded on access; None if absent."""

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        self.decode = decode

    def __set_name__(self, _owner: type, name: str) -> None:
        self.name = name

    def __get__(self, header: "ContentHeader", _owner: type) -> T | None:
        spans = header.spans
        if spans is None:
            spans = header.locate()
        span = spans.get(self.name)
        if span is None:
            return None
        return self.decode(header.raw[span[0] : span[1]])


def _text(octets: bytes) -> str:
    try:
        return uncached_text(octets[1:])
    except AmqpError as error:
        raise error.at(BASIC, 0) from None


def _octet(octets: bytes) -> int:
    return octets[0]


def _timestamp(octets: bytes) -> int:
    return int.from_bytes(octets, "big")


class ContentHeader:
    """The payload of a content header frame. ``raw``: the bytes received or to be sent, which never change.

    ``depth``: nesting limit of tables and arrays in the property ``headers``. Reading a property of a malformed header
    raises ``FrameError`` or ``SyntaxFault``, on every attempt.
    """

    __slots__ = ("_table", "body_size", "depth", "raw", "spans")

    def __init__(self, raw: bytes, body_size: int, depth: int = TABLE_DEPTH) -> None:
        self.raw = raw
        self.body_size = body_size
        self.depth = depth
        self.spans: dict[str, tuple[int, int]] | None = None  # positions of the properties, found on the first access
        self._table: dict[str, object] | None = None

    content_type = LazyProperty(_text)
    content_encoding = LazyProperty(_text)
    delivery_mode = LazyProperty(_octet)
    priority = LazyProperty(_octet)
    correlation_id = LazyProperty(_text)
    reply_to = LazyProperty(_text)
    expiration = LazyProperty(_text)
    message_id = LazyProperty(_text)
    timestamp = LazyProperty(_timestamp)
    type = LazyProperty(_text)
    user_id = LazyProperty(_text)
    app_id = LazyProperty(_text)
    cluster_id = LazyProperty(_text)

    @property
    def headers(self) -> dict[str, Any] | None:
        """The field table, decoded once; None if absent. Do not change it: ``amended`` makes a copy."""
        if self._table is None:
            span = (self.locate() if self.spans is None else self.spans).get("headers")
            if span is None:
                return None
            try:
                self._table, _ = decode_table(self.raw[span[0] : span[1]], 0, self.depth)
            except AmqpError as error:
                raise error.at(BASIC, 0) from None
        return self._table

    def split_headers(self) -> tuple[dict[str, object], bytes]:
        """Return the headers whose names begin with ``@``, decoded, and the encoded fields of all others."""
        span = (self.locate() if self.spans is None else self.spans).get("headers")
        if span is None:
            return {}, b""
        try:
            return split_table(self.raw[span[0] : span[1]], self.depth)
        except AmqpError as error:
            raise error.at(BASIC, 0) from None

    @property
    def properties(self) -> Properties:
        return Properties(*_values_of(self))

    @classmethod
    def parse(cls, raw: bytes, depth: int = TABLE_DEPTH) -> "ContentHeader":
        """Read the payload of a header frame (4.2.6.1). Raises ``FrameError`` or ``SyntaxFault``."""
        if len(raw) < PROPERTIES_AT:
            raise FrameError("the content header is truncated", BASIC)
        class_id, weight, body_size = HEAD.unpack_from(raw)
        if class_id != BASIC:
            raise FrameError(f"a content header of class {class_id}", BASIC)
        if weight:
            raise SyntaxFault(f"a content header with weight {weight}", BASIC)
        return cls(raw, body_size, depth)

    @classmethod
    def build(cls, body_size: int, properties: Properties) -> "ContentHeader":
        """Return a header to send. Raises ``LocalMisuse`` for properties that AMQP cannot carry."""
        flags, parts = 0, [b""]
        try:
            for value, flag, write in zip(_values_of(properties), *_FLAGS_AND_WRITERS, strict=False):
                if value is not None:
                    flags |= flag
                    parts.append(write(value))
            parts[0] = HEAD_AND_FLAGS.pack(BASIC, 0, body_size, flags)
        except (struct.error, TypeError, AttributeError) as error:
            raise LocalMisuse(f"a content header cannot carry {properties}: {error}") from error
        return cls(b"".join(parts), body_size)

    def amended(
        self, *, headers: Mapping[str, FieldValue] | None = NO_CHANGES, **properties: str | int | None
    ) -> "ContentHeader":
        """Return a copy with changed properties and changed entries of ``headers``.

        The value None removes a property or an entry; ``headers=None`` removes all headers.

        Everything else keeps its bytes, so numbers keep their wire types. Raises ``LocalMisuse`` for unknown properties
        and values that AMQP cannot carry; for a malformed header, ``FrameError`` or ``SyntaxFault``.
        """
        spans = self.locate() if self.spans is None else self.spans
        octets = {name: self.raw[start:stop] for name, (start, stop) in spans.items()}
        for name, value in properties.items():
            if name not in FLAGS:
                raise LocalMisuse(f"there is no property {name}")
            octets.pop(name, None)
            if value is not None:
                octets[name] = _encode_property(name, value)
        if headers is None:
            octets.pop("headers", None)
        elif headers:
            octets["headers"] = _amended_table(octets.get("headers", NO_FIELDS), headers, self.depth)
        front = HEAD_AND_FLAGS.pack(BASIC, 0, self.body_size, sum(FLAGS[name] for name in octets))
        return ContentHeader(
            front + b"".join(octets[name] for name in NAMES if name in octets), self.body_size, self.depth
        )

    def locate(self) -> dict[str, tuple[int, int]]:
        """Return start and stop of each property in ``raw``. Raises ``FrameError`` or ``SyntaxFault``."""
        raw, at = self.raw, PROPERTIES_AT
        spans = {}
        try:
            for name, size in _layout(HEAD_AND_FLAGS.unpack_from(raw)[3]):
                start = at
                if size == TEXT_SIZE:
                    at += 1 + raw[at]
                elif size == TABLE_SIZE:
                    at += 4 + _long_at(raw, at)[0]
                else:
                    at += size
                spans[name] = start, at
        except TRUNCATED as error:
            raise FrameError("the content header is truncated", BASIC) from error
        if at != len(raw):
            raise FrameError("the properties do not fill the content header", BASIC)
        self.spans = spans
        return spans

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContentHeader) and other.raw == self.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"ContentHeader(raw={self.raw!r}, body_size={self.body_size})"


_layouts: dict[int, tuple[tuple[str, int], ...]] = {}  # by flags; at most 2^14 entries


def _layout(flags: int) -> tuple[tuple[str, int], ...]:
    layout = _layouts.get(flags)
    if layout is None:
        if flags & UNKNOWN_FLAGS:
            raise SyntaxFault("a content header with flags of unknown properties", BASIC)
        layout = _layouts[flags] = tuple((name, SIZES[name]) for name, flag in FLAGS.items() if flags & flag)
    return layout


def _encode_property(name: str, value: object) -> bytes:
    try:
        return WRITERS[name](value)
    except (struct.error, TypeError, AttributeError) as error:
        raise LocalMisuse(f"the property {name} cannot be {value!r:.60}") from error


def _amended_table(table: bytes, changes: Mapping[str, FieldValue], depth: int) -> bytes:
    decode_table(table, 0, depth)  # raises for a malformed table
    fields, at = [], 4
    while at < len(table):
        name, value_at = read_short_string(table, at)
        _, stop = read_value(table, value_at, DEPTH_MAX)
        if name not in changes:
            fields.append(table[at:stop])
        at = stop
    fields += [short_string(name) + encode_value(value) for name, value in changes.items() if value is not None]
    return long_string(b"".join(fields))
