"""Content headers: raw octets until somebody needs a field of them.

``ContentHeader`` keeps the payload of the header frame as it came; a hub that only passes a message on never
decodes it. ``Properties`` is the value to build one from. Made by ``channel`` and ``hot`` from what a peer sends
and by owners for what they send. Source: seed AMQP 0-9-1, 4.2.6.1.
"""

import struct
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any, Final, Generic, TypeVar

from semq.amqp.codec import KINDS
from semq.amqp.errors import AmqpError, FrameError, LocalMisuse, SyntaxFault
from semq.amqp.record import Record
from semq.amqp.spec import BASIC, PROPERTIES
from semq.amqp.wire import (
    DEPTH_MAX,
    LONG,
    SHORT,
    TABLE_DEPTH,
    TRUNCATED,
    FieldValue,
    Table,
    decode_table,
    encode_value,
    long_string,
    read_short_string,
    read_value,
    short_string,
)

HEAD: Final = Struct(">HHQ")  # class id, weight, body size; the property flags follow
FLAGS_AT: Final = HEAD.size
FIRST_AT: Final = FLAGS_AT + SHORT.size
FLAGS: dict[str, int] = {name: 0x8000 >> place for place, (name, _) in enumerate(PROPERTIES)}
KIND_OF: dict[str, str] = dict(PROPERTIES)
T = TypeVar("T")


class Properties(Record):
    """The properties of class basic; None means absent. ``timestamp`` is in POSIX seconds."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


class Lazy(Generic[T]):
    """One property of a header, decoded when it is first asked; None if absent."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self.name = name

    def __get__(self, header: "ContentHeader", _owner: type) -> T | None:
        values = header.values
        if values is None:
            values = header.decode()
        value: T | None = values.get(self.name)
        return value


class LazyHeaders:
    """The field table of a header: found with the other properties, but decoded only when it is asked itself."""

    def __get__(self, header: "ContentHeader", _owner: type) -> dict[str, Any] | None:
        values = header.decode() if header.values is None else header.values
        table = values.get("headers")
        if type(table) is int:
            try:
                table = values["headers"] = decode_table(header.raw, table, header.depth)[0]
            except AmqpError as error:
                raise error.at(BASIC, 0) from None
        found: dict[str, Any] | None = table
        return found


