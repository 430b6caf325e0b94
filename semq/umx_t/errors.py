"""What can be wrong with an address, an attribute or a record. Codes 1100–1199.

``Refused`` errors name bad input of an application; ``BadFrame`` names what a peer node sent.
"""

from semq.errors import BadInput, ProtocolViolation


class BadAddress(BadInput):
    """The address does not name a node or a user of one."""

    code = "SEMQ-1101"
    remedy = "Write an institution as 56001 or 1.56001, a user of it as 56001/name; letters, digits, '-' and '_' only."


class BadAttribute(BadInput):
    """A UMX-T attribute has a value that does not exist."""

    code = "SEMQ-1102"
    remedy = "Correct or leave out the attribute; the table of attributes in README.md has them all."


class BadAppKey(BadInput):
    """The AppKey (@AppKey) is not four parts: domain, data type, subtype and key."""

    code = "SEMQ-1103"
    remedy = "Write domain/type/subtype/key, for instance trade/order/standard/S0001; each part at most 128 characters."


class BadCombination(BadInput):
    """Two UMX-T attributes contradict each other."""

    code = "SEMQ-1104"
    remedy = "@Reliable=0 is legal only with @SaveFwd=1 and @Ack2=0 (best effort); @OrderKey needs @SaveFwd=3."


class BadLocator(ProtocolViolation):
    """A locator (LK0 or LK1) cannot be read."""

    code = "SEMQ-1110"


class BadRecord(ProtocolViolation):
    """An 810 or 809 record cannot be read."""

    code = "SEMQ-1111"


class PacketTooLarge(BadRecord):
    """A packet of records is larger, or holds more, than any node sends."""

    code = "SEMQ-1114"
    remedy = (
        "Nothing is lost: the packet is dropped, and what an honest node says comes again in smaller ones. If it goes "
        "on, ask the operator of the peer that the log names."
    )


class TooMuchWaits(ProtocolViolation):
    """A node says more than this node can work off; what came beyond the bound was dropped."""

    code = "SEMQ-1115"
    remedy = (
        "Nothing is lost: rows and timers ask again. If it goes on, ask the operator of the node that the log names."
    )


class BadEnvelope(ProtocolViolation):
    """The attributes of a message from a peer cannot be read."""

    code = "SEMQ-1112"


class ImpossibleNews(ProtocolViolation):
    """News arrived that cannot be true in the state of the row; the row stays as it is."""

    code = "SEMQ-1113"
