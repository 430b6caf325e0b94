"""The deeds of the hub's grid: actions in addition to the change of a copy's row (PROTOCOL.md section 5.2).

Deeds run in the open transaction, and collect in ``AfterCopies`` the actions that must follow the commit. The module
also builds the hub's records about copies.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from semq.engine.core import Core, with_marker_note
from semq.engine.errors import Mismatch, RefusedByOperator
from semq.engine.hub.sessions import PresentNode
from semq.engine.sender.endings import says_returned
from semq.engine.stored_envelopes import decode_envelope, encode_envelope
from semq.engine.time.expiry import is_expired
from semq.engine.tracks import level
from semq.foreign_text import shortened
from semq.store.rows import Event, Outbound, Side, Stored
from semq.store.unit import Unit
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Function, Primitive
from semq.umx_t.grids import CopyState, HubDeed
from semq.umx_t.locator import LK1
from semq.umx_t.records import AckFlag, Answer, HubFlag, Inquiry, InquiryRole, Receipt
from semq.umx_t.status import Direction, SendStatus

STATE_OF_STATUS = {SendStatus.SS_INIT: CopyState.SS_INIT, SendStatus.SS_SENT: CopyState.SS_SENT}
MailArguments = tuple[Address, Function, Primitive, Receipt | Inquiry]  # arguments of ``Mail.add``


class Ack(NamedTuple):
    """An acknowledgement of a copy, to be answered with ReAck."""

    source: Address
    lk1: LK1
    ident: str
    bref: int  #: number of the receiver's row


class SenderQuestion(NamedTuple):
    """An inquiry of a sender, about a copy or a message."""

    source: Address
    record: Inquiry
    lk1: LK1 | None = None  #: the copy asked about; None: the message


class RefusalVerdict(NamedTuple):
    """The reason of an operator's refusal, in three wordings."""

    line: str  #: for the ledger
    sent: str  #: for the sender of a copy that was sent to its target
    unsent: str  #: for the sender of an unsent copy


class AfterCopies(Struct):
    """The actions after the commit of one piece of work on copies.

    Mail and frames are built before the commit, because later work may change the rows.
    """

    new: list[Outbound] = field(default_factory=list)  #: rows of new copies
    waiting: Counter[str] = field(default_factory=Counter)  #: change of the number of copies that wait, by target
    released: list[Outbound] = field(default_factory=list)  #: deleted rows
    refused: list[Outbound] = field(default_factory=list)  #: rows that an operator has refused
    wake: list[Outbound] = field(default_factory=list)  #: copies to be sent, perhaps again
    renewed: list[Outbound] = field(default_factory=list)  #: copies that got a new signature or became markers
    once_more: list[Outbound] = field(default_factory=list)  #: parked copies about which their sender inquires
    mail: list[MailArguments] = field(default_factory=list)
    frames: list[Data] = field(default_factory=list)
    to_pass_on: list[Inquiry] = field(default_factory=list)  #: inquiries about messages without a copy here
    inquired: int = 0  #: number of inquiries of role P in ``mail``


def copy_state(row: Outbound | None) -> CopyState:
    """Return the state of a copy, a column of the grid. ``row`` None: this store has no row."""
    if row is None:
        return CopyState.ABSENT
    return CopyState.REFUSED if row.held and says_returned(row.reason) else STATE_OF_STATUS[row.ss_status]


class CopyOwner(Protocol):
    """The part of ``custody.Custody`` that the deeds use."""

    @property
    def core(self) -> Core:
        """The state of the engine."""

    @property
    def sessions(self) -> Mapping[str, PresentNode]:
        """The nodes that are online."""


def note(
    core: Core, unit: Unit, event: Event, row: Outbound, detail: str = "", digest: bytes = b"", size: int = 0
) -> None:
    """Write a line of the ledger about a copy."""
    lk1 = str(core.lk1(row.object_id))
    unit.ledger.append(core.line(Side.HUB, event, row, detail, lk1=lk1, digest=digest, size=size))


# ------------------------------------------------------------------------------------------------------------- records


def reack(ack: Ack) -> MailArguments:
    """Return the ReAck to an Ack about a copy."""
    lk1 = ack.lk1
    return ack.source, Function.RECEIPTS, Primitive.RESPONSE, Receipt(
        src_semq_id=lk1.semq_id, src_semq_db_id=lk1.semq_db_id, src_ref_id=lk1.object_id, dest_ref_id=ack.bref,
        ack_flag=AckFlag.TRANSPORT, ident=ack.ident,
    )  # fmt: skip


