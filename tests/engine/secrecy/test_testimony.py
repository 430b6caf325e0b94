"""Packets at a local node: which records the hub, the sender and the receiver of a message may send."""

from typing import Any

import pytest

from semq.engine.errors import NotYours
from semq.engine.secrecy.testimony import check_packet, split_records
from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Answer, HubFlag, Inquiry, InquiryRole, Presence, Receipt

HERE, PARTNER, THIRD, HUB = Address(1, "10008"), Address(1, "56001"), Address(1, "88001"), Address(2, "hub")
OURS, THEIRS, FOREIGN = (f"1.{node}.1.1.a.7" for node in ("10008", "56001", "88001"))
R, Q = Function.RECEIPTS, Function.INQUIRIES
SAYS, NOTES, ASKS, ANSWERS = Primitive.INDICATION, Primitive.RESPONSE, Primitive.REQUEST, Primitive.CONFIRMATION
END = AckFlag.END_TO_END

# function, primitive, record, sources of whom it is accepted
CASES: list[tuple[Function, Primitive, Any, set[Address]]] = [
    (R, SAYS, Receipt(ack_flag=END, ident=OURS), {PARTNER}),
    (R, SAYS, Receipt(ack_flag=END, ident=THEIRS), set()),
    (R, SAYS, Receipt(flag=HubFlag.STORED, ident=OURS), {HUB}),
    (R, SAYS, Receipt(flag=HubFlag.REFUSED, ident=FOREIGN), set()),
    (R, SAYS, Receipt(flag=HubFlag.STORED, ack_flag=END, ident=OURS), set()),
    (R, NOTES, Receipt(ack_flag=END, ident=THEIRS), {PARTNER}),
    (R, NOTES, Receipt(ack_flag=END, ident=OURS), set()),
    (R, NOTES, Receipt(ack_flag=AckFlag.TRANSPORT, ident=FOREIGN), {HUB}),
    (Q, ASKS, Inquiry(role=InquiryRole.S, ident=THEIRS), {PARTNER}),
    (Q, ASKS, Inquiry(role=InquiryRole.S, ident=FOREIGN), set()),
    (Q, ASKS, Inquiry(role=InquiryRole.R, ident=OURS), {PARTNER}),
    (Q, ASKS, Inquiry(role=InquiryRole.P, ident=FOREIGN), {HUB}),
    (Q, ANSWERS, Inquiry(role=InquiryRole.S, answer=Answer.RECV, ident=OURS), {PARTNER}),
    (Q, ANSWERS, Inquiry(role=InquiryRole.S, answer=Answer.RECV, ident=FOREIGN), set()),
    (Q, ANSWERS, Inquiry(role=InquiryRole.S, answer=Answer.OFFLINE, ident=OURS), {HUB}),
    (Q, ANSWERS, Inquiry(role=InquiryRole.S, answer=Answer.GONE, ident=THEIRS), set()),
    (Function.PRESENCE, SAYS, Presence(node="1.88001", online=True), {HUB}),
    (Function.PRESENCE, ASKS, Presence(node="1.88001"), set()),
]


@pytest.mark.parametrize(("function", "primitive", "record", "accepted"), CASES)
def test_a_record_is_accepted_from_those_who_may_state_it(
    function: Function, primitive: Primitive, record: Any, accepted: set[Address]
) -> None:
    for source in (PARTNER, HUB):
        permitted, faults = split_records(Packet(source, HERE, function, primitive, [record]), HUB, HERE)
        assert permitted == ([(0, record)] if source in accepted else [])
        assert len(faults) == (source not in accepted)


def test_a_partner_in_a_direct_session_is_not_the_hub() -> None:
    note = Receipt(flag=HubFlag.STORED, ident=OURS)
    assert split_records(Packet(PARTNER, HERE, R, SAYS, [note]), PARTNER, HERE)[0] == []


def test_permitted_records_keep_their_places() -> None:
    good, bad = Receipt(ack_flag=END, ident=OURS), Receipt(ack_flag=END, ident=FOREIGN)
    permitted, faults = split_records(Packet(PARTNER, HERE, R, SAYS, [bad, good]), HUB, HERE)
    assert permitted == [(1, good)]
    assert [ident for ident, _ in faults] == [FOREIGN]


@pytest.mark.parametrize(
    ("source", "target", "peer", "is_read"),
    [
        (PARTNER, HERE, HUB, True),
        (HERE, HERE, HERE, True),
        (PARTNER, THIRD, HUB, False),
        (HERE, HERE, HUB, False),
        (PARTNER, HERE, HERE, False),
    ],
)
def test_addressee_and_source_fit_the_session(source: Address, target: Address, peer: Address, is_read: bool) -> None:
    packet = Packet(source, target, R, SAYS, [])
    if is_read:
        check_packet(packet, peer, HERE)
        return
    with pytest.raises(NotYours):
        check_packet(packet, peer, HERE)
