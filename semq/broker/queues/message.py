"""One message inside the broker, and an entry for it in one queue. Pure.

The content header stays encoded, apart from the properties that the broker needs. The table of headers is decoded once,
so that the sender of a malformed table gets the error.
"""

import re
from collections.abc import Mapping

from semq.amqp.content import ContentHeader
from semq.amqp.errors import clipped
from semq.broker import refusals
from semq.broker.arguments import TIMER_MAX_MS
from semq.broker.queues.bodies import Body, weight

PERSISTENT = 2
_MODES = (1, PERSISTENT)

# Property flags of class basic (AMQP 0-9-1, 4.2.6.1): bit 15 is content-type, bit 2 cluster-id.
_DELIVERY_MODE, _PRIORITY, _REPLY_TO, _EXPIRATION, _USER_ID, _HEADERS = (1 << bit for bit in (12, 11, 9, 8, 4, 13))
_CONTENT_TYPE, _CONTENT_ENCODING = 1 << 15, 1 << 14
# With these properties alone, the delivery mode is read directly from the bytes of the header.
_UP_TO_MODE = _CONTENT_TYPE | _CONTENT_ENCODING | _DELIVERY_MODE
_SHORT = 63  # characters: at most 255 bytes of UTF-8
_FIRST = 14  # position of the first property
_PRIORITY_OR_EXPIRATION = _PRIORITY | _EXPIRATION
_REPLY_TO_OR_USER_ID = _REPLY_TO | _USER_ID


class Message:
    """A message, shared by all queues to which it is routed.

    ``expiration``: time to live in milliseconds, or None. ``size``: bytes of the body. ``weight``: approximate bytes in
    memory, without a large body, which is in the store. ``extra_keys``: the routing keys from CC and BCC.
    """

    __slots__ = (
        "body",
        "exchange",
        "expiration",
        "extra_keys",
        "header",
        "is_persistent",
        "priority",
        "routing_key",
        "size",
        "weight",
    )

    def __init__(self, exchange: str, routing_key: str, header: ContentHeader, body: Body) -> None:
        self.exchange = exchange
        # The node's own keys (events, dead letters) may be longer than a short string, and could never be delivered.
        self.routing_key = routing_key if len(routing_key) <= _SHORT else clipped(routing_key)
        self.header = header
        self.body = body
        self.size = len(body)
        self.weight = weight(header, body)
        self.priority = 0
        self.expiration: int | None = None
        flags = property_flags(header)
        self.extra_keys: tuple[str, ...] = ()
        mode = delivery_mode(header, flags)
        if mode is not None and mode not in _MODES:
            raise refusals.bad_request(f"invalid message: {{delivery_mode_unknown,{mode}}}")
        self.is_persistent = mode == PERSISTENT
        if not header.raw[_FIRST:].isascii():
            _ = header.properties  # raises for text that is not UTF-8
        if flags & _HEADERS:
            self._read_headers()
        if flags & _PRIORITY_OR_EXPIRATION:
            self.priority = header.priority or 0
            self.expiration = read_expiration(header.expiration)
        if self.header.spans is not None:
            # Discard the decoded form, which needs much more memory.
            self.header = ContentHeader(self.header.raw, header.body_size, header.depth)

    def _read_headers(self) -> None:
        """Apply RabbitMQ's sender-selected distribution: CC and BCC name more routing keys; BCC is removed."""
        headers = self.header.headers or {}
        if "CC" in headers or "BCC" in headers:
            self.extra_keys = (*_keys(headers, "CC"), *_keys(headers, "BCC"))
            if "BCC" in headers:
                self.header = self.header.amended(headers={"BCC": None})

    @property
    def routing_keys(self) -> tuple[str, ...]:
        return (self.routing_key, *self.extra_keys)

    @property
    def header_bytes(self) -> bytes:
        return bytes(self.header.raw)

    def headers(self) -> "dict[str, object]":
        """Return the table of headers, empty without one. Raises AmqpError if it cannot be decoded."""
        return dict(self.header.headers or {})


def property_flags(header: ContentHeader) -> int:
    """Return the first 16 property flags."""
    raw = header.raw
    return raw[12] << 8 | raw[13]


def delivery_mode(header: ContentHeader, flags: int) -> int | None:
    """Return the delivery mode, or None. Raises FrameError for truncated or surplus data in the header."""
    if flags & ~_UP_TO_MODE:
        return header.delivery_mode
    raw = header.raw
    at = _FIRST
    if flags & _CONTENT_TYPE:
        at += 1 + (raw[at] if at < len(raw) else 0)
    if flags & _CONTENT_ENCODING:
        at += 1 + (raw[at] if at < len(raw) else 0)
    has_mode = bool(flags & _DELIVERY_MODE)
    if at + has_mode != len(raw):
        return header.delivery_mode  # the general path reports the fault
    return raw[at] if has_mode else None


def needs_name_check(header: ContentHeader) -> bool:
    """Return whether the header has a reply-to or a user-id."""
    return bool(property_flags(header) & _REPLY_TO_OR_USER_ID)


def _keys(headers: Mapping[str, object], name: str) -> list[str]:
    keys = headers.get(name, [])
    if not isinstance(keys, list):
        kind = refusals.field_type(keys)
        raise refusals.bad_request(f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}')
    return [key for key in keys if isinstance(key, str)]


def read_expiration(value: str | None) -> int | None:
    """Return the expiration property in milliseconds, or None.

    Raises PreconditionFailed unless it is a decimal number from 0 to TIMER_MAX_MS.
    """
    if value is None:
        return None
    number, surplus = _NUMBER.match(value).groups()  # type: ignore[union-attr] # it matches everything
    fault = ""
    if not number:
        fault = "no_integer"
    elif surplus:
        fault = f'{{leftover_string,"{surplus}"}}'
    elif number.startswith("-") and int(number):
        fault = f"{{value_negative,{int(number)}}}"
    elif len(number) > _DIGITS_MAX or int(number) > TIMER_MAX_MS:
        fault = f"{{value_too_large,{number}}}"
    if fault:
        raise refusals.bad_request(f"invalid expiration '{value}': {fault}")
    return int(number)


_NUMBER = re.compile(r"((?:[+-]?[0-9]+)?)(.*)", re.DOTALL)
_DIGITS_MAX = 20  # longer numbers are refused as too large


class QueueEntry:
    """A message at a position in one queue.

    ``expires_at``: monotonic time, None for never. ``deliveries``: number of earlier deliveries. ``is_stored``: the
    store has a row for the message.
    """

    __slots__ = ("deliveries", "expires_at", "is_stored", "message", "position")

    def __init__(self, message: Message, position: int, expires_at: float | None) -> None:
        self.message = message
        self.position = position
        self.expires_at = expires_at
        self.deliveries = 0
        self.is_stored = False
