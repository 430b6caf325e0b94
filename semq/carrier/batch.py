"""Batches: messages between instances as one AMQP body.

A body is an HMAC-SHA256, followed by msgpack: destination, incarnation of the sender, number of the batch, messages.
The HMAC covers the destination, so that a body cannot be replayed to another queue. By the number, replays to the same
queue are dropped (``semq.engine.hub.freshness``).
"""

import hmac
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from semq.amqp.content import ContentHeader
from semq.carrier.errors import ForeignBatch
from semq.engine.frames import read_frame, write_frame
from semq.engine.hub.carrier import (
    Acknowledged,
    Alive,
    Asking,
    Came,
    Credit,
    Message,
    Passed,
    PresentSessions,
    Question,
    Reply,
    StoreFrames,
    Went,
)
from semq.errors import SemqError
from semq.umx_t.address import parse_address
from semq.umx_t.envelope import Frame

MAC_BYTES = 32
KEY_BYTES = 32
CarriedFrame = tuple[str, bytes, bytes]  #: routing key, content header, body
# Number | class of messages without frames. A number is never given to another class.
PLAIN: dict[int, type[Message]] = {
    3: Credit,
    4: Acknowledged,
    5: Came,
    6: Went,
    7: PresentSessions,
    8: Asking,
    9: Alive,
    10: Question,
    11: Reply,
}
STORE_FRAMES, PASSED = 1, 2
NUMBERS = {kind: number for number, kind in PLAIN.items()}
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, int, int, list[tuple[int, msgspec.Raw]]]).decode
_decode_frames = msgspec.msgpack.Decoder(tuple[str, list[CarriedFrame]]).decode
_decode_passed = msgspec.msgpack.Decoder(tuple[str, int, int, CarriedFrame]).decode
_decode_plain = {number: msgspec.msgpack.Decoder(kind).decode for number, kind in PLAIN.items()}


class CarriedBatch(NamedTuple):
    """The content of a batch."""

    life: int  #: incarnation of the sender
    number: int  #: rises with each batch of one incarnation
    messages: list[Message]


def pack(message: Message) -> bytes:
    """Return a message as an element of a batch."""
    if isinstance(message, StoreFrames):
        return _encode((STORE_FRAMES, (str(message.speaker), [_written(frame) for frame in message.frames])))
    if isinstance(message, Passed):
        return _encode((PASSED, (message.node, message.session, message.number, _written(message.frame))))
    return _encode((NUMBERS[type(message)], message))


def seal(key: bytes, destination: str, life: int, number: int, packed: Sequence[bytes]) -> bytes:
    """Return the body of a batch of packed messages. ``life``: the incarnation of the sender; ``number``: of the
    batch."""
    content = _encode((destination, life, number, [msgspec.Raw(message) for message in packed]))
    return hmac.digest(key, content, "sha256") + content


def open_batch(key: bytes, destination: str, body: bytes, on_unreadable: Callable[[SemqError], None]) -> CarriedBatch:
    """Return the content of a batch. Raises ForeignBatch.

    ``on_unreadable`` is called for each message that cannot be read; an instance of a newer version may have sent it.
    """
    mac, content = body[:MAC_BYTES], memoryview(body)[MAC_BYTES:]
    if not hmac.compare_digest(mac, hmac.digest(key, content, "sha256")):
        raise ForeignBatch("The batch is not authenticated with the hub's key.", queue=destination, size=len(body))
    try:
        made_for, life, batch_number, elements = _decode(content)
    except msgspec.MsgspecError as error:
        raise ForeignBatch(queue=destination, fault=str(error)) from error
    if made_for != destination:
        raise ForeignBatch("The batch was made for another queue.", queue=destination, made_for=made_for[:80])
    messages: list[Message] = []
    for number, raw in elements:
        try:
            messages.append(_unpacked(number, raw))
        except (SemqError, msgspec.MsgspecError, KeyError) as error:
            on_unreadable(
                ForeignBatch("A message in the batch cannot be read.", queue=destination, fault=str(error)[:200])
            )
    return CarriedBatch(life, batch_number, messages)


def _unpacked(number: int, raw: msgspec.Raw) -> Message:
    if number == STORE_FRAMES:
        speaker, frames = _decode_frames(raw)
        return StoreFrames(parse_address(speaker).node, [_read(frame) for frame in frames])
    if number == PASSED:
        node, session, message_number, frame = _decode_passed(raw)
        return Passed(node, session, message_number, _read(frame))
    return _decode_plain[number](raw)


def _written(frame: Frame) -> tuple[str, bytes, object]:
    routing_key, header, body = write_frame(frame)
    return routing_key, header.raw, body


def _read(frame: CarriedFrame) -> Frame:
    routing_key, header, body = frame
    return read_frame(routing_key, ContentHeader.parse(header), body)
