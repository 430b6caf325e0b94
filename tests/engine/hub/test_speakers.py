"""The statements that a node may make, by record and addressee."""

from typing import Any

import pytest

from semq.engine.hub.speakers import check_records
from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Answer, HubFlag, Inquiry, InquiryRole, Presence, Receipt

PEER, OTHER, HUB = Address(1, "10008"), Address(1, "56001"), Address(2, "hub")
MINE, THEIRS, THIRD = (f"1.{node}.1.1.a.7" for node in ("10008", "56001", "88001"))
R, Q = Function.RECEIPTS, Function.INQUIRIES
SAYS, NOTES, ASKS, ANSWERS = Primitive.INDICATION, Primitive.RESPONSE, Primitive.REQUEST, Primitive.CONFIRMATION
ACK, ACK2 = AckFlag.TRANSPORT, AckFlag.END_TO_END

# function, primitive, addressee, record | whether a node may send it
CASES: list[tuple[Function, Primitive, Address, Any, bool]] = [
    (R, SAYS, HUB, Receipt(ack_flag=ACK, ident=MINE), True),
    (R, SAYS, HUB, Receipt(ack_flag=ACK, ident=THEIRS), True),  # about a copy: only the row shows whose message it is
    (R, SAYS, HUB, Receipt(ack_flag=ACK2, ident=THEIRS), False),
    (R, SAYS, OTHER, Receipt(ack_flag=ACK2, ident=THEIRS), True),
    (R, SAYS, OTHER, Receipt(ack_flag=ACK2, ident=THIRD), False),
    (R, SAYS, OTHER, Receipt(ack_flag=ACK2, ident=MINE), False),
    (R, SAYS, OTHER, Receipt(ack_flag=ACK, ident=THEIRS), False),
    (R, SAYS, OTHER, Receipt(ident=THEIRS), False),
    *((R, SAYS, OTHER, Receipt(flag=flag, ident=THEIRS), False) for flag in HubFlag),
    (R, SAYS, OTHER, Receipt(flag=HubFlag.STORED, ack_flag=ACK2, ident=THEIRS), False),
    (R, NOTES, OTHER, Receipt(ack_flag=ACK2, ident=MINE), True),
    (R, NOTES, OTHER, Receipt(ack_flag=ACK2, ident=THEIRS), False),
    (R, NOTES, OTHER, Receipt(ack_flag=ACK, ident=MINE), False),
    (R, NOTES, HUB, Receipt(ack_flag=ACK2, ident=MINE), False),
    (Q, ASKS, OTHER, Inquiry(role=InquiryRole.S, ident=MINE), True),
    (Q, ASKS, HUB, Inquiry(role=InquiryRole.S, ident=MINE), True),
    (Q, ASKS, OTHER, Inquiry(role=InquiryRole.S, ident=THEIRS), False),
    (Q, ASKS, HUB, Inquiry(role=InquiryRole.S, ident=THIRD), False),
    (Q, ASKS, OTHER, Inquiry(role=InquiryRole.R, ident=THEIRS), True),
    (Q, ASKS, HUB, Inquiry(role=InquiryRole.R, ident=THEIRS), True),
    (Q, ASKS, OTHER, Inquiry(role=InquiryRole.R, ident=THIRD), False),
    (Q, ASKS, OTHER, Inquiry(role=InquiryRole.P, ident=THEIRS), False),
    (Q, ASKS, OTHER, Inquiry(ident=MINE), False),
    (Q, ANSWERS, OTHER, Inquiry(role=InquiryRole.S, answer=Answer.RECV, ident=THEIRS), True),
    (Q, ANSWERS, HUB, Inquiry(role=InquiryRole.P, answer=Answer.RECV, ident=THEIRS), True),
    (Q, ANSWERS, OTHER, Inquiry(role=InquiryRole.S, answer=Answer.RECV, ident=THIRD), False),
    (Function.PRESENCE, SAYS, OTHER, Presence(node="1.10008"), False),
    (Function.PRESENCE, SAYS, HUB, Presence(node="1.10008", certificates=()), True),
    (Function.PRESENCE, SAYS, HUB, Presence(node="1.56001", certificates=()), False),
    # The id of another node begins with the id of this node.
    (Q, ASKS, OTHER, Inquiry(role=InquiryRole.S, ident="1.100081.1.1.a.7"), False),
]


@pytest.mark.parametrize(("function", "primitive", "to", "record", "is_permitted"), CASES)
def test_permitted_statements_of_a_node(
    function: Function, primitive: Primitive, to: Address, record: Any, is_permitted: bool
) -> None:
    permitted, wrong = check_records(Packet(PEER, to, function, primitive, [record]), PEER, HUB)
    assert list(permitted) == ([record] if is_permitted else [])
    assert [refused for refused, _ in wrong] == ([] if is_permitted else [record])


def test_permitted_records_of_a_packet_are_passed_on() -> None:
    good, bad = Inquiry(role=InquiryRole.S, ident=MINE), Inquiry(role=InquiryRole.S, ident=THIRD)
    permitted, wrong = check_records(Packet(PEER, OTHER, Q, ASKS, [good, bad, good]), PEER, HUB)
    assert list(permitted) == [good, good]
    assert wrong == [(bad, "an inquiry about another node's message")]
