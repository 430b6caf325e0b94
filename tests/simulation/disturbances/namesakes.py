"""Records that carry the number of a row but name another message; they must change nothing (rules N6 and N13).

Numbers of rows are used again after a store was restored or created again. Random faults cause such records too
rarely, so in the mode ``hell`` nodes send them to each other.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from semq.store.rows import Outbound, Pending
from semq.umx_t.envelope import Function, Packet, Primitive
from semq.umx_t.locator import LK0
from semq.umx_t.records import AckFlag, Answer, Inquiry, InquiryRole, Receipt

if TYPE_CHECKING:
    from tests.simulation.network import SimLink

ENDS = (Answer.RECV, Answer.REJ, Answer.VOID)


def of_own(chance: Random, link: "SimLink", row: Outbound) -> Packet:
    """Return an Ack2 to a sender, about a message of another incarnation."""
    ack2 = Receipt(ack_flag=AckFlag.END_TO_END, ident=str(another(row.lk0)), status=chance.choice(ENDS))
    return Packet(row.target.node, link.owner.address, Function.RECEIPTS, Primitive.INDICATION, [ack2])


def of_pending(chance: Random, link: "SimLink", row: Pending) -> Packet:
    """Return a ReAck or ReAck2 to a receiver, about another message or another copy."""
    source, number, flag, ident = chance.choice(
        (
            (row.lk0.node, row.lk0.object_id, AckFlag.END_TO_END, str(another(row.lk0))),
            (link.peer, row.lk1.object_id if row.lk1 else 7, AckFlag.TRANSPORT, str(another(row.lk0))),
            (link.peer, row.lk1.object_id + 1 if row.lk1 else 7, AckFlag.TRANSPORT, str(row.lk0)),
        )
    )
    home = row.lk1 or row.lk0
    noted = Receipt(
        src_semq_id=home.semq_id, src_semq_db_id=home.semq_db_id, src_ref_id=number, dest_ref_id=row.bref,
        ack_flag=flag, ident=ident,
    )  # fmt: skip
    return Packet(source, link.owner.address, Function.RECEIPTS, Primitive.RESPONSE, [noted])


def of_copy(chance: Random, link: "SimLink", row: Outbound) -> Packet:
    """Return a record to the hub about another message: an Ack, an answer, or a ReAck of a refusal."""
    make = chance.choice(OF_COPIES[link.peer == row.target.node, link.peer == row.lk0.node])
    return make(link, row, str(another(row.lk0)))


def _acked(link: "SimLink", row: Outbound, ident: str) -> Packet:
    semq_id, db_id, number = _lk1(link, row)
    ack = Receipt(
        src_semq_id=semq_id, src_semq_db_id=db_id, src_ref_id=number, ack_flag=AckFlag.TRANSPORT, ident=ident,
        status=Answer.RECV,
    )  # fmt: skip
    return Packet(link.peer, link.owner.address, Function.RECEIPTS, Primitive.INDICATION, [ack])


def _answered(link: "SimLink", row: Outbound, ident: str) -> Packet:
    record = Inquiry(role=InquiryRole.P, ident=ident, nonce=row.att, lk1=_lk1(link, row), answer=Answer.RECV)
    return Packet(link.peer, link.owner.address, Function.INQUIRIES, Primitive.CONFIRMATION, [record])


def refusal_noted(link: "SimLink", row: Outbound, ident: str) -> Packet:
    """Return a statement of a sender that it has noted the refusal of a copy."""
    semq_id, db_id, number = _lk1(link, row)
    reack = Receipt(
        src_semq_id=semq_id, src_semq_db_id=db_id, src_ref_id=number, ack_flag=AckFlag.TRANSPORT, ident=ident
    )
    return Packet(link.peer, link.owner.address, Function.RECEIPTS, Primitive.RESPONSE, [reack])


# Whether the peer is the target of the copy, whether the peer is its source | records.
OF_COPIES: dict[tuple[bool, bool], tuple[Callable[["SimLink", Outbound, str], Packet], ...]] = {
    (True, False): (_acked, _answered),
    (False, True): (refusal_noted,),
    (True, True): (_acked, _answered, refusal_noted),
    (False, False): (_acked, _answered),
}


def another(lk0: LK0) -> LK0:
    """Return the name of a message with the same store and number, but of another incarnation."""
    return lk0._replace(inc=lk0.inc ^ 1)


def _lk1(link: "SimLink", row: Outbound) -> tuple[int, int, int]:
    return link.owner.own_store.semq_id, link.owner.own_store.semq_db_id, row.object_id
