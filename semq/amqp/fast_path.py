"""The fast path: publish, deliver, ack, nack and reject with complete contents, read and written in one step.

A *fast reader* reads the usual case: a well-formed method on an idle channel, with header and body, if any, in one
frame each, complete in the buffer. It moves the frame reader past these frames and returns the event. In any other case
it returns None and does not move the frame reader; the general path (``codec``, ``channel``) then reads the same bytes.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

from semq.amqp.codec import IDS
from semq.amqp.content import ContentHeader
from semq.amqp.errors import SyntaxFault
from semq.amqp.events import Acked, ConnectionEvent, Delivered, Nacked, Published, Rejected
from semq.amqp.frames import END, FrameReader
from semq.amqp.methods import BasicAck, BasicDeliver, BasicNack, BasicPublish, BasicReject, Method
from semq.amqp.spec import BASIC, FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_METHOD
from semq.amqp.wire import known_short_strings, known_texts, short_string, text_of

FastReader: TypeAlias = Callable[[FrameReader, int, int, int, int, int], ConnectionEvent | None]
"""(reader, start and stop of the payload, channel, largest body in bytes, nesting limit of tables) -> event"""

_FRAME = Struct(">BHI").unpack_from  # type, channel, size
_HEADER = Struct(">BHIHHQ").unpack_from  # type, channel, size, class, weight, body size
_HEADER_SIZE: Final = 19
_HEADER_PAYLOAD_MIN: Final = 14  # including the flags
_TAG = Struct(">QB").unpack_from  # delivery tag, bits
_TAGGED_SIZE: Final = 13  # payload of ack, nack and reject
_BITS: Final = tuple(bytes([bits]) for bits in range(4))


def _ids(method: type[Method]) -> bytes:
    return IDS.pack(*method.ids)


# Reading


def _content(
    reader: FrameReader, at: int, channel: int, body_max: int, depth: int
) -> tuple[ContentHeader, bytes] | None:
    """Return header and body whose frames begin at ``at``, and move the reader past them; None for any other case."""
    data, payload_max = reader.buffer, reader.payload_max
    size = len(data)
    if size - at < _HEADER_SIZE:
        return None
    kind, number, length, class_id, weight, body_size = _HEADER(data, at)
    start = at + 7
    stop = start + length
    if (
        kind != FRAME_HEADER
        or number != channel
        or class_id != BASIC
        or weight
        or body_size > body_max
        or not _HEADER_PAYLOAD_MIN <= length <= reader.header_max
        or stop >= size
        or data[stop] != FRAME_END
    ):
        return None
    header = ContentHeader(data[start:stop], body_size, depth)
    if not body_size:
        reader.at = stop + 1
        return header, b""
    if size - stop < 9:  # the end byte of the header frame, and head and end byte of the body frame
        return None
    kind, number, length = _FRAME(data, stop + 1)
    start = stop + 8
    stop = start + length
    if (
        kind != FRAME_BODY
        or number != channel
        or length != body_size
        or length > payload_max
        or stop >= size
        or data[stop] != FRAME_END
    ):
        return None
    reader.at = stop + 1
    return header, data[start:stop]


def _text(octets: bytes) -> str | None:
    try:
        return text_of(octets)
    except SyntaxFault:
        return None


def _published(
    reader: FrameReader, start: int, stop: int, channel: int, body_max: int, depth: int
) -> ConnectionEvent | None:
    data = reader.buffer
    key_at = start + 7 + data[start + 6] if stop - start >= 9 else stop  # position of the routing key's length
    if key_at >= stop or key_at + 2 + data[key_at] != stop:
        return None
    exchange = known_texts.get(data[start + 7 : key_at])  # faster than ``_text`` for names seen before
    if exchange is None:
        exchange = _text(data[start + 7 : key_at])
    routing_key = known_texts.get(data[key_at + 1 : stop - 1])
    if routing_key is None:
        routing_key = _text(data[key_at + 1 : stop - 1])
    if exchange is None or routing_key is None:
        return None
    content = _content(reader, stop + 1, channel, body_max, depth)
    if content is None:
        return None
    bits = data[stop - 1]
    return Published(channel, exchange, routing_key, bits & 1 != 0, bits & 2 != 0, *content)


def _delivered(
    reader: FrameReader, start: int, stop: int, channel: int, body_max: int, depth: int
) -> ConnectionEvent | None:
    data = reader.buffer
    tag_at = start + 5 + data[start + 4] if stop - start >= 16 else stop  # position of delivery tag and redelivered
    key_at = tag_at + 10 + data[tag_at + 9] if tag_at + 9 < stop else stop  # position of the routing key's length
    if key_at >= stop or key_at + 1 + data[key_at] != stop:
        return None
    consumer_tag = _text(data[start + 5 : tag_at])
    delivery_tag, redelivered = _TAG(data, tag_at)
    exchange = _text(data[tag_at + 10 : key_at])
    routing_key = _text(data[key_at + 1 : stop])
    if consumer_tag is None or exchange is None or routing_key is None:
        return None
    content = _content(reader, stop + 1, channel, body_max, depth)
    if content is None:
        return None
    return Delivered(channel, consumer_tag, delivery_tag, redelivered & 1 != 0, exchange, routing_key, *content)


def _acked(
    reader: FrameReader, start: int, stop: int, channel: int, _body_max: int, _depth: int
) -> ConnectionEvent | None:
    if stop - start != _TAGGED_SIZE:
        return None
    delivery_tag, bits = _TAG(reader.buffer, start + 4)
    return Acked(channel, delivery_tag, bits & 1 != 0)


def _nacked(
    reader: FrameReader, start: int, stop: int, channel: int, _body_max: int, _depth: int
) -> ConnectionEvent | None:
    if stop - start != _TAGGED_SIZE:
        return None
    delivery_tag, bits = _TAG(reader.buffer, start + 4)
    return Nacked(channel, delivery_tag, bits & 1 != 0, bits & 2 != 0)


def _rejected(
    reader: FrameReader, start: int, stop: int, channel: int, _body_max: int, _depth: int
) -> ConnectionEvent | None:
    if stop - start != _TAGGED_SIZE:
        return None
    delivery_tag, bits = _TAG(reader.buffer, start + 4)
    return Rejected(channel, delivery_tag, bits & 1 != 0)


SERVER_READERS: dict[bytes, FastReader] = {
    _ids(BasicPublish): _published,
    _ids(BasicAck): _acked,
    _ids(BasicNack): _nacked,
    _ids(BasicReject): _rejected,
}
CLIENT_READERS: dict[bytes, FastReader] = {
    _ids(BasicDeliver): _delivered,
    _ids(BasicAck): _acked,
    _ids(BasicNack): _nacked,
}

# Writing

_method_head = Struct(">BHI4s").pack  # type, channel, size, ids
_next_head = Struct(">BBHI").pack  # the end of one frame and the head of the next
_tag = Struct(">QB").pack
_tagged = Struct(">BHI4sQBB").pack
_PUBLISH, _DELIVER = _ids(BasicPublish), _ids(BasicDeliver)
_ACK, _NACK, _REJECT = _ids(BasicAck), _ids(BasicNack), _ids(BasicReject)


def _short(text: str) -> bytes:
    octets = known_short_strings.get(text)
    return short_string(text) if octets is None else octets


def publish_frames(
    channel: int, exchange: str, routing_key: str, bits: int, raw: bytes, body: bytes | memoryview
) -> bytes:
    """Return the frames of basic.publish, header and body. The body must fit into one frame and must not be empty."""
    target, key = _short(exchange), _short(routing_key)
    return b"".join(
        (
            _method_head(FRAME_METHOD, channel, 7 + len(target) + len(key), _PUBLISH),
            b"\0\0",
            target,
            key,
            _BITS[bits],
            _next_head(FRAME_END, FRAME_HEADER, channel, len(raw)),
            raw,
            _next_head(FRAME_END, FRAME_BODY, channel, len(body)),
            body,
            END,
        )
    )


def deliver_frames(
    channel: int,
    consumer_tag: str,
    delivery_tag: int,
    redelivered: bool,
    exchange: str,
    routing_key: str,
    raw: bytes,
    body: bytes | memoryview,
) -> bytes:
    """Return the frames of basic.deliver, header and body. The body must fit into one frame and must not be empty."""
    consumer, source, key = _short(consumer_tag), _short(exchange), _short(routing_key)
    return b"".join(
        (
            _method_head(FRAME_METHOD, channel, 13 + len(consumer) + len(source) + len(key), _DELIVER),
            consumer,
            _tag(delivery_tag, redelivered),
            source,
            key,
            _next_head(FRAME_END, FRAME_HEADER, channel, len(raw)),
            raw,
            _next_head(FRAME_END, FRAME_BODY, channel, len(body)),
            body,
            END,
        )
    )


def ack_frame(channel: int, delivery_tag: int, multiple: bool) -> bytes:
    """Return the frame of basic.ack."""
    return _tagged(FRAME_METHOD, channel, _TAGGED_SIZE, _ACK, delivery_tag, multiple, FRAME_END)


def nack_frame(channel: int, delivery_tag: int, multiple: bool, requeue: bool) -> bytes:
    """Return the frame of basic.nack."""
    return _tagged(FRAME_METHOD, channel, _TAGGED_SIZE, _NACK, delivery_tag, multiple | requeue << 1, FRAME_END)


def reject_frame(channel: int, delivery_tag: int, requeue: bool) -> bytes:
    """Return the frame of basic.reject."""
    return _tagged(FRAME_METHOD, channel, _TAGGED_SIZE, _REJECT, delivery_tag, requeue, FRAME_END)