def answered(
    source: Address, record: Inquiry, answer: Answer, lk1: LK1 | None = None, *, void: bool = False
) -> MailArguments:
    """Return the answer to a sender's inquiry."""
    return source, Function.INQUIRIES, Primitive.CONFIRMATION, Inquiry(
        semq_id=record.semq_id, semq_db_id=record.semq_db_id, ref_id=record.ref_id, flag=1, role=InquiryRole.S,
        ident=record.ident, nonce=record.nonce, lk1=lk1 or record.lk1, answer=answer, void=void,
    )  # fmt: skip


def ack_save(core: Core, row: Outbound) -> MailArguments:
    """Return the Ack-Save for a copy in this store."""
    lk0 = row.lk0
    return lk0.node, Function.RECEIPTS, Primitive.INDICATION, Receipt(
        src_semq_id=lk0.semq_id, src_semq_db_id=lk0.semq_db_id, src_ref_id=lk0.object_id, flag=HubFlag.STORED,
        ident=str(lk0), att=row.att, lk1=core.lk1(row.object_id), void=row.void,
    )  # fmt: skip


def refusal(core: Core, row: Outbound) -> MailArguments:
    """Return the refusal of a copy for its sender (H16)."""
    lk0 = row.lk0
    return lk0.node, Function.RECEIPTS, Primitive.INDICATION, Receipt(
        src_semq_id=lk0.semq_id, src_semq_db_id=lk0.semq_db_id, src_ref_id=lk0.object_id, flag=HubFlag.REFUSED,
        ident=str(lk0), lk1=core.lk1(row.object_id), void=row.void, reason=row.reason,
    )  # fmt: skip


# --------------------------------------------------------------------------------------------------------------- deeds


def _insert(custody: CopyOwner, unit: Unit, row: None, after: AfterCopies, message: Data) -> None:
    envelope, attributes, core = message.envelope, message.envelope.attributes, custody.core
    new = Outbound(
        object_id=core.new_id(), direction=Direction.RELAYED, lk0=envelope.lk0, target=envelope.target,
        save_fwd=attributes.save_fwd, ack2=attributes.ack2, sid=envelope.sid, app_key=attributes.app_key,
        void=envelope.void, has_payload=not envelope.void, digest=envelope.digest, size=len(message.body),
        accepted_at=core.now_ms(), expires_at=attributes.expires_at, priority=level(attributes.priority),
    )  # fmt: skip
    unit.insert_outbound(new, Stored(encode_envelope(envelope), bytes(message.body)))
    note(core, unit, Event.STORED, new, with_marker_note("", new.void), digest=new.digest, size=new.size)
    after.new.append(new)
    after.mail.append(ack_save(core, new))


def _again(custody: CopyOwner, unit: Unit, row: Outbound, after: AfterCopies, message: Data) -> None:
    """Confirm the custody of a repeated message. Store a new signature; note different bytes as a violation.

    A sender that has deleted the payload sends the signature alone.
    """
    core, envelope = custody.core, message.envelope
    after.mail.append(ack_save(core, row))
    has_other_bytes = not envelope.void and not row.void and row.digest != envelope.digest
    if envelope.signature and envelope.void is row.void and not (has_other_bytes or message.dropped):
        if message.is_bare or row.void:
            unit.replace_envelope(row.object_id, encode_envelope(envelope))
        else:
            unit.replace_body(row.object_id, Stored(encode_envelope(envelope), bytes(message.body)))
        if row.parked:  # the receiver did not record the older signature, but may record this one
            after.renewed.append(row)
    if has_other_bytes:
        error = Mismatch(lk0=envelope.ident, stored=row.digest.hex(), now=envelope.digest.hex())
        detail, lk1 = shortened(str(error), 500), str(core.lk1(row.object_id))
        line = core.line(Side.HUB, Event.MISMATCH, row, detail, lk1=lk1, digest=envelope.digest)
        core.count_violation(unit.ledger, str(envelope.lk0.node), line, error)
    else:
        note(core, unit, Event.DUPLICATE, row, digest=envelope.digest)


def _replace(custody: CopyOwner, unit: Unit, row: Outbound, after: AfterCopies, message: Data) -> None:
    row.held, row.reason, row.void, row.has_payload, row.size = False, None, True, False, 0
    row.parked = False  # the receiver did not record the payload, but may record the marker
    row.att += 1
    unit.change_outbound(row, row.ss_status)
    unit.replace_body(row.object_id, Stored(encode_envelope(message.envelope), b""))
    note(custody.core, unit, Event.VOIDED, row)
    after.mail.append(ack_save(custody.core, row))
    after.renewed.append(row)