class ContentHeader:
    """The payload of a content header frame. ``raw`` is what came or what will go; it never changes.

    Reading a property of a malformed header raises ``FrameError`` or ``SyntaxFault``, every time it is tried.
    """

    __slots__ = ("body_size", "depth", "raw", "values")

    def __init__(self, raw: bytes, body_size: int, depth: int = TABLE_DEPTH) -> None:
        self.raw = raw
        self.body_size = body_size
        self.depth = depth
        self.values: dict[str, Any] | None = None  # by name; headers by position until they are asked

    content_type = Lazy[str]()
    content_encoding = Lazy[str]()
    headers = LazyHeaders()
    delivery_mode = Lazy[int]()
    priority = Lazy[int]()
    correlation_id = Lazy[str]()
    reply_to = Lazy[str]()
    expiration = Lazy[str]()
    message_id = Lazy[str]()
    timestamp = Lazy[int]()
    type = Lazy[str]()
    user_id = Lazy[str]()
    app_id = Lazy[str]()
    cluster_id = Lazy[str]()

    @classmethod
    def parse(cls, raw: bytes, depth: int = TABLE_DEPTH) -> "ContentHeader":
        """The header in the payload of a header frame. Raises ``FrameError`` (501) or ``SyntaxFault`` (4.2.6.1)."""
        if len(raw) < FIRST_AT:
            raise FrameError("content header is cut off", BASIC)
        class_id, weight, body_size = HEAD.unpack_from(raw)
        if class_id != BASIC:
            raise FrameError(f"content header of class {class_id}", BASIC)
        if weight:
            raise SyntaxFault(f"content header with weight {weight}", BASIC)
        return cls(raw, body_size, depth)

    @classmethod
    def build(cls, body_size: int, properties: Properties) -> "ContentHeader":
        """A header to send. Raises ``LocalMisuse`` for properties that AMQP cannot carry."""
        values = {name: getattr(properties, name) for name in FLAGS}
        return cls._assemble(
            body_size, {name: _written(name, value) for name, value in values.items() if value is not None}
        )

    @classmethod
    def _assemble(cls, body_size: int, octets: Mapping[str, bytes], depth: int = TABLE_DEPTH) -> "ContentHeader":
        flags = sum(FLAGS[name] for name in octets)
        front = HEAD.pack(BASIC, 0, body_size) + SHORT.pack(flags)
        return cls(b"".join((front, *(octets[name] for name in FLAGS if name in octets))), body_size, depth)

    @property
    def properties(self) -> Properties:
        """All properties, decoded."""
        return Properties(**{name: getattr(self, name) for name in FLAGS})

    def amended(
        self, *, headers: Mapping[str, FieldValue] | None = {}, **properties: str | int | None
    ) -> "ContentHeader":
        """A copy in which only the named properties and the named entries of ``headers`` differ.

        None removes a property, an entry, or all headers. Everything else keeps its octets, so no number changes
        its type on the way through. Raises as reading does, and ``LocalMisuse``.
        """
        octets = dict(self._slices())
        for name, value in properties.items():
            octets.pop(name, None)
            if value is not None:
                octets[name] = _written(name, value)
        if headers is None:
            octets.pop("headers", None)
        elif headers:
            octets["headers"] = _amended_table(octets.get("headers", b"\0\0\0\0"), headers, self.depth)
        return self._assemble(self.body_size, octets, self.depth)

    def decode(self) -> dict[str, Any]:
        """Decode all but the headers, and check that nothing is cut off or left over."""
        values: dict[str, Any] = {}
        for name, start, _, value in self._walk():
            values[name] = start if name == "headers" else value
        self.values = values
        return values

    def _slices(self) -> Iterator[tuple[str, bytes]]:
        for name, start, stop, _ in self._walk():
            yield name, self.raw[start:stop]

    def _walk(self) -> Iterator[tuple[str, int, int, Any]]:
        """Name, start, stop and value of each property that is present; headers only by their length."""
        raw, at = self.raw, FIRST_AT
        try:
            for name in _names(SHORT.unpack_from(raw, FLAGS_AT)[0]):
                start, value = at, None
                if name == "headers":
                    at += 4 + LONG.unpack_from(raw, at)[0]
                else:
                    value, at = KINDS[KIND_OF[name]].read(raw, at, 0)
                yield name, start, at, value
        except TRUNCATED as error:
            raise FrameError("content header is cut off", BASIC) from error
        except AmqpError as error:
            raise error.at(BASIC, 0) from None
        if at != len(raw):
            raise FrameError("the properties do not fill the content header", BASIC)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContentHeader) and other.raw == self.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"ContentHeader(raw={self.raw!r}, body_size={self.body_size})"


_names_by_flags: dict[int, tuple[str, ...]] = {}  # at most 2^14 of them


def _names(flags: int) -> tuple[str, ...]:
    """The properties that the flags announce, in wire order."""
    names = _names_by_flags.get(flags)
    if names is None:
        if flags & 0b11:  # one more property than there are, or one more word of flags
            raise SyntaxFault("content header with flags of unknown properties")
        names = _names_by_flags[flags] = tuple(name for name, flag in FLAGS.items() if flags & flag)
    return names


def _written(name: str, value: Any) -> bytes:
    if name not in KIND_OF:
        raise LocalMisuse(f"there is no property {name}")
    try:
        return KINDS[KIND_OF[name]].write(value)
    except (struct.error, TypeError, AttributeError) as error:
        raise LocalMisuse(f"the property {name} cannot be {value!r:.60}") from error


def _amended_table(table: bytes, changes: Mapping[str, FieldValue], depth: int) -> bytes:
    """The octets of a table with some entries replaced, added or (None) removed."""
    decode_table(table, 0, depth)  # raises where the walk below would read nonsense
    fields, at = [], 4
    while at < len(table):
        name, value_at = read_short_string(table, at)
        _, stop = read_value(table, value_at, DEPTH_MAX)
        if name not in changes:
            fields.append(table[at:stop])
        at = stop
    fields += [short_string(name) + encode_value(value) for name, value in changes.items() if value is not None]
    return long_string(b"".join(fields))
