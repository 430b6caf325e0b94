"""The packed form of an envelope: one header field between two nodes of protocol version 2 or later.

The field ``@Envelope`` is a msgpack array of attributes. AMQP properties, headers of the application, and attributes of
later releases stay outside the array, because a node forwards an unknown attribute only if it is a header of its own.
An AMQP table with the same attributes takes twice as long to read.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from semq.foreign_text import shortened
from semq.umx_t.address import Address
from semq.umx_t.app_key import parse_app_key
from semq.umx_t.attribute_values import MOMENT_MAX
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.errors import BadEnvelope
from semq.umx_t.locator import INT64_MAX, LK0_MAX, LK1, Pos, parse_lk0
from semq.umx_t.status import SaveFwd

DIGEST_SIZES = (0, 32)  # bytes

Number = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]


class Packed(msgspec.Struct, array_like=True, frozen=True):
    """The elements of the array, in order. No version adds or changes an element."""

    lk0: Annotated[str, msgspec.Meta(max_length=LK0_MAX)]
    save_fwd: SaveFwd
    reliable: bool
    ack2: bool
    encrypt: bool
    fixed: bool
    app_key: str
    order_key: Annotated[str, msgspec.Meta(max_length=128)]
    expires_at: Annotated[int, msgspec.Meta(ge=0, le=MOMENT_MAX)]
    sender: Annotated[str, msgspec.Meta(max_length=64)]
    submitted_at: Number
    digest: Annotated[bytes, msgspec.Meta(max_length=DIGEST_SIZES[-1])]
    sid: Annotated[int, msgspec.Meta(ge=-1, le=INT64_MAX)]
    floor: Number
    prev: tuple[Number, Number] | None
    att: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    void: bool
    late: bool
    lk1: tuple[Number, Number, Number] | None
    session_key: Annotated[str, msgspec.Meta(max_length=8192)]
    alg: Annotated[str, msgspec.Meta(max_length=64)]
    key_id: Annotated[str, msgspec.Meta(max_length=64)]
    origin: Annotated[str, msgspec.Meta(max_length=400)]
    signature: Annotated[str, msgspec.Meta(max_length=2048)]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Packed).decode


def pack(envelope: Envelope) -> bytes:
    """Return the bytes of the field."""
    e, a = envelope, envelope.attributes
    return _encode(
        (
            e.ident, a.save_fwd, a.reliable, a.ack2, a.encrypt, a.fixed, str(a.app_key), a.order_key, a.expires_at,
            e.sender, e.submitted_at, e.digest, e.sid, e.floor, e.prev, e.att, e.void, e.late, e.lk1, e.session_key,
            e.alg, e.key_id, e.origin, e.signature,
        )
    )  # fmt: skip


def unpack(
    packed: bytes, source: Address, target: Address, of_document: Mapping[str, Any], of_transport: Mapping[str, Any]
) -> Envelope:
    """Return the envelope for the bytes of the field.

    ``of_document`` and ``of_transport`` are arguments of Attributes and Envelope from the headers beside the field.
    Raises BadEnvelope, BadLocator or BadAppKey.
    """
    try:
        p = _decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError) as error:
        raise BadEnvelope("The field @Envelope cannot be read.", fault=shortened(str(error), 200)) from error
    texts = f"{p.sender}{p.order_key}{p.session_key}{p.alg}{p.key_id}{p.origin}{p.signature}"
    if not texts.isprintable() or len(p.digest) not in DIGEST_SIZES:
        raise BadEnvelope("The field @Envelope has unprintable text, or a digest that is not of SHA-256.")
    attributes = Attributes(
        save_fwd=p.save_fwd, reliable=p.reliable, ack2=p.ack2, encrypt=p.encrypt, fixed=p.fixed,
        app_key=parse_app_key(p.app_key), order_key=p.order_key, expires_at=p.expires_at, **of_document,
    )  # fmt: skip
    return Envelope(
        source=source, target=target, lk0=parse_lk0(p.lk0), attributes=attributes, sender=p.sender,
        sid=p.sid, floor=p.floor, prev=Pos(*p.prev) if p.prev else None, att=p.att, void=p.void, late=p.late,
        lk1=LK1(*p.lk1) if p.lk1 else None, digest=p.digest, submitted_at=p.submitted_at, session_key=p.session_key,
        alg=p.alg, key_id=p.key_id, origin=p.origin, signature=p.signature, **of_transport,
    )  # fmt: skip
