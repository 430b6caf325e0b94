"""False hints: what the platform says besides acknowledgements may be wrong, late or repeated without harm.

PROTOCOL.md section 1: the receiver's ledger alone decides; everything else says when to try again. So in hell the
platform talks nonsense, with the right names, attempts and nonces, about rows that have moved on or not. What is no
hint (a refusal, a NO of the receiver) is said only where it comes too late.
"""

from random import Random
from typing import TYPE_CHECKING

from semq.store.rows import Outbound
from semq.umx_t.envelope import Frame, Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Answer, Inquiry, Note, Receipt, Role
from semq.umx_t.status import Direction, SaveFwd, SendStatus

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.network import SimLink

PAST_SENT = (SendStatus.SS_ACK_FWD, SendStatus.SS_ACK, SendStatus.SS_ACK2)
Hint = Note | Answer
HINTS: tuple[Hint, ...] = (Note.FORWARDED, Note.FORWARD_FAILED, Answer.OFFLINE, Answer.UNAVAIL)


def rumours(chance: Random, link: "SimLink", heard: list[Frame]) -> list[Frame]:
    """Some nonsense about own rows of a node, that it may hear together with what has just arrived."""
    ending = _spoken_of(link.owner, heard)
    sender, tables = link.owner.engine.sender, link.owner.tables
    in_doubt = [tables.outbound[i] for i in (*sender.rows.doubts, *sender.away_since) if i in tables.outbound]
    pools = [pool for pool in (ending, in_doubt, list(tables.outbound.values())) if pool]
    own = [row for row in chance.choice(pools) if row.direction is Direction.OWN] if pools else []
    if not own:
        return []
    row = chance.choice(own)
    hint = chance.choice((*HINTS, *_harmless(row, ends=row in ending)))
    if row.object_id in sender.away_since and chance.random() < 0.5:
        hint = Answer.UNAVAIL
    if isinstance(hint, Note):
        note = Receipt(flag=hint, ident=str(row.lk0), att=row.att, reason=("SEMQ-1203", "too late"), lk1=(1, 1, 1))
        return [Packet(link.peer, link.owner.address, Function.RECEIPTS, Primitive.INDICATION, [note])]
    nonce = sender.nonces.get(row.object_id, 0)
    lk1 = (row.custodian.semq_id, row.custodian.semq_db_id, row.custodian.object_id) if row.custodian else None
    answer = Inquiry(role=Role.S, ident=str(row.lk0), nonce=nonce, lk1=lk1, answer=hint)
    source = row.target.node if hint is Answer.NOT else link.peer
    packet = Packet(source, link.owner.address, Function.INQUIRIES, Primitive.CONFIRMATION, [answer])
    return [packet] * chance.choice((1, 1, 5))


def _harmless(row: Outbound, *, ends: bool) -> tuple[Hint, ...]:
    """What may be said of this row besides: too late for it, or no loss, since its class promises nothing."""
    more: tuple[Hint, ...] = (Answer.GONE,) if row.has_payload or row.void or ends else ()
    if ends:
        more += (Answer.NOT,)  # the receiver's Ack2 goes before it
    if row.outcome is not None or row.ss_status in PAST_SENT or (row.ss_status is SendStatus.SS_INIT and row.att):
        more += (Note.REFUSED,)  # SS_SENT comes again only with another attempt
    if row.sid < 0:
        more += (Note.STORED,)
        in_custody = row.outcome is not None or row.ss_status is SendStatus.SS_ACK
        more += (Note.DISCARDED,) if in_custody or row.save_fwd is SaveFwd.DROP else ()
    return more


def _spoken_of(host: "Host", heard: list[Frame]) -> list[Outbound]:
    """Rows about which an end-to-end acknowledgement has just arrived: they are about to end."""
    idents = {
        record.ident
        for packet in heard
        if isinstance(packet, Packet) and packet.function is Function.RECEIPTS
        for record in packet.records
        if record.ack_flag is AckFlag.END_TO_END
    }
    return [row for row in host.tables.outbound.values() if str(row.lk0) in idents]
