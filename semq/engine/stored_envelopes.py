"""The stored form of envelopes: MessagePack, which ``semq_unpack`` reads in SQL.

Headers of the application are stored as they arrived, as encoded fields of AMQP, which ``semq_fields`` reads in SQL.
Attributes of newer versions are stored as values. AMQP has two types of values for which MessagePack has none: decimals
and timestamps. They are stored as extensions.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from semq.amqp.wire import LONGLONG, Timestamp, encode_fields
from semq.engine.errors import BodyUnreadable
from semq.errors import SemqError
from semq.store.rows import Stored
from semq.umx_t.envelope import Envelope

# Codes of the extensions. Earlier versions stored decimals as text, and no timestamps.
DECIMAL: Final = 1  # the number as text
TIMESTAMP: Final = 2  # seconds in 8 bytes


def encode_envelope(envelope: Envelope) -> bytes:
    """Encode an envelope for the store."""
    if envelope.unknown:
        envelope = replace(envelope, unknown=_with_extensions(envelope.unknown))
    return _encoder.encode(envelope)


def decode_envelope(stored: Stored | None) -> Envelope:
    """Decode the envelope of a stored body. Raises BodyUnreadable, also for None."""
    data = stored.envelope if stored is not None else b""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ArithmeticError, ValueError) as error:
        if (earlier := _decode_earlier(data)) is not None:
            return earlier
        raise BodyUnreadable(fault=str(error)) from error


def _decode_earlier(data: bytes) -> Envelope | None:
    """Decode an envelope of an earlier version, whose headers are a map of values. None: it is not one."""
    try:
        values = msgspec.msgpack.decode(data, ext_hook=_read_extension)
        values["attributes"]["user_headers"] = encode_fields(values["attributes"]["user_headers"])
        return msgspec.convert(values, Envelope)
    except (msgspec.MsgspecError, SemqError, ArithmeticError, ValueError, TypeError, AttributeError, LookupError):
        return None


def _with_extensions(value: Any) -> Any:
    """Return a value in which decimals and timestamps are replaced by extensions."""
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
    """Return the value of an extension. Raises ArithmeticError or ValueError."""
    if code == DECIMAL:
        return Decimal(bytes(data).decode())
    if code == TIMESTAMP:
        return Timestamp.from_bytes(data)
    raise ValueError(f"unknown extension {code}")


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Envelope, ext_hook=_read_extension)
