"""Conversion of a message's attributes to AMQP properties and headers, and back.

The table is in ARCHITECTURE.md, "AMQP everywhere".

There are two readers. ``read_submission`` reads what an application publishes and is strict: a misspelt attribute must
not silently become a default. ``read_envelope`` reads what a peer node sends and accepts attributes that it does not
know. Both work on plain dictionaries; the AMQP codec handles bytes.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from semq.foreign_text import shortened
from semq.umx_t.address import Address, parse_address
from semq.umx_t.app_key import AppKey, check_app_key, parse_app_key
from semq.umx_t.envelope import Attributes, Envelope, Function, Primitive
from semq.umx_t.errors import BadAttribute, BadCombination, BadEnvelope
from semq.umx_t.locator import parse_lk0, parse_lk1, parse_pos
from semq.umx_t.status import SaveFwd

# Attributes that an application may set. @Token is used by its own node only and never sent on.
APPLICATION = ("@Reliable", "@SaveFwd", "@Ack2", "@AppKey", "@Encrypt", "@Fixed", "@OrderKey", "@Token", "@ExpiresAt")
# Attributes that only nodes set.
TRANSPORT = (
    "@Sid", "@Floor", "@Prev", "@Att", "@Void", "@LK1", "@Digest", "@Sender", "@SessionKey", "@SubmittedAt",
    "@Alg", "@KeyId", "@Origin", "@Signature", "@Late",
)  # fmt: skip
# Headers that only a received document has.
OF_INBOX = ("@Source", "@Deliveries", "@OriginProved")
_APPLICATION = frozenset(APPLICATION)
NEAR = {name.lower(): name for name in APPLICATION}
CLOSE = 0.8  # of difflib's ratio: close enough for a typing mistake, too close for a different word
ORDER_KEY_MAX = 128  # characters
TOKEN_MAX = 200  # characters
SENDER_MAX = 64  # characters
SESSION_KEY_MAX = 8192  # characters
KEY_NAME_MAX = 64  # characters of @Alg and @KeyId
ORIGIN_MAX = 400  # characters
SIGNATURE_MAX = 2048  # characters
REPEATED_MAX = 256  # number of attribute values whose result is cached
PROPERTIES = ("content_type", "content_encoding", "priority")  # fields of Attributes that are AMQP properties
_INT64_MAX = 2**63 - 1
MOMENT_MAX = 253_402_300_799_999  # the last millisecond of the year 9999
_ATTEMPT_MAX = 2**31 - 1

DATA_TYPE = "0.data"


def packet_type(function: Function, primitive: Primitive) -> str:
    """Return the AMQP property ``type`` of a transport packet: LAYER_MASK, function, primitive."""
    return f"1.{function.value}.{primitive.value}"


def read_type(text: str | None) -> tuple[Function, Primitive]:
    """Read function and primitive from the AMQP property ``type``. Raises BadEnvelope."""
    if text == DATA_TYPE:
        return Function.DATA, Primitive.NONE
    mask, _, rest = (text or "").partition(".")
    function, _, primitive = rest.partition(".")
    try:
        if mask != "1":
            raise ValueError(mask)
        return Function(function), Primitive(primitive)
    except ValueError:
        raise BadEnvelope("The type of the packet is unknown.", type=(text or "")[:80]) from None


def read_submission(headers: Mapping[str, Any], properties: Mapping[str, Any]) -> tuple[Attributes, str]:
    """Return the attributes and the client token of what an application published.

    Raises BadAttribute, BadAppKey or BadCombination; the error for an unknown attribute suggests the most similar one.
    """
    fields, user = _from_properties(properties), {}
    token = ""
    for name, value in headers.items():
        if name[:1] != "@":
            user[name] = value
        elif name not in _APPLICATION:
            raise _unknown(name)
        elif value is None:
            continue
        elif name == "@Token":
            token = _text(name, value, TOKEN_MAX)
        else:
            field, read = OF_DOCUMENT[name]
            fields[field] = read(name, value)
    if user:
        fields["user_headers"] = user
    if fields.get("save_fwd") is SaveFwd.DROP:
        fields.setdefault("ack2", False)
    return check_combination(Attributes(**fields)), token


def _unknown(name: str) -> BadAttribute:
    if name in TRANSPORT or name in OF_INBOX:
        return BadAttribute(f"{name} is set by nodes; an application must omit it.", attribute=name)
    near = get_close_matches(name.lower(), NEAR, 1, CLOSE)
    hint = f"; did you mean {NEAR[near[0]]}?" if near else "."
    return BadAttribute(f"There is no attribute {name[:60]}{hint}", attribute=name[:60])


def check_combination(attributes: Attributes) -> Attributes:
    """Refuse attributes that contradict each other (PROTOCOL.md sections 1 and 15). Raises BadCombination."""
    if not attributes.reliable and (attributes.save_fwd is not SaveFwd.DROP or attributes.ack2):
        raise BadCombination(reliable=0, save_fwd=int(attributes.save_fwd), ack2=int(attributes.ack2))
    if attributes.order_key and attributes.save_fwd is not SaveFwd.MUST:
        raise BadCombination("@OrderKey is kept only for documents that must get there (@SaveFwd=3).")
    return attributes


def write_envelope(envelope: Envelope) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the properties and headers of a message between nodes. Default values are left out."""
    a = envelope.attributes
    properties: dict[str, Any] = {"app_id": str(envelope.source), "message_id": envelope.ident, "type": DATA_TYPE}
    properties |= {name: value for name in PROPERTIES if (value := getattr(a, name))}
    headers: dict[str, Any] = dict(a.user_headers)
    headers["@SaveFwd"] = int(a.save_fwd)
    headers["@Ack2"] = int(a.ack2)
    headers["@Att"] = envelope.att
    headers["@Digest"] = envelope.digest
    headers["@SubmittedAt"] = envelope.submitted_at
    optional: tuple[tuple[str, Any], ...] = (
        ("@Reliable", None if a.reliable else 0),
        ("@Encrypt", 1 if a.encrypt else None),
        ("@Fixed", 1 if a.fixed else None),
        ("@AppKey", "/".join(a.app_key) if any(a.app_key) else None),
        ("@OrderKey", a.order_key or None),
        ("@ExpiresAt", a.expires_at or None),
        ("@Sid", envelope.sid if envelope.sid >= 0 else None),
        ("@Floor", envelope.floor or None),
        ("@Prev", str(envelope.prev) if envelope.prev else None),
        ("@Void", 1 if envelope.void else None),
        ("@Late", 1 if envelope.late else None),
        ("@LK1", str(envelope.lk1) if envelope.lk1 else None),
        ("@Sender", envelope.sender or None),
        ("@SessionKey", envelope.session_key or None),
        ("@Alg", envelope.alg or None),
        ("@KeyId", envelope.key_id or None),
        ("@Origin", envelope.origin or None),
        ("@Signature", envelope.signature or None),
    )
    headers |= {name: value for name, value in optional if value is not None}
    headers.update(envelope.unknown)
    return properties, headers


