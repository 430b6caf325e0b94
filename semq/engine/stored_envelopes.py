"""The stored form of envelopes: JSON without default values, which ``semq_envelope`` reads in SQL.

Two parts are stored as encoded fields of AMQP, because JSON has fewer types: the headers of the application, which
arrived so and which ``semq_fields`` reads in SQL, and the attributes of newer versions.
"""

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from semq.amqp.wire import decode_fields, encode_fields
from semq.engine.errors import BodyUnreadable
from semq.errors import SemqError
from semq.store.rows import Stored
from semq.umx_t.envelope import Envelope

FIELDS: Final = "fields"  # the only key of ``unknown`` in the stored form


def encode_envelope(envelope: Envelope) -> bytes:
    """Encode an envelope for the store."""
    if envelope.unknown:
        envelope = replace(envelope, unknown={FIELDS: encode_fields(envelope.unknown)})
    return _encoder.encode(envelope)


def decode_envelope(stored: Stored | None) -> Envelope:
    """Decode the envelope of a stored body. Raises BodyUnreadable, also for None."""
    try:
        envelope = _decoder.decode(stored.envelope if stored is not None else b"")
        return replace(envelope, unknown=_unknown(envelope.unknown)) if envelope.unknown else envelope
    except (msgspec.MsgspecError, SemqError, ValueError, LookupError) as error:
        raise BodyUnreadable(fault=str(error)) from error


def _unknown(stored: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of newer versions. Raises MsgspecError, SemqError, LookupError."""
    return decode_fields(msgspec.convert(stored[FIELDS], bytes))


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Envelope)
