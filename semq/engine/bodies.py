"""Envelopes as they lie beside payloads in the store."""

import msgspec

from semq.store.rows import Stored
from semq.umx_t.envelope import Envelope

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Envelope)


def encode_envelope(envelope: Envelope) -> bytes:
    """An envelope as bytes for the store."""
    return _encoder.encode(envelope)


def decode_envelope(stored: Stored) -> Envelope:
    """The envelope of a stored body."""
    return _decoder.decode(stored.envelope)