def read_envelope(properties: Mapping[str, Any], headers: Mapping[str, Any], routing_key: str) -> Envelope:
    """Return the envelope of a message from a peer node.

    Raises BadEnvelope (or a locator's own error) if it cannot be read.
    """
    try:
        return _read_envelope(properties, headers, parse_address(routing_key))
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadEnvelope("The attributes of the message cannot be read.", fault=shortened(str(error), 200)) from error


def _read_envelope(properties: Mapping[str, Any], headers: Mapping[str, Any], target: Address) -> Envelope:
    fields = _from_properties(properties)
    carried: dict[str, Any] = {
        "source": parse_address(properties.get("app_id") or ""),
        "target": target,
        "lk0": parse_lk0(properties.get("message_id") or ""),
    }
    user, unknown = {}, {}
    for name, value in headers.items():
        if name[:1] != "@":
            user[name] = value
        elif name in OF_DOCUMENT:
            if value is not None:
                field, read = OF_DOCUMENT[name]
                fields[field] = read(name, value)
        elif name in OF_TRANSPORT:
            if value is not None:
                field, read = OF_TRANSPORT[name]
                carried[field] = read(name, value)
        elif name != "@Token":  # not sent on: only the accepting node uses it
            unknown[name] = value
    if user:
        fields["user_headers"] = user
    if unknown:
        carried["unknown"] = unknown
    envelope = Envelope(attributes=Attributes(**fields), **carried)
    if envelope.is_class3 and envelope.sid < 0:
        raise BadEnvelope("A message with @SaveFwd=3 has no position (@Sid).", lk0=envelope.ident)
    return envelope