def _send(custody: CopyOwner, unit: Unit, row: Outbound, after: AfterCopies, stored: Stored) -> None:
    """H5: count the attempt; send the copy with its LK1 and the hub as transport source."""
    core = custody.core
    row.att += 1
    late = not row.void and is_expired(row.expires_at, core.now_ms())
    note(core, unit, Event.SENT, row, with_marker_note("late" if late else "", row.void))
    # An expired copy is sent without its payload: its receiver decides, and may already have recorded the payload.
    envelope = decode_envelope(stored)
    if core.spans is not None:  # the copy may have been stored before this start of the hub
        core.spans.begin(Side.HUB, envelope, row.accepted_at)
    envelope = replace(envelope, lk1=core.lk1(row.object_id), source=core.address, late=late)
    after.frames.append(Data(envelope, b"" if late else stored.payload))


def _wake(custody: CopyOwner, unit: Unit, row: Outbound, after: AfterCopies, cause: object) -> None:
    after.wake.append(row)


def _reack(custody: CopyOwner, unit: Unit, row: Outbound | None, after: AfterCopies, ack: Ack) -> None:
    after.mail.append(reack(ack))


def _custody(custody: CopyOwner, unit: Unit, row: Outbound, after: AfterCopies, question: SenderQuestion) -> None:
    """Answer CUSTODY. Send a parked copy once more: its receiver may tell the sender, which is online, the fault."""
    if row.parked:
        after.once_more.append(row)
    lk1 = custody.core.lk1(row.object_id)
    after.mail.append(answered(question.source, question.record, Answer.CUSTODY, lk1, void=row.void))


def _gone(custody: CopyOwner, unit: Unit, row: None, after: AfterCopies, question: SenderQuestion) -> None:
    after.mail.append(answered(question.source, question.record, Answer.GONE, question.lk1))


def _pass_on(custody: CopyOwner, unit: Unit, row: None, after: AfterCopies, question: SenderQuestion) -> None:
    after.to_pass_on.append(question.record)


def _ask_target(custody: CopyOwner, unit: Unit, row: Outbound, after: AfterCopies, cause: None) -> None:
    if row.dest not in custody.sessions:
        return
    core = custody.core
    inquiry = Inquiry(
        semq_id=core.own_store.semq_id, semq_db_id=core.own_store.semq_db_id, ref_id=row.object_id, flag=1,
        role=InquiryRole.P, ident=str(row.lk0), sid=row.sid, nonce=row.att, lk1=core.lk1(row.object_id),
    )  # fmt: skip
    after.mail.append((row.target.node, Function.INQUIRIES, Primitive.REQUEST, inquiry))
    after.inquired += 1


def _refuse(custody: CopyOwner, unit: Unit, row: Outbound, after: AfterCopies, verdict: RefusalVerdict) -> None:
    """Delete the payload and keep the row."""
    row.held, row.parked = True, False
    row.reason = reason = (RefusedByOperator.code, verdict.sent if row.att else verdict.unsent)
    row.has_payload, row.size = False, 0
    unit.replace_body(row.object_id, Stored(b"", b""))
    note(custody.core, unit, Event.OPERATOR, row, verdict.line)
    note(custody.core, unit, Event.REFUSED, row, " ".join(reason))
    after.refused.append(row)
    _send_refusal(custody, unit, row, after, None)


def _send_refusal(custody: CopyOwner, unit: Unit, row: Outbound, after: AfterCopies, cause: object) -> None:
    if str(row.lk0.node) in custody.sessions:
        after.mail.append(refusal(custody.core, row))


EFFECTS: dict[HubDeed, Callable[[CopyOwner, Unit, Any, AfterCopies, Any], None]] = {
    HubDeed.insert: _insert,
    HubDeed.ack_save: _again,
    HubDeed.replace: _replace,
    HubDeed.send: _send,
    HubDeed.wake: _wake,
    HubDeed.reack: _reack,
    HubDeed.custody: _custody,
    HubDeed.gone: _gone,
    HubDeed.pass_on: _pass_on,
    HubDeed.ask_target: _ask_target,
    HubDeed.refuse: _refuse,
    HubDeed.refusal: _send_refusal,
}
