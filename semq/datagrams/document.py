"""A document in a datagram: its number; then routing key, content header and body as on a link.

The number counts the documents of one direction of a channel without gaps, so that loss can be counted.
"""

from typing import NamedTuple

import msgspec

from semq.amqp.content import ContentHeader
from semq.errors import SemqError

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, str, bytes, bytes]).decode


class CarriedDocument(NamedTuple):
    """A document as a link carries it."""

    routing_key: str
    header: ContentHeader
    body: bytes


def write_document(number: int, document: CarriedDocument) -> bytes:
    """Return the content of a datagram, without the byte for its kind."""
    return _encode((number, document.routing_key, document.header.raw, document.body))


def read_document(content: bytes | memoryview) -> tuple[int, CarriedDocument] | None:
    """Return number and document from what ``write_document`` returned at the other end; None if it cannot be read."""
    try:
        number, routing_key, raw, body = _decode(content)
        header = ContentHeader.parse(raw)
    except (msgspec.MsgspecError, SemqError, UnicodeDecodeError):
        return None
    if number < 0 or header.body_size != len(body):
        return None
    return number, CarriedDocument(routing_key, header, body)