def _from_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a document that are AMQP properties."""
    return {name: value for name in PROPERTIES if (value := properties.get(name))}


# ------------------------------------------------------------------------------------------ readers of values


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if value in (1, "1"):
        return True
    if value in (0, "0"):
        return False
    raise BadAttribute(f"{name} must be 0 or 1.", attribute=name, value=str(value)[:60])


_CLASSES: dict[object, SaveFwd] = {word: one for one in SaveFwd for word in (int(one), f"{one:d}")}


def _save_fwd(name: str, value: Any) -> SaveFwd:
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    save_fwd = _CLASSES.get(value) if isinstance(value, int | float | str) else None
    if save_fwd is None:
        raise BadAttribute(
            f"{name} must be 1 (drop), 2 (store) or 3 (must get there).", attribute=name, value=str(value)[:60]
        )
    return save_fwd


def _number(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _INT64_MAX:
        raise BadAttribute(f"{name} must be an integer of 0 or more.", attribute=name, value=str(value)[:60])
    return value


def _moment(name: str, value: Any) -> int:
    if _number(name, value) > MOMENT_MAX:
        raise BadAttribute(
            f"{name} must be in milliseconds since 1970, up to the year 9999.", attribute=name, value=value
        )
    return int(value)


def _attempt(name: str, value: Any) -> int:
    if _number(name, value) > _ATTEMPT_MAX:
        raise BadAttribute(f"{name} must be a number of attempts, at most {_ATTEMPT_MAX}.", attribute=name, value=value)
    return int(value)


def _text(name: str, value: Any, longest: int) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str) or len(value) > longest or not (value.isprintable()):
        fault = f"{name} must be printable text of at most {longest} characters."
        raise BadAttribute(fault, attribute=name, value=str(value)[:60])
    return value


def _text_of(longest: int) -> "Read":
    return lambda name, value: _text(name, value, longest)


def _repeated_text_of(longest: int) -> "Read":
    """Return a caching reader, for values that are the same in thousands of messages of one session."""
    return lru_cache(REPEATED_MAX)(_text_of(longest))


def _app_key(name: str, value: Any) -> AppKey:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, list | tuple) and len(value) == 4 and all(isinstance(part, str) for part in value):
        return check_app_key(AppKey(*value))
    return parse_app_key(value if isinstance(value, str) else repr(value))


def _digest(name: str, value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray) or len(value) not in (0, 32):
        raise BadEnvelope(f"{name} is not a SHA-256 digest.", digest=str(value)[:80])
    return bytes(value)


# Attribute | field of Attributes | reader of its value. An attribute that is absent or null has the field's default.
Read = Callable[[str, Any], Any]
OF_DOCUMENT: dict[str, tuple[str, Read]] = {
    "@Reliable": ("reliable", _flag),
    "@SaveFwd": ("save_fwd", _save_fwd),
    "@Ack2": ("ack2", _flag),
    "@AppKey": ("app_key", _app_key),
    "@Encrypt": ("encrypt", _flag),
    "@Fixed": ("fixed", _flag),
    "@OrderKey": ("order_key", _text_of(ORDER_KEY_MAX)),
    "@ExpiresAt": ("expires_at", _moment),
}
# Attribute | field of Envelope | reader of its value.
OF_TRANSPORT: dict[str, tuple[str, Read]] = {
    "@Sid": ("sid", _number),
    "@Floor": ("floor", _number),
    "@Prev": ("prev", lambda name, value: parse_pos(value)),
    "@Att": ("att", _attempt),
    "@Void": ("void", _flag),
    "@Late": ("late", _flag),
    "@LK1": ("lk1", lambda name, value: parse_lk1(value)),
    "@Digest": ("digest", _digest),
    "@Sender": ("sender", _text_of(SENDER_MAX)),
    "@SessionKey": ("session_key", _repeated_text_of(SESSION_KEY_MAX)),
    "@SubmittedAt": ("submitted_at", _number),
    "@Alg": ("alg", _repeated_text_of(KEY_NAME_MAX)),
    "@KeyId": ("key_id", _repeated_text_of(KEY_NAME_MAX)),
    "@Origin": ("origin", _text_of(ORIGIN_MAX)),
    "@Signature": ("signature", _text_of(SIGNATURE_MAX)),
}
