"""Conversion of a message's attributes to AMQP properties and headers, and back (ARCHITECTURE.md, "AMQP").

``read_submission`` is strict: a misspelt attribute must not silently become a default. ``read_envelope``, for messages
of peer nodes, accepts unknown attributes.
"""

from difflib import get_close_matches
from typing import NamedTuple

from semq.foreign_text import shortened
from semq.umx_t.address import Address, parse_address
from semq.umx_t.attribute_values import given_moment, moment
from semq.umx_t.attributes import ATTRIBUTES, PROPERTIES, FieldTable, SetBy, header_writer
from semq.umx_t.envelope import Attributes, Envelope, Function, Primitive
from semq.umx_t.errors import BadAttribute, BadCombination, BadEnvelope
from semq.umx_t.locator import parse_lk0
from semq.umx_t.packed_envelope import pack, unpack
from semq.umx_t.status import SaveFwd

HEADERS = tuple(each for each in ATTRIBUTES if each.is_header)
# Names of attributes that an application may set; those in ``NodeRequests`` are never sent.
APPLICATION = tuple(each.name for each in HEADERS if each.set_by is SetBy.APPLICATION)
# TRANSPORT: set by nodes, between nodes. INBOX: set by the receiver's node for its application.
TRANSPORT = tuple(each.name for each in HEADERS if each.set_by in (SetBy.SENDER, SetBy.HUB))
INBOX = tuple(each.name for each in HEADERS if each.set_by is SetBy.RECEIVER)
# Header | argument or field, and reader of the value. A header that is absent or null gets the field's default.
APPLICATION_READERS = {
    each.name: (each.field, given_moment if each.read is moment else each.read)
    for each in HEADERS
    if each.read and each.name in APPLICATION
}
DOCUMENT_READERS = {each.name: (each.field, each.read) for each in HEADERS if each.read and each.is_of_document}
TRANSPORT_READERS = {each.name: (each.field, each.read) for each in HEADERS if each.read and each.name in TRANSPORT}
CARRIED = tuple(each for each in HEADERS if each.name in DOCUMENT_READERS or each.name in TRANSPORT_READERS)
# The field with all attributes of version 1.
PACKED = "@Envelope"
IN_PACKED = frozenset(each.name for each in CARRIED if each.since == 1)
# Names that ``_read_headers`` ignores: attributes for the sender's own node, and the packed field.
NOT_CARRIED = (*(name for name in APPLICATION if name not in DOCUMENT_READERS), PACKED)
_write_headers = header_writer(CARRIED)
_write_newer = header_writer(each for each in CARRIED if each.name not in IN_PACKED)
NAME_OF_LOWERCASE = {name.lower(): name for name in APPLICATION}
MISSPELT_RATIO_MIN = 0.8  # smallest ratio of difflib at which an unknown name counts as a misspelt attribute

# Limits of the headers without @ of a document (PROTOCOL.md section 13), which are one field table of AMQP. With the
# attributes that nodes add, they fit into a frame of 131,072 bytes; all peers decode tables of this depth.
USER_HEADERS_MAX = 65_536  # bytes
USER_HEADERS_DEPTH = 64  # levels of tables and arrays, including the table itself

DATA_TYPE = "0.data"  # AMQP property ``type`` of a message; packets have ``packet_type``


class NodeRequests(NamedTuple):
    """Attributes that an application sets for its own node only; they are not sent."""

    token: str = ""  #: @Token; empty: none
    not_before: int = 0  #: milliseconds since 1970 UTC; 0: none


def packet_type(function: Function, primitive: Primitive) -> str:
    """Return the AMQP property ``type`` of a transport packet: LAYER_MASK, function, primitive."""
    return f"1.{function.value}.{primitive.value}"


def read_type(text: str | None) -> tuple[Function, Primitive]:
    """Read function and primitive from the AMQP property ``type``. Raises BadEnvelope."""
    if text == DATA_TYPE:
        return Function.DATA, Primitive.NONE
    mask, _, function_and_primitive = (text or "").partition(".")
    function, _, primitive = function_and_primitive.partition(".")
    try:
        if mask != "1":
            raise ValueError(mask)
        return Function(function), Primitive(primitive)
    except ValueError:
        raise BadEnvelope("The type of the packet is unknown.", type=(text or "")[:80]) from None


