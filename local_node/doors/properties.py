"""AMQP properties and headers that applications set on documents, and the headers that carry them to the receiver.

Headers of the application stay encoded on their whole way, so that letters and bytes of their values arrive unchanged.
On links, the nodes use the AMQP properties themselves. Those of an application in ``CARRIED`` therefore travel as
headers, which a seal or signature covers. The receiver's application gets ``correlation_id`` and ``type`` as properties
again; the properties ``message_id``, ``timestamp`` and ``app_id`` that it receives are set by its node.
"""

from collections.abc import Callable, Mapping
from typing import Any

from semq.amqp.content import ContentHeader
from semq.amqp.wire import DEPTH_MAX, Timestamp, find_fields, long_string, read_value, short_string
from semq.broker.arguments import TIMER_MAX_MS
from semq.broker.queues.message import read_expiration
from semq.umx_t.errors import BadAttribute

# property | header that carries it
CARRIED = {
    "correlation_id": "x-correlation-id",
    "type": "x-type",
    "message_id": "x-message-id",
    "timestamp": "x-timestamp",
    "app_id": "x-app-id",
    "cluster_id": "x-cluster-id",
}
RESTORED = ("correlation_id", "type")
_RESTORED_NAMES = {CARRIED[property_]: property_ for property_ in RESTORED}
DELAY = "x-delay"  # the header of RabbitMQ's exchange for delayed messages
DELAY_MAX_MS = TIMER_MAX_MS
SHORT_MAX = 255  # bytes of a short string (AMQP 0-9-1 section 4.2.5.3)


def given_headers(header: ContentHeader) -> tuple[dict[str, object], bytes]:
    """Return the headers with ``@`` of a document, and its other headers encoded, with the properties in CARRIED.

    Times that AMQP states in seconds (letter T) become milliseconds in the first. A header of the application has
    priority over a property. With ``reply_to``, the ``correlation_id`` belongs to the answer and is left out. Raises
    FrameError, SyntaxFault.
    """
    attributes, fields = header.split_headers()
    for name, value in attributes.items():
        if type(value) is Timestamp:
            attributes[name] = value * 1000
    spans = header.spans or {}  # of the properties that are present
    if not spans.keys().isdisjoint(CARRIED):
        own = find_fields(fields, CARRIED.values()) if fields else {}
        for property_, name in CARRIED.items():
            if property_ in spans and name not in own and not (property_ == "correlation_id" and "reply_to" in spans):
                start, stop = spans[property_]
                fields += short_string(name) + _field(property_, header.raw[start:stop])
    return attributes, fields


def _field(property_: str, raw: bytes) -> bytes:
    """Return the header value for the bytes of a property."""
    return b"T" + raw if property_ == "timestamp" else b"S" + long_string(raw[1:])


def expires_at(header: ContentHeader, headers: Mapping[str, object], now_ms: int) -> int | None:
    """Return the expiry (ms since 1970) from the property ``expiration``; None without it, or if @ExpiresAt is given.

    Raises PreconditionFailed if the property is not a valid number of milliseconds.
    """
    if header.expiration is None or headers.get("@ExpiresAt") is not None:
        return None
    return now_ms + (read_expiration(header.expiration) or 0)


def with_delay(headers: dict[str, object], fields: bytes, now_ms: Callable[[], int]) -> dict[str, object]:
    """Return the headers; if @NotBefore is not given, it is computed from the field ``x-delay`` (milliseconds).

    Raises BadAttribute if ``x-delay`` is not a number from 0 to DELAY_MAX_MS.
    """
    if DELAY.encode() not in fields or headers.get("@NotBefore") is not None:
        return headers
    field = find_fields(fields, (DELAY,)).get(DELAY, b"V")
    delay, _ = read_value(field, 0, DEPTH_MAX)
    if delay is None:
        return headers
    if type(delay) is not int or not 0 <= delay <= DELAY_MAX_MS:
        raise BadAttribute(
            f"{DELAY} must be a number of milliseconds from 0 to {DELAY_MAX_MS}.",
            attribute=DELAY,
            value=str(delay)[:60],
        )
    return {**headers, "@NotBefore": now_ms() + delay}


def restored(fields: bytes) -> dict[str, Any]:
    """Return the properties restored from the headers of a received document."""
    if b"x-correlation-id" not in fields and b"x-type" not in fields:
        return {}
    carried = find_fields(fields, _RESTORED_NAMES)
    return {_RESTORED_NAMES[name]: field[5:] for name, field in carried.items() if _is_short(field)}


def _is_short(field: bytes) -> bool:
    """Return whether a value is a text that a property can hold."""
    return field[:1] == b"S" and len(field) - 5 <= SHORT_MAX and b"\0" not in field[5:]
