"""False hints: all statements except a receiver's acknowledgements may be wrong, late or repeated without harm.

PROTOCOL.md section 1: only the receiver's ledger decides. In the mode ``hell``, therefore, the hub makes false
statements with the right names, attempts and nonces, about rows in any state. Statements that are not hints (a refusal,
the answer NOT of the receiver) are made only when they arrive too late.
"""

from random import Random
from typing import TYPE_CHECKING

from semq.engine.errors import RefusedByOperator
from semq.store.rows import InStreamKey, Outbound, Slot
from semq.umx_t.envelope import Frame, Function, Packet, Primitive
from semq.umx_t.records import ANSWER_BY_ARRIVAL, AckFlag, Answer, HubFlag, Inquiry, InquiryRole, Receipt
from semq.umx_t.status import Direction, SaveFwd, SendStatus
from tests.simulation.disturbances import namesakes

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.network import SimLink
    from tests.simulation.world import World

PAST_SENT = (SendStatus.SS_ACK_FWD, SendStatus.SS_ACK, SendStatus.SS_ACK2)
UNKNOWN_COPY = (9, 9, 1)  # a copy in a store that does not exist
Hint = HubFlag | Answer
HINTS: tuple[Hint, ...] = (HubFlag.FORWARDED, HubFlag.FORWARD_FAILED, Answer.OFFLINE, Answer.UNAVAIL)


def rumours(chance: Random, link: "SimLink", arrived: list[Frame]) -> list[Frame]:
    """Return false hints about documents that a node sends. ``arrived``: frames that have just arrived."""
    ending = _about_to_end(link.owner, arrived)
    received = list(link.owner.tables.pending.values())
    if received and chance.random() < 0.15:
        return [namesakes.of_pending(chance, link, chance.choice(received))]
    sender, tables = link.owner.engine.sender, link.owner.tables
    in_doubt = [tables.outbound[i] for i in (*sender.rows.doubts, *sender.away_since) if i in tables.outbound]
    pools = [pool for pool in (ending, in_doubt, list(tables.outbound.values())) if pool]
    pool = in_doubt if in_doubt and chance.random() < 0.6 else chance.choice(pools) if pools else []
    own = [row for row in pool if row.direction is Direction.OWN]
    if not own:
        return []
    row = chance.choice(own)
    if chance.random() < 0.1:
        return [namesakes.of_own(chance, link, row)]
    news: list[Frame] = []
    ends = row in ending
    if chance.random() < 0.3 and (entry := truth(link.owner.world, row)) is not None:
        news = [truth_packet(link, row, entry)]
        if chance.random() < 0.5:
            return news
        ends = True
    hints = [chance.choice((*HINTS, *harmless(row, ends=ends))) for _ in range(chance.choice((1, 2, 6)))]
    if row.object_id in sender.away_since and row.object_id not in sender.rows.doubts and chance.random() < 0.6:
        hints[0] = Answer.UNAVAIL
    return news + [hint_packet(link, row, hint) for hint in hints]


def truth_packet(link: "SimLink", row: Outbound, entry: Answer) -> Packet:
    """Return the entry of the receiver's ledger as an Ack2."""
    ack2 = Receipt(ack_flag=AckFlag.END_TO_END, ident=str(row.lk0), status=entry)
    return Packet(row.target.node, link.owner.address, Function.RECEIPTS, Primitive.INDICATION, [ack2])


def hint_packet(link: "SimLink", row: Outbound, hint: Hint, code: str = "SEMQ-1203") -> Packet:
    """Return a hint about a row, with its attempt, last nonce and custodian. ``code``: error code of a refusal."""
    owner, ident = link.owner.address, str(row.lk0)
    if isinstance(hint, HubFlag):
        lk1 = UNKNOWN_COPY if hint is HubFlag.STORED else None
        note = Receipt(flag=hint, ident=ident, att=row.att, reason=(code, "too late"), lk1=lk1)
        return Packet(link.peer, owner, Function.RECEIPTS, Primitive.INDICATION, [note])
    nonce = link.owner.engine.sender.nonces.get(row.object_id, 0)
    copy = (row.custodian.semq_id, row.custodian.semq_db_id, row.custodian.object_id) if row.custodian else None
    answer = Inquiry(role=InquiryRole.S, ident=ident, nonce=nonce, lk1=copy, answer=hint)
    source = row.target.node if hint is Answer.NOT else link.peer
    return Packet(source, owner, Function.INQUIRIES, Primitive.CONFIRMATION, [answer])


