"""The stored form of envelopes, and the size of a document without its seal."""

import msgspec

from semq.engine.errors import BodyUnreadable
from semq.seal.session import OVERHEAD
from semq.store.rows import Stored
from semq.umx_t.envelope import Data, Envelope

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Envelope)


def encode_envelope(envelope: Envelope) -> bytes:
    """Encode an envelope for the store."""
    return _encoder.encode(envelope)


def decode_envelope(stored: Stored | None) -> Envelope:
    """Decode the envelope of a stored body. Raises BodyUnreadable, also for None."""
    try:
        return _decoder.decode(stored.envelope if stored is not None else b"")
    except msgspec.MsgspecError as error:
        raise BodyUnreadable(fault=str(error)) from error


def document_size(message: Data) -> int:
    """Return the size of the document in a message, in bytes, without the bytes that a seal adds. Limits apply to this
    size."""
    return message.size - OVERHEAD * message.envelope.is_sealed
