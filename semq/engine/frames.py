"""Frames of the engine as AMQP content, and back (the tables in ARCHITECTURE.md, section "AMQP").

UMX-T attributes are in the content header; the body is the payload of a message, or the records of a packet.
"""

from msgspec.structs import replace

from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError
from semq.amqp.wire import FieldValue, Table, encode_fields, long_string
from semq.errors import SemqError
from semq.foreign_text import shortened
from semq.seal.session import OVERHEAD
from semq.umx_t.address import parse_address
from semq.umx_t.attributes import PROPERTIES
from semq.umx_t.envelope import Attributes, Body, Data, Frame, Function, Packet, Primitive
from semq.umx_t.errors import BadAttribute, HeadersTooLarge, NotForDatagrams
from semq.umx_t.headers import (
    DATA_TYPE,
    PACKED,
    USER_HEADERS_DEPTH,
    USER_HEADERS_MAX,
    packet_type,
    read_envelope,
    read_type,
    write_envelope,
    write_packed,
)
from semq.umx_t.records import InquiryRole, decode_records, encode_records
from semq.umx_t.version import HIGHEST, PACKED_SINCE

RECORDS_TYPE = "application/json"
SIGNATURE = "@Signature"
PERSISTENT = 2
ENVELOPE_PROPERTIES = ("app_id", "message_id", *PROPERTIES)  # AMQP properties in which parts of an envelope travel


def read_frame(routing_key: str, header: ContentHeader, body: Body) -> Frame:
    """Return the frame that a peer node sent.

    Raises BadAddress, BadEnvelope, BadRecord, BadLocator, BadAttribute or BadAppKey (all SemqError), and the AmqpErrors
    of a malformed content header.
    """
    function, primitive = read_type(header.type)
    if function is Function.DATA:
        present = header.spans or header.locate()
        properties = {name: getattr(header, name) for name in ENVELOPE_PROPERTIES if name in present}
        dropped = header.body_size if header.body_size > len(body) else 0
        attributes, user_headers = header.split_headers()
        return Data(read_envelope(properties, attributes, routing_key, user_headers), body, header, dropped)
    source, target = parse_address(header.app_id or ""), parse_address(routing_key)
    records = decode_records(function, primitive, body)
    return Packet(source, target, function, primitive, records, header, body, _signature(header))


def is_packet(header: ContentHeader) -> bool:
    """Whether a frame is a packet of records, or cannot be read."""
    try:
        return header.type != DATA_TYPE
    except AmqpError:
        return True


def read_datagram(routing_key: str, header: ContentHeader, body: Body) -> Data:
    """Return the best-effort message in a datagram. Raises NotForDatagrams, and the errors of ``read_frame``."""
    frame = read_frame(routing_key, header, body)
    if not isinstance(frame, Data) or not frame.envelope.attributes.is_best_effort:
        raise NotForDatagrams(target=routing_key[:140])
    return frame


def document_properties(header: ContentHeader) -> dict[str, object]:
    """Return the AMQP properties that are attributes of a document. Raises FrameError, SyntaxFault."""
    return {name: getattr(header, name) for name in PROPERTIES}


def _signature(header: ContentHeader) -> str:
    signature = (header.headers or {}).get(SIGNATURE, "")
    return signature if isinstance(signature, str) else ""


def write_frame(frame: Frame, version: int = HIGHEST) -> tuple[str, ContentHeader, Body]:
    """Return routing key, content header and body of a frame, for a peer of this version of the protocol."""
    if isinstance(frame, Data):
        packs = version >= PACKED_SINCE
        if isinstance(frame.header, ContentHeader) and (packs or not _is_packed(frame.header)):
            return str(frame.envelope.target), frame.header, frame.body
        properties, headers = (write_packed if packs else write_envelope)(frame.envelope)
        table = long_string(encode_fields(headers) + frame.envelope.attributes.user_headers)
        built = Properties(headers=table, delivery_mode=PERSISTENT, **properties)
        return str(frame.envelope.target), ContentHeader.build(len(frame.body), built), frame.body
    if isinstance(frame.header, ContentHeader):
        return str(frame.target), frame.header, frame.body
    body = frame.body or encode_records(frame.records)
    built = Properties(
        content_type=RECORDS_TYPE,
        type=packet_type(frame.function, frame.primitive),
        app_id=str(frame.source),
        headers={SIGNATURE: frame.signature} if frame.signature else None,
    )
    return str(frame.target), ContentHeader.build(len(body), built), body


def frame_bytes(frame: Data) -> int:
    """Return the bytes of the content header and body of a message."""
    _, header, body = write_frame(frame)
    return len(header.raw) + len(body)


def _is_packed(header: ContentHeader) -> bool:
    return PACKED in header.split_headers()[0]


def check_carried(attributes: Attributes) -> None:
    """Check the properties of a document that does not arrive through AMQP. Raises BadAttribute if AMQP cannot carry
    them.
    """
    properties = Properties(**{name: getattr(attributes, name) or None for name in PROPERTIES})
    try:
        ContentHeader.build(0, properties)
    except (SemqError, TypeError, ValueError, OverflowError) as error:
        raise _not_carried(error) from error


def split_given(headers: Table) -> tuple[dict[str, FieldValue], bytes]:
    """Return the headers with ``@`` of a document that does not arrive through AMQP, and the encoded others.

    Raises HeadersTooLarge, and BadAttribute if AMQP cannot carry them or if they are nested too deeply.
    """
    attributes = {name: value for name, value in headers.items() if name[:1] == "@"}
    try:
        fields = encode_fields(
            {name: value for name, value in headers.items() if name not in attributes}, USER_HEADERS_DEPTH
        )
    except (SemqError, TypeError, ValueError, OverflowError) as error:
        raise _not_carried(error) from error
    return attributes, check_size(fields)


def check_size(user_headers: bytes) -> bytes:
    """Return the encoded headers of an application. Raises HeadersTooLarge."""
    size = len(user_headers) + 4  # with the length of the table
    if size > USER_HEADERS_MAX:
        raise HeadersTooLarge(size=size, allowed=USER_HEADERS_MAX)
    return user_headers


def _not_carried(error: Exception) -> BadAttribute:
    return BadAttribute("AMQP cannot carry these properties or headers.", fault=shortened(str(error), 200))


def split_by_role(packet: Packet) -> list[Packet]:
    """Split a packet of inquiries into one for role R and one for the other roles; leave any other packet whole.

    Called before signing: if a hub takes inquiries of role S out of a packet, it passes the others on without the
    packet's signature. Inquiries of role R need a signature."""
    if packet.function is not Function.INQUIRIES or packet.primitive is not Primitive.REQUEST:
        return [packet]
    role_r = [record for record in packet.records if record.role is InquiryRole.R]
    others = [record for record in packet.records if record.role is not InquiryRole.R]
    return [replace(packet, records=records) for records in (role_r, others) if records]


def document_size(message: Data) -> int:
    """Return the size of the document in a message, in bytes, without the bytes that a seal adds."""
    return message.size - OVERHEAD * message.envelope.is_sealed