def refused_copy(link: "SimLink", row: Outbound, *, void: bool) -> Packet:
    """Return the refusal of a copy by an operator of the hub: of the payload, or of the void marker."""
    note = Receipt(
        flag=HubFlag.REFUSED,
        ident=str(row.lk0),
        lk1=UNKNOWN_COPY,
        void=void,
        reason=(RefusedByOperator.code, "asked to"),
    )
    return Packet(link.peer, link.owner.address, Function.RECEIPTS, Primitive.INDICATION, [note])


def harmless(row: Outbound, *, ends: bool) -> tuple[Hint, ...]:
    """Return more hints that do no harm to a row, because they are late or its class promises nothing.

    ``ends``: the row ends before they arrive.
    """
    more: tuple[Hint, ...] = (Answer.GONE,) if row.has_payload or row.void or ends else ()
    if ends:
        more += (Answer.NOT,)  # the receiver's Ack2 arrives first
    if row.outcome is not None or row.ss_status in PAST_SENT or (row.ss_status is SendStatus.SS_INIT and row.att):
        more += (HubFlag.REFUSED,)  # the row becomes SS_SENT only with another attempt
    if row.sid < 0 or (row.ack2 and row.att):
        more += (HubFlag.STORED,)  # a payload that waits for its receipt is not deleted at custody
    if row.sid < 0:
        in_custody = row.outcome is not None or row.ss_status is SendStatus.SS_ACK
        more += (HubFlag.DISCARDED,) if in_custody or row.save_fwd is SaveFwd.DROP else ()
    return more


def rumours_of_copies(chance: Random, link: "SimLink") -> list[Frame]:
    """Return records to the hub about a copy: from its receiver, or from its sender."""
    copies = [row for row in link.owner.tables.outbound.values() if link.peer in (row.target.node, row.lk0.node)]
    if not copies:
        return []
    row = chance.choice(copies)
    if chance.random() < 0.4:
        return [namesakes.of_copy(chance, link, row)]
    if row.lk0.node == link.peer:
        # A late ReAck of a refusal: the refused copy has since become its sender's marker.
        is_late = row.void and "strike_off" not in link.owner.world.plan.kinds
        return [namesakes.refusal_noted(link, row, str(row.lk0))] if is_late else []
    entry = truth(link.owner.world, row)
    answer = Answer.NOT if entry is None or chance.random() < 0.4 else entry
    lk1 = (link.owner.own_store.semq_id, link.owner.own_store.semq_db_id, row.object_id)
    record = Inquiry(role=InquiryRole.P, ident=str(row.lk0), nonce=row.att, lk1=lk1, answer=answer)
    return [Packet(link.peer, link.owner.address, Function.INQUIRIES, Primitive.CONFIRMATION, [record])]


def truth(world: "World", row: Outbound) -> Answer | None:
    """Return the entry of the receiver's ledger for a message; None if it has none."""
    ident, tables = str(row.lk0), world.host(row.target.id).tables
    if row.sid < 0:
        return ANSWER_BY_ARRIVAL[tables.seen[ident].status] if ident in tables.seen else None
    key = InStreamKey(row.lk0.store, row.lk0.inc)
    stream = tables.in_streams.get(key)
    if stream is not None and row.sid < stream.floor:
        return Answer.SETTLED
    entry = tables.recorded.get(Slot(key, row.sid))
    return Answer[entry.status.name] if entry is not None else None


def _about_to_end(host: "Host", arrived: list[Frame]) -> list[Outbound]:
    """Return the rows about which an end-to-end acknowledgement has just arrived."""
    idents = {
        record.ident
        for packet in arrived
        if isinstance(packet, Packet) and packet.function is Function.RECEIPTS
        for record in packet.records
        if record.ack_flag is AckFlag.END_TO_END
    }
    return [row for row in host.tables.outbound.values() if str(row.lk0) in idents]
