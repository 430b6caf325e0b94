"""The stored form of envelopes."""

import msgspec

from semq.engine.errors import BodyUnreadable
from semq.store.rows import Stored
from semq.umx_t.envelope import Envelope

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
