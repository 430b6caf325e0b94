"""Conversion of a message's attributes to AMQP properties and headers, and back.

The table is in ARCHITECTURE.md, "AMQP everywhere".

There are two readers. ``read_submission`` reads what an application publishes and is strict: a misspelt attribute must
not silently become a default. ``read_envelope`` reads what a peer node sends and accepts attributes that it does not
know, in either form: ``write_envelope`` writes one field for each attribute, ``write_packed`` one for all those of
version 1 (``packed_envelope``). All work on plain dictionaries; the AMQP codec handles bytes.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from semq.foreign_text import shortened
from semq.umx_t.address import Address, parse_address
from semq.umx_t.attributes import ATTRIBUTES, PROPERTIES, By, header_writer
from semq.umx_t.envelope import Attributes, Envelope, Function, Primitive
from semq.umx_t.errors import BadAttribute, BadCombination, BadEnvelope
from semq.umx_t.locator import parse_lk0
from semq.umx_t.packed_envelope import pack, unpack
from semq.umx_t.status import SaveFwd

HEADERS = tuple(each for each in ATTRIBUTES if each.is_header)
# Attributes that an application may set. Those of ``Handling`` are used by its own node only and never sent on.
APPLICATION = tuple(each.name for each in HEADERS if each.by is By.APPLICATION)
# Attributes that only nodes set: on the way, and for the receiver's application.
TRANSPORT = tuple(each.name for each in HEADERS if each.by in (By.NODE, By.HUB))
OF_INBOX = tuple(each.name for each in HEADERS if each.by is By.RECEIVER)
# Header | argument or field | reader of its value. One that is absent or null has the field's default.
OF_APPLICATION = {each.name: (each.field, each.read) for each in HEADERS if each.read and each.by is By.APPLICATION}
OF_DOCUMENT = {each.name: (each.field, each.read) for each in HEADERS if each.read and each.is_of_document}
OF_TRANSPORT = {each.name: (each.field, each.read) for each in HEADERS if each.read and each.name in TRANSPORT}
CARRIED = tuple(each for each in HEADERS if each.name in OF_DOCUMENT or each.name in OF_TRANSPORT)
# All attributes of version 1 in one field. Later ones are beside it, so that older nodes forward them.
PACKED = "@Envelope"
IN_PACKED = frozenset(each.name for each in CARRIED if each.since == 1)
# Attributes that the accepting node alone uses are not carried.
NOT_CARRIED = (*(name for name in APPLICATION if name not in OF_DOCUMENT), PACKED)
_write_headers = header_writer(CARRIED)
_write_later = header_writer(each for each in CARRIED if each.name not in IN_PACKED)
NEAR = {name.lower(): name for name in APPLICATION}
CLOSE = 0.8  # smallest ratio of difflib at which an unknown name counts as a misspelt attribute

DATA_TYPE = "0.data"


class Handling(NamedTuple):
    """Requests of an application to its own node about a document; they are not sent on."""

    token: str = ""  #: the client token
    not_before: int = 0  #: milliseconds since 1970 UTC


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


def read_submission(headers: Mapping[str, Any], properties: Mapping[str, Any]) -> tuple[Attributes, Handling]:
    """Return the attributes of what an application published, and what it asks of its own node.

    Raises BadAttribute, BadAppKey or BadCombination; the error for an unknown attribute suggests the most similar one.
    """
    fields, user = _from_properties(properties), {}
    for name, value in headers.items():
        if name[:1] != "@":
            user[name] = value
        elif (found := OF_APPLICATION.get(name)) is None:
            raise _unknown(name)
        elif value is not None:
            field, read = found
            fields[field] = read(name, value)
    handling = Handling(fields.pop("token", ""), fields.pop("not_before", 0))
    if user:
        fields["user_headers"] = user
    if fields.get("save_fwd") is SaveFwd.DROP:
        fields.setdefault("ack2", False)
    return check_combination(Attributes(**fields)), handling


def _unknown(name: str) -> BadAttribute:
    if name in TRANSPORT or name in OF_INBOX or name == PACKED:
        return BadAttribute(f"{name} is set by nodes; an application must omit it.", attribute=name)
    near = get_close_matches(name.lower(), NEAR, 1, CLOSE)
    hint = f"; did you mean {NEAR[near[0]]}?" if near else "."
    return BadAttribute(f"There is no attribute {name[:60]}{hint}", attribute=name[:60])


def check_combination(attributes: Attributes) -> Attributes:
    """Refuse attributes that contradict each other (PROTOCOL.md sections 1 and 15). Raises BadCombination."""
    if not attributes.reliable and (attributes.save_fwd is not SaveFwd.DROP or attributes.ack2):
        raise BadCombination(reliable=0, save_fwd=int(attributes.save_fwd), ack2=int(attributes.ack2))
    if attributes.order_key and attributes.save_fwd is not SaveFwd.MUST:
        raise BadCombination("@OrderKey is kept only for documents that must be delivered (@SaveFwd=3).")
    if attributes.fixed and attributes.save_fwd is not SaveFwd.MUST:
        raise BadCombination("@Fixed=1 is kept only for documents that must be delivered (@SaveFwd=3).")
    return attributes


def write_envelope(envelope: Envelope) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the properties and headers of a message between nodes. Default values are left out."""
    a = envelope.attributes
    properties: dict[str, Any] = {"app_id": str(envelope.source), "message_id": envelope.ident, "type": DATA_TYPE}
    properties |= {name: value for name in PROPERTIES if (value := getattr(a, name))}
    headers: dict[str, Any] = dict(a.user_headers)
    _write_headers(envelope, headers)
    headers.update(envelope.unknown)
    return properties, headers