def read_submission(
    headers: FieldTable, properties: FieldTable, user_headers: bytes = b""
) -> tuple[Attributes, NodeRequests]:
    """Return the attributes of a document that an application published, and its requests to its own node.

    ``headers``: those with ``@``; ``user_headers``: the encoded others.

    Raises BadAttribute, BadAppKey or BadCombination.
    """
    fields = _from_properties(properties)
    for name, value in headers.items():
        if name not in APPLICATION_READERS:
            raise _unknown(name)
        elif value is not None:
            field, read = APPLICATION_READERS[name]
            fields[field] = read(name, value)
    requests = NodeRequests(fields.pop("token", ""), fields.pop("not_before", 0))
    if user_headers:
        fields["user_headers"] = user_headers
    if fields.get("save_fwd") is SaveFwd.DROP:
        fields.setdefault("ack2", False)
    return check_combination(Attributes(**fields)), requests


def _unknown(name: str) -> BadAttribute:
    if name in TRANSPORT or name in INBOX or name == PACKED:
        return BadAttribute(f"{name} is set by nodes; an application must omit it.", attribute=name)
    similar = get_close_matches(name.lower(), NAME_OF_LOWERCASE, 1, MISSPELT_RATIO_MIN)
    hint = f"; did you mean {NAME_OF_LOWERCASE[similar[0]]}?" if similar else "."
    return BadAttribute(f"There is no attribute {name[:60]}{hint}", attribute=name[:60])


def check_combination(attributes: Attributes) -> Attributes:
    """Return the attributes. Raises BadCombination if they contradict each other (PROTOCOL.md sections 1 and 15)."""
    if not attributes.reliable and (attributes.save_fwd is not SaveFwd.DROP or attributes.ack2):
        raise BadCombination(reliable=0, save_fwd=int(attributes.save_fwd), ack2=int(attributes.ack2))
    if attributes.order_key and attributes.save_fwd is not SaveFwd.MUST:
        raise BadCombination("@OrderKey is kept only for documents that must be delivered (@SaveFwd=3).")
    if attributes.fixed and attributes.save_fwd is not SaveFwd.MUST:
        raise BadCombination("@Fixed=1 is kept only for documents that must be delivered (@SaveFwd=3).")
    return attributes


def write_envelope(envelope: Envelope) -> tuple[FieldTable, FieldTable]:
    """Return the properties and headers of a message between nodes, with one field for each attribute.

    The headers of the application are not included.
    """
    attributes = envelope.attributes
    properties: FieldTable = {"app_id": str(envelope.source), "message_id": envelope.ident, "type": DATA_TYPE}
    properties |= {name: value for name in PROPERTIES if (value := getattr(attributes, name))}
    headers: FieldTable = {}
    _write_headers(envelope, headers)
    headers.update(envelope.unknown)
    return properties, headers


def write_packed(envelope: Envelope) -> tuple[FieldTable, FieldTable]:
    """Do what ``write_envelope`` does in the packed form, for a peer of protocol version 2 or later."""
    attributes = envelope.attributes
    properties: FieldTable = {"app_id": str(envelope.source), "type": DATA_TYPE}
    properties |= {name: value for name in PROPERTIES if (value := getattr(attributes, name))}
    headers: FieldTable = {PACKED: pack(envelope)}
    _write_newer(envelope, headers)
    headers.update(envelope.unknown)
    return properties, headers


def read_envelope(properties: FieldTable, headers: FieldTable, routing_key: str, user_headers: bytes = b"") -> Envelope:
    """Return the envelope of a message from a peer node.

    ``headers``: those with ``@``; ``user_headers``: the encoded others.

    Raises BadEnvelope, or the error of the address, locator or attribute that cannot be read.
    """
    try:
        return _read_envelope(properties, headers, parse_address(routing_key), user_headers)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadEnvelope("The attributes of the message cannot be read.", fault=shortened(str(error), 200)) from error


def _read_envelope(properties: FieldTable, headers: FieldTable, target: Address, user_headers: bytes) -> Envelope:
    source = parse_address(properties.get("app_id") or "")
    of_document, of_transport = _from_properties(properties), FieldTable()
    if user_headers:
        of_document["user_headers"] = user_headers
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


def _read_headers(headers: FieldTable, of_document: FieldTable, of_transport: FieldTable) -> None:
    unknown = {}
    for name, value in headers.items():
        if name in DOCUMENT_READERS:
            if value is not None:
                field, read = DOCUMENT_READERS[name]
                of_document[field] = read(name, value)
        elif name in TRANSPORT_READERS:
            if value is not None:
                field, read = TRANSPORT_READERS[name]
                of_transport[field] = read(name, value)
        elif name not in NOT_CARRIED:
            unknown[name] = value
    if unknown:
        of_transport["unknown"] = unknown


def _from_properties(properties: FieldTable) -> FieldTable:
    return {name: value for name in PROPERTIES if (value := properties.get(name))}
