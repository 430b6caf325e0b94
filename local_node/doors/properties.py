"""AMQP properties that applications set on documents, and the headers that carry them to the receiver.

On links, the nodes use the AMQP properties themselves. An application's ``correlation_id``, ``type`` and ``message_id``
therefore travel as headers, which a seal or signature covers. The receiver's application gets the first two as
properties again; the property ``message_id`` that it receives is the LK0.
"""

from collections.abc import Callable, Mapping
from typing import Any

from semq.amqp.content import ContentHeader
from semq.broker.queues.message import read_expiration
from semq.umx_t.errors import BadAttribute

# property | header that carries it
CARRIED = {"correlation_id": "x-correlation-id", "type": "x-type", "message_id": "x-message-id"}
RESTORED = ("correlation_id", "type")
DELAY = "x-delay"  # the header of RabbitMQ's exchange for delayed messages
DELAY_MAX_MS = 2**32 - 1
SHORT_MAX = 255  # bytes of a short string (AMQP 0-9-1 section 4.2.5.3)


def own_headers(header: ContentHeader) -> dict[str, Any]:
    """Return the headers of a document, with the properties in CARRIED. Raises FrameError, SyntaxFault.

    A header of the application has priority over a property. With ``reply_to``, the ``correlation_id`` belongs to the
    answer and is left out.
    """
    headers = header.headers or {}
    spans = header.locate() if header.spans is None else header.spans  # of the properties that are present
    if spans.keys().isdisjoint(CARRIED):
        return headers
    carried = {name: getattr(header, property_) for property_, name in CARRIED.items() if property_ in spans}
    if header.reply_to:
        carried.pop(CARRIED["correlation_id"], None)
    return carried | headers


def expires_at(header: ContentHeader, headers: Mapping[str, Any], now_ms: int) -> int | None:
    """Return the expiry (ms since 1970) from the property ``expiration``; None without it, or if @ExpiresAt is given.

    Raises PreconditionFailed if the property is not a valid number of milliseconds.
    """
    if header.expiration is None or headers.get("@ExpiresAt") is not None:
        return None
    return now_ms + (read_expiration(header.expiration) or 0)


def with_delay(headers: Mapping[str, Any], now_ms: Callable[[], int]) -> dict[str, Any]:
    """Return the headers; if @NotBefore is not given, it is computed from the header ``x-delay`` (milliseconds).

    Raises BadAttribute if ``x-delay`` is not a number from 0 to DELAY_MAX_MS.
    """
    delay = headers[DELAY]
    if headers.get("@NotBefore") is not None or delay is None:
        return dict(headers)
    if isinstance(delay, bool) or not isinstance(delay, int) or not 0 <= delay <= DELAY_MAX_MS:
        raise BadAttribute(
            f"{DELAY} must be a number of milliseconds from 0 to {DELAY_MAX_MS}.",
            attribute=DELAY,
            value=str(delay)[:60],
        )
    return {**headers, "@NotBefore": now_ms() + delay}


def restored(headers: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties restored from the headers of a received document."""
    carried = {name: headers.get(CARRIED[name]) for name in RESTORED}
    return {name: value for name, value in carried.items() if isinstance(value, str) and _is_short(value)}


def _is_short(text: str) -> bool:
    return len(text.encode()) <= SHORT_MAX and "\0" not in text
