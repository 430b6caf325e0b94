"""Envelopes as they lie beside payloads in the store, and how large a document is, whatever is around it."""

import msgspec

from semq.engine.errors import BodyUnreadable
from semq.seal.session import OVERHEAD
from semq.store.rows import Stored
from semq.umx_t.envelope import Data, Envelope

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Envelope)


def encode_envelope(envelope: Envelope) -> bytes:
    """An envelope as bytes for the store."""
    return _encoder.encode(envelope)


def decode_envelope(stored: Stored | None) -> Envelope:
    """The envelope of a stored body. Raises BodyUnreadable."""
    try:
        return _decoder.decode(stored.envelope if stored is not None else b"")
    except msgspec.MsgspecError as error:
        raise BodyUnreadable(fault=str(error)) from error


def document_size(message: Data) -> int:
    """Bytes of the document that a message carries: limits are those of the document, and sealing adds some bytes."""
    return message.size - OVERHEAD * message.envelope.is_sealed
