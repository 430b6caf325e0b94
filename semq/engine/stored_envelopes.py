"""The stored form of envelopes: MessagePack, which ``semq_unpack`` reads in SQL.

AMQP has two types of header values for which MessagePack has none: decimals and timestamps. They are stored as
extensions, so that they leave the store as they were sealed or signed.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from semq.amqp.wire import LONGLONG, Timestamp
from semq.engine.errors import BodyUnreadable
from semq.store.rows import Stored
from semq.umx_t.envelope import Envelope

# Codes of the extensions. Earlier versions stored decimals as text, and no timestamps.
DECIMAL: Final = 1  # the number as text
TIMESTAMP: Final = 2  # seconds in 8 bytes


def encode_envelope(envelope: Envelope) -> bytes:
    """Encode an envelope for the store."""
    headers = envelope.attributes.user_headers
    if headers:
        envelope = replace(envelope, attributes=replace(envelope.attributes, user_headers=_with_extensions(headers)))
    if envelope.unknown:
        envelope = replace(envelope, unknown=_with_extensions(envelope.unknown))
    return _encoder.encode(envelope)


def decode_envelope(stored: Stored | None) -> Envelope:
    """Decode the envelope of a stored body. Raises BodyUnreadable, also for None."""
    try:
        return _decoder.decode(stored.envelope if stored is not None else b"")
    except (msgspec.MsgspecError, ArithmeticError, ValueError) as error:
        raise BodyUnreadable(fault=str(error)) from error


def _with_extensions(value: Any) -> Any:
    """Return a header value in which decimals and timestamps are replaced by extensions."""
    if isinstance(value, Mapping):
        return {name: _with_extensions(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_extensions(item) for item in value]
    if isinstance(value, Decimal):
        return msgspec.msgpack.Ext(DECIMAL, str(value).encode())
    if isinstance(value, Timestamp):
        return msgspec.msgpack.Ext(TIMESTAMP, LONGLONG.pack(value))
    return value


def _read_extension(code: int, data: memoryview) -> Any:
    """Return the header value of an extension. Raises ArithmeticError or ValueError."""
    if code == DECIMAL:
        return Decimal(bytes(data).decode())
    if code == TIMESTAMP:
        return Timestamp.from_bytes(data)
    raise ValueError(f"unknown extension {code}")


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Envelope, ext_hook=_read_extension)