def write_packed(envelope: Envelope) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the same in the packed form, for a peer of protocol version 2."""
    a = envelope.attributes
    properties: dict[str, Any] = {"app_id": str(envelope.source), "type": DATA_TYPE}
    properties |= {name: value for name in PROPERTIES if (value := getattr(a, name))}
    headers: dict[str, Any] = {PACKED: pack(envelope), **a.user_headers}
    _write_later(envelope, headers)
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
    source = parse_address(properties.get("app_id") or "")
    of_document, of_transport = _from_properties(properties), dict[str, Any]()
    packed = headers.get(PACKED)
    if packed is None:
        _read_headers(headers, of_document, of_transport)
        lk0 = parse_lk0(properties.get("message_id") or "")
        document = Attributes(**of_document)
        envelope = Envelope(source=source, target=target, lk0=lk0, attributes=document, **of_transport)
    else:
        if len(headers) > 1:
            if twice := IN_PACKED.intersection(headers):
                raise BadEnvelope(f"{min(twice)} is beside the field {PACKED}, which contains it.")
            _read_headers(headers, of_document, of_transport)
        envelope = unpack(packed, source, target, of_document, of_transport)
    if envelope.is_class3 and envelope.sid < 0:
        raise BadEnvelope("A message with @SaveFwd=3 has no position (@Sid).", lk0=envelope.ident)
    return envelope


def _read_headers(headers: Mapping[str, Any], of_document: dict[str, Any], of_transport: dict[str, Any]) -> None:
    """Add the values of headers to the fields of Attributes and Envelope."""
    user, unknown = {}, {}
    for name, value in headers.items():
        if name[:1] != "@":
            user[name] = value
        elif name in OF_DOCUMENT:
            if value is not None:
                field, read = OF_DOCUMENT[name]
                of_document[field] = read(name, value)
        elif name in OF_TRANSPORT:
            if value is not None:
                field, read = OF_TRANSPORT[name]
                of_transport[field] = read(name, value)
        elif name not in NOT_CARRIED:
            unknown[name] = value
    if user:
        of_document["user_headers"] = user
    if unknown:
        of_transport["unknown"] = unknown


def _from_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a document that are AMQP properties."""
    return {name: value for name in PROPERTIES if (value := properties.get(name))}
