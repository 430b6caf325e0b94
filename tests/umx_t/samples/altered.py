"""Envelopes with one altered attribute, as a hostile hub could send them."""

from typing import Any

from msgspec.structs import replace

from semq.umx_t.address import Address
from semq.umx_t.app_key import AppKey
from semq.umx_t.attributes import ATTRIBUTES, HEADERS, Attribute, BoundBy
from semq.umx_t.envelope import Envelope
from semq.umx_t.locator import LK0, LK1, Pos
from semq.umx_t.status import SaveFwd

#: attributes that nodes send to each other
CARRIED = [row for row in ATTRIBUTES if row.bound is not BoundBy.STAYS]
BOUND = [row for row in CARRIED if row.bound is not BoundBy.NOT]


def altered(envelope: Envelope, row: Attribute) -> Envelope:
    """Return the envelope with another value of this attribute."""
    if row.is_of_document:
        attributes = envelope.attributes
        value = _other(envelope, getattr(attributes, row.field))
        if row.name == HEADERS:
            value = attributes.user_headers + b"\x06cratest\x01"  # another encoded field
        return replace(envelope, attributes=replace(attributes, **{row.field: value}))
    return replace(envelope, **{row.field: _other(envelope, getattr(envelope, row.field), row)})


def _other(envelope: Envelope, value: Any, envelope_row: Attribute | None = None) -> Any:
    match value:
        case bool():
            return not value
        case SaveFwd():
            return SaveFwd.STORE if value is SaveFwd.MUST else SaveFwd.MUST
        case int():
            return value + 9
        case str():
            return f"{value}x"
        case bytes():
            return bytes(each ^ 1 for each in value) or bytes(32)
        case Address():
            return value._replace(user="somebody")
        case AppKey():
            return value._replace(key=f"{value.key}2")
        case LK0():
            return value._replace(object_id=value.object_id + 9)
        case dict():
            return {**value, "@crates": 1}
        case Pos() | None:
            return LK1(1, 1, 9) if envelope_row and envelope_row.field == "lk1" else Pos(envelope.lk0.inc, envelope.sid)
        case LK1():
            return value._replace(object_id=value.object_id + 9)
    raise AssertionError(f"No other value is known for {value!r}.")
