"""Errors in addresses, attributes and records. Codes 1100–1199.

``BadInput``: faults of an application. ``ProtocolViolation``: faults of a peer node.
"""

from semq.errors import BadInput, ProtocolViolation


class BadAddress(BadInput):
    """The text is not the address of a node or group, or of a user there."""

    code = "SEMQ-1101"
    remedy = "Write an institution as 56001 or 1.56001, a user of it as 56001/name; letters, digits, '-' and '_' only."


class BadAttribute(BadInput):
    """A UMX-T attribute has a value that is not defined."""

    code = "SEMQ-1102"
    remedy = "Correct or omit the attribute; the reference of attributes lists them with their values."


class BadAppKey(BadInput):
    """The AppKey (@AppKey) is not four parts: domain, data type, subtype and key."""

    code = "SEMQ-1103"
    remedy = "Write domain/type/subtype/key, for instance trade/order/standard/S0001; each part at most 128 characters."


class BadCombination(BadInput):
    """Two UMX-T attributes contradict each other."""

    code = "SEMQ-1104"
    remedy = (
        "@Reliable=0 is legal only with @SaveFwd=1 and @Ack2=0 (best effort); @OrderKey and @Fixed=1 need @SaveFwd=3."
    )


class HeadersTooLarge(BadInput):
    """The headers of the document, those without @, are longer than permitted."""

    code = "SEMQ-1105"
    remedy = "Put the data into the body of the document: its headers have at most 64 KiB, encoded as an AMQP table."


class BadLocator(ProtocolViolation):
    """A locator (LK0, LK1) or a position in a stream cannot be read."""

    code = "SEMQ-1110"


class BadRecord(ProtocolViolation):
    """The records of a packet (receipts, inquiries, presence, datagram channels) cannot be read."""

    code = "SEMQ-1111"


class BadEnvelope(ProtocolViolation):
    """The attributes of a message from a peer cannot be read."""

    code = "SEMQ-1112"


class ImpossibleEvent(ProtocolViolation):
    """An event arrived that is impossible in the state of the row; the row was not changed."""

    code = "SEMQ-1113"


class PacketTooLarge(BadRecord):
    """A packet of records is larger, or contains more records, than any node sends."""

    code = "SEMQ-1114"
    remedy = (
        "Nothing is lost: the packet was dropped, and a correct node repeats its records in smaller ones. If it "
        "continues, ask the operator of the peer that the log names."
    )


class IntakeOverflow(ProtocolViolation):
    """A node sends more than this node can process; the excess was dropped."""

    code = "SEMQ-1115"
    remedy = "Nothing is lost: the sender repeats it. If it continues, ask the operator of the node that the log names."


class BadManifest(ProtocolViolation):
    """The manifest of a document in pieces, or the name of a piece, cannot be read."""

    code = "SEMQ-1116"


class NotForDatagrams(ProtocolViolation):
    """A datagram carries something other than a document with @Reliable=0; it was ignored."""

    code = "SEMQ-1117"
