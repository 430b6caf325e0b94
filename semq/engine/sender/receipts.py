"""Receipts, reports of the hub, answers and inquiries about own rows (PROTOCOL.md section 5.1, S3-S8, S15, S16)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from semq.engine.errors import Cancelled, NotYours, RefusedByOperator, UnknownTarget
from semq.engine.ports import PacketProof
from semq.engine.sender.deeds import ReceiverEvidence, ReturnedCopy
from semq.engine.sender.endings import REFUSALS, refusal_event, says_returned
from semq.engine.sender.outbound import EVENT_OF_ARRIVAL, UNDER_WAY, is_open
from semq.engine.sender.rejected_proofs import is_proof_rejected
from semq.engine.sender.sender import Sender
from semq.engine.sender.statements import Fault, SpeakingNode, Statements, own_lk0s
from semq.errors import SemqError
from semq.moments import moment_text
from semq.store.rows import Event, KeptReceipts, Outbound, OutStreamKey, Reason, Side
from semq.store.unit import Needs, StreamsTo, Unit
from semq.store.work import COMMITTED, Steps, work
from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Primitive
from semq.umx_t.grids import SenderEvent
from semq.umx_t.locator import LK0, LK1, Pos, parse_pos
from semq.umx_t.records import ARRIVAL_BY_ANSWER, AckFlag, Answer, HubFlag, Inquiry, InquiryRole, Receipt
from semq.umx_t.status import Arrival, SaveFwd, SendStatus

NO_TARGET_KNOWN = "The hub does not know the target any more, so it is unknown whether the document had arrived."
NO_TARGET = f"Cancelled. {NO_TARGET_KNOWN}"
EARLIER_COPY = "It is unknown whether it had arrived before this node's last start."
# Events of hub reports that must name the present attempt.
NOTES = {
    HubFlag.FORWARDED: SenderEvent.fwd,
    HubFlag.FORWARD_FAILED: SenderEvent.fwd_failed,
    HubFlag.DISCARDED: SenderEvent.discarded,
}
# Application events of hub reports about messages without a row (@Ack2=0).
UNKEPT_EVENTS = {HubFlag.FORWARDED: "forwarded", HubFlag.STORED: "stored"}


class Receipts:
    """Statements of other nodes about own rows."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._core = sender.core

    def receive_receipts(
        self, source: Address, placed_records: Sequence[tuple[int, Receipt]], proof: PacketProof | None = None
    ) -> None:
        """Process Ack2 of receivers, and reports and refusals of the hub, each with its index in the packet (needed to
        prove a signed Ack2 alone)."""
        # An Ack-Fwd may wait: usually an Ack2 follows and shares the commit.
        is_hint = all(record.flag is HubFlag.FORWARDED for _, record in placed_records)
        self._core.post_each(placed_records, partial(self._receipts, SpeakingNode(source, proof)), later=is_hint)

    def receive_answers(self, source: Address, records: Sequence[Inquiry], proof: PacketProof | None = None) -> None:
        """Process answers of receivers and the hub to inquiries of this node."""
        self._core.post_each(records, partial(self._answers, SpeakingNode(source, proof)))

    def receive_inquiries(self, source: Address, records: Sequence[Inquiry], proof: PacketProof | None = None) -> None:
        """Process inquiries of receivers; each proves that the receiver has recorded the message."""
        self._core.post_each(records, partial(self._inquiries, SpeakingNode(source, proof)))

    @work
    def _receipts(self, speaker: SpeakingNode, placed_records: Sequence[tuple[int, Receipt]]) -> Steps:
        lk0s, faults = own_lk0s(self._core, speaker.source, (record.ident for _, record in placed_records))
        named = [(lk0, record, place) for lk0, (place, record) in zip(lk0s, placed_records, strict=True) if lk0]
        streams = StreamsTo(str(speaker.source))
        unit = yield Needs(
            outbound={lk0.object_id for lk0, _, _ in named},
            bodies={
                lk0.object_id for lk0, record, _ in named if record.flag is HubFlag.REFUSED or is_proof_rejected(record)
            },
            queries={streams} if any(lk0.inc != self._core.inc for lk0, _, _ in named) else set(),
        )
        statements = _Receipts(self._sender, speaker, unit, faults)
        next_sids = _next_sids(statements, streams)
        for lk0, record, place in named:
            statements.process(lk0, record, place)
        yield COMMITTED
        statements.apply()
        _mail_reack2(statements, next_sids)

    @work
    def _answers(self, speaker: SpeakingNode, records: Sequence[Inquiry]) -> Steps:
        lk0s, faults = own_lk0s(self._core, speaker.source, (record.ident for record in records))
        named = [(lk0, record) for lk0, record in zip(lk0s, records, strict=True) if lk0]
        unit = yield Needs(
            outbound={lk0.object_id for lk0, _ in named},
            bodies={lk0.object_id for lk0, record in named if record.effective_answer is Answer.NOT},
        )
        statements = _Answers(self._sender, speaker, unit, faults)
        for lk0, record in named:
            statements.process(lk0, record)
        yield COMMITTED
        statements.apply()

    @work
    def _inquiries(self, speaker: SpeakingNode, records: Sequence[Inquiry]) -> Steps:
        lk0s, faults = own_lk0s(self._core, speaker.source, (record.ident for record in records))
        named: list[tuple[LK0, Inquiry, Pos | None]] = []
        for lk0, record in zip(lk0s, records, strict=True):
            try:
                prev = parse_pos(record.prev) if record.prev else None
            except SemqError as error:
                faults.append((record.ident, error))
                prev = None
            if lk0 is not None and record.role is InquiryRole.R:
                named.append((lk0, record, prev))
        streams = StreamsTo(str(speaker.source))
        unit = yield Needs(outbound={lk0.object_id for lk0, _, _ in named}, queries={streams})
        statements = Statements(self._sender, speaker, unit, faults)
        next_sids = _next_sids(statements, streams)
        for lk0, record, prev in named:
            row = statements.row(lk0)
            ending = ARRIVAL_BY_ANSWER.get(record.status) if record.status else None
            if ending is None or not statements.is_target(row, lk0) or not statements.names_position(row, record.sid):
                continue
            if statements.is_same(row, ending, record.digest):
                statements.apply_event(
                    row,
                    EVENT_OF_ARRIVAL[ending],
                    reason=record.reason,
                    cause=ReceiverEvidence(lk0, record.dest_ref_id, prev),
                )
        yield COMMITTED
        statements.apply()
        _mail_reack2(statements, next_sids)


# --------------------------------------------------------------------------------------------------------- ReAck2


def _next_sids(statements: Statements, streams: StreamsTo) -> dict[OutStreamKey, int]:
    """Return the next position of each stream to the node, committed or staged in this unit."""
    ours = (stream for key, stream in statements.unit.out_streams.items() if key.dest == str(statements.source))
    return {stream.key: stream.next_sid for stream in (*statements.unit.found.get(streams, ()), *ours)}


def _mail_reack2(statements: Statements, next_sids: Mapping[OutStreamKey, int]) -> None:
    """Mail ReAck2 for each piece of evidence, with floors (rules N16, N25)."""
    written: set[int] = set()
    for lk0, bref, prev in statements.after.evidence:
        floors = {}
        for inc in ({lk0.inc} | ({prev.inc} if prev else set())) - written:
            written.add(inc)
            floors[f"{inc:x}"] = _floor(statements, next_sids, inc)
        receipt = Receipt(
            src_semq_id=lk0.semq_id, src_semq_db_id=lk0.semq_db_id, src_ref_id=lk0.object_id,
            dest_ref_id=bref, ack_flag=AckFlag.END_TO_END, ident=str(lk0), floors=floors or None,
        )  # fmt: skip
        statements.core.mail.add(statements.source, Function.RECEIPTS, Primitive.RESPONSE, receipt, later=True)


def _floor(statements: Statements, next_sids: Mapping[OutStreamKey, int], inc: int) -> tuple[int, int | None]:
    """Return the floor of a stream, and the number of positions if it is closed (None: open); (0, 0) for an unknown
    stream (break F6)."""
    key = OutStreamKey(str(statements.source), inc)
    floor = statements.sender.rows.floors.get(key)
    if inc == statements.core.inc:
        return (floor.value if floor else 0), None
    next_sid = next_sids.get(key)
    if next_sid is None:
        return 0, 0
    return (floor.value if floor else next_sid), next_sid


# ------------------------------------------------------------------------------------------------------- receipts


class _Receipts(Statements):
    """Ack2 of a receiver; reports and refusals of the hub."""

    def __init__(self, sender: Sender, speaker: SpeakingNode, unit: Unit, faults: Iterable[Fault]) -> None:
        super().__init__(sender, speaker, unit, faults)
        self._kept: KeptReceipts | None = None
        self._rejected_in_clear: list[int] = []
        self._unkept: list[int] = []  #: reported documents without a row

    def process(self, lk0: LK0, record: Receipt, place: int) -> None:
        row = self.row(lk0)
        if record.ack_flag is AckFlag.END_TO_END:
            self._ack2(row, lk0, record, place)
        elif record.reason is not None and record.reason[0] in REFUSALS:
            # The document would be sent again as a new message, although the hub may have forwarded this one.
            text = "A reason of the hub has a code that only the receiver may give."
            self.note_violation(NotYours(text, lk0=str(lk0), code=record.reason[0]), str(lk0))
        elif record.flag is HubFlag.REFUSED and record.lk1 is not None:
            self._returned(row, lk0, record, LK1(*record.lk1))
        elif row is not None and record.flag is not None:
            self._note(row, record)
        elif row is None and record.flag is not None:
            self._note_unkept(lk0, record.flag)

    def _ack2(self, row: Outbound | None, lk0: LK0, record: Receipt, place: int) -> None:
        ending = ARRIVAL_BY_ANSWER.get(record.status) if record.status else None
        if not self.is_target(row, lk0) or not self.names_position(row, record.sid):
            return
        if row is not None and is_proof_rejected(record):
            self._proof_rejected(row, record)
        if ending is None or not self.is_same(row, ending, record.digest):
            return
        is_news = row is not None and is_open(row)
        detail = self._keep(record, place) if is_news and ending is Arrival.RECV else ""
        reason = record.reason if ending is Arrival.REJ else None
        self.apply_event(row, EVENT_OF_ARRIVAL[ending], detail, reason, ReceiverEvidence(lk0, record.dest_ref_id))

    def _proof_rejected(self, row: Outbound, record: Receipt) -> None:
        try:
            event = self.sender.rejected_proofs.next_event(
                row, self.unit.bodies.get(row.object_id), self._rejected_in_clear
            )
        except NotYours as error:
            self.note_violation(error, str(row.lk0))
        else:
            if event is SenderEvent.resend:
                self.apply_event(row, event, "the receiver does not accept the proof of the copy")
            elif event is not None:
                self.apply_event(row, event, reason=record.reason, cause=record.reason)

    def _keep(self, record: Receipt, place: int) -> str:
        """Store the packet's signature once; return the ledger's text about this receipt, empty if unsigned."""
        if self.proof is None:
            return ""
        if self._kept is None:
            signature, leaves = self.proof.signature, self.proof.leaves
            self._kept = KeptReceipts(self.core.new_id(), str(self.source), signature, leaves)
            self.unit.rare_changes.append(self._kept)
        position = "" if not self.proof.binds_place else f", position {'none' if record.sid < 0 else record.sid}"
        stated_at = moment_text(record.at, exact=True)
        return f"receipt {self._kept.number}, entry {place}{position}, stated at {stated_at}"

    def _note(self, row: Outbound, record: Receipt) -> None:
        if not self.is_hub(row):
            return
        if record.flag is HubFlag.STORED:
            if record.lk1 is not None:
                note_custody(self, row, LK1(*record.lk1), record.void)
        elif record.flag is HubFlag.REFUSED:
            self._refused(row, record, record.reason or (UnknownTarget.code, "refused by the hub"))
        elif record.flag is not None and record.att == row.att:
            self.apply_event(row, NOTES[record.flag], reason=record.reason)

    def _note_unkept(self, lk0: LK0, flag: HubFlag) -> None:
        """Report once that the hub has forwarded or stored a document without a row."""
        kind, row = UNKEPT_EVENTS.get(flag), self.sender.rows.unkept.get(lk0.object_id)
        if kind is not None and row is not None and row.lk0 == lk0 and self.is_hub(row):
            self._unkept.append(lk0.object_id)
            self.core.prepare_row_event(self.unit, kind, row, self.after.events, self.after.at)

    def _returned(self, row: Outbound | None, lk0: LK0, record: Receipt, lk1: LK1) -> None:
        """S15: process the refusal of a copy, also if the row is gone."""
        if row is None or self.is_hub(row):
            reason = record.reason or (RefusedByOperator.code, "refused at the hub")
            self.apply_event(row, refusal_event(row, record), " ".join(reason), reason, ReturnedCopy(lk0, lk1, reason))

    def _refused(self, row: Outbound, record: Receipt, reason: Reason) -> None:
        """End the message if the refused copy is the only one; otherwise let a marker decide (PROTOCOL.md section 18).

        A message that an operator has given up ends UNKNOWN if the hub no longer knows the target.
        """
        is_sent = row.ss_status is not SendStatus.SS_INIT  # a marker gets its own attempt number when it is sent
        if is_sent and record.att == row.att and is_given_up(row) and reason[0] == UnknownTarget.code:
            self.apply_event(row, SenderEvent.give_up, reason=no_target(row))
        elif record.att != row.att or row.void:
            self.unit.ledger.append(self.core.line(Side.SENDER, Event.REFUSED, row, " ".join(reason)))
        elif self._is_only_copy(row, reason):
            self.apply_event(row, SenderEvent.refused, reason=reason)
        elif row.save_fwd is not SaveFwd.MUST:
            self.apply_event(row, SenderEvent.give_up, reason=(reason[0], f"{reason[1]} {EARLIER_COPY}"))
        elif row.has_payload:
            self.apply_event(row, SenderEvent.refused_again, cause=reason)

    def _is_only_copy(self, row: Outbound, reason: Reason) -> bool:
        """Whether nobody can have recorded another copy, and no later document can wait for this position (rule N24).

        A row that was restored from a backup may have been sent more often than ``att`` says. If the hub does not know
        the target, it would refuse a marker for the position, too.
        """
        if row.att != 1 or row.lk0.inc != self.core.inc:
            return False
        return not (row.save_fwd is SaveFwd.MUST and row.order_key) or reason[0] == UnknownTarget.code

    def apply(self) -> None:
        for object_id in self._rejected_in_clear:
            self.sender.rejected_proofs.note(object_id)
        super().apply()
        for object_id in self._unkept:
            self.sender.rows.unkept.pop(object_id, None)
        for lk0, lk1, _ in self.after.returns:
            receipt = Receipt(
                src_semq_id=lk1.semq_id, src_semq_db_id=lk1.semq_db_id, src_ref_id=lk1.object_id,
                ack_flag=AckFlag.TRANSPORT, ident=str(lk0),
            )  # fmt: skip
            self.core.mail.add(self.source, Function.RECEIPTS, Primitive.RESPONSE, receipt)


def no_target(row: Outbound) -> Reason:
    """Return the reason of a given-up message whose target the hub no longer knows."""
    if row.reason is not None and says_returned(row.reason):
        return row.reason[0], f"{row.reason[1]}. {NO_TARGET_KNOWN}"
    return UnknownTarget.code, NO_TARGET


def is_given_up(row: Outbound) -> bool:
    """Whether an operator has given up a message of class 3 whose marker is under way."""
    cancelled = row.void and row.reason is not None and row.reason[0] in (Cancelled.code, RefusedByOperator.code)
    return cancelled and row.ss_status is SendStatus.SS_SENT and row.save_fwd is SaveFwd.MUST and row.outcome is None


def note_custody(statements: Statements, row: Outbound, lk1: LK1, void: bool) -> None:
    """S4: note custody of the hub, unless the hub has the payload and the row has become a void marker."""
    if row.void and not void:
        return
    statements.sender.away_since.pop(row.object_id, None)
    statements.apply_event(row, SenderEvent.save, f"copy {lk1}", cause=lk1)


# -------------------------------------------------------------------------------------------------------- answers


class _Answers(Statements):
    def __init__(self, sender: Sender, speaker: SpeakingNode, unit: Unit, faults: Iterable[Fault]) -> None:
        super().__init__(sender, speaker, unit, faults)
        self._negatives: Counter[int] = Counter()  #: negative answers by row of class 1 or 2
        self._lost: list[LK1] = []  #: lost copies

    def process(self, lk0: LK0, record: Inquiry) -> None:
        row, answer = self.row(lk0), record.effective_answer
        if row is None or answer is None:
            return
        self.sender.inquiry_counts.pop(row.object_id, None)
        if answer in ARRIVAL_BY_ANSWER:
            self._arrival(row, lk0, record, ARRIVAL_BY_ANSWER[answer])
        elif answer is Answer.CUSTODY:
            if record.lk1 is not None and self.is_hub(row):
                note_custody(self, row, LK1(*record.lk1), record.void)
        elif record.nonce == self.sender.nonces.get(row.object_id):
            self._negative(row, lk0, record, answer)

    def _arrival(self, row: Outbound, lk0: LK0, record: Inquiry, ending: Arrival) -> None:
        if not self.is_target(row, lk0) or not self.names_position(row, record.sid):
            return
        if self.is_same(row, ending, record.digest):
            self.apply_event(row, EVENT_OF_ARRIVAL[ending], reason=record.reason)
        elif self.proof and row.has_payload and record.nonce == self.sender.nonces.get(row.object_id):
            # Send it again: the repeated document is signed, so it replaces the unsigned one at the receiver.
            self.apply_event(row, SenderEvent.not_here, "the receiver has other bytes in its place")

    def _negative(self, row: Outbound, lk0: LK0, record: Inquiry, answer: Answer) -> None:
        if row.save_fwd is not SaveFwd.MUST:
            self._count_negative(row)
            return
        self._note_loss(row, answer)
        if answer is Answer.NOT:
            is_meant = self.is_target(row, lk0) and self.names_position(row, record.sid)
            if not is_meant or self.sender.rejected_proofs.is_delayed(row):
                return
            if row.has_payload or row.void:
                self.apply_event(row, SenderEvent.not_here, "NOT")
            elif row.ss_status in UNDER_WAY and row.custodian is not None:
                note_custody(self, row, row.custodian, void=False)  # S16 sent a signature only: ask the custodian next
            elif row.ss_status is SendStatus.SS_ACK:
                self.apply_event(row, SenderEvent.not_here_bare, "NOT")
        elif not self.is_hub(row):
            return
        elif answer is Answer.GONE:
            if record.lk1 is not None and row.custodian == LK1(*record.lk1):
                self.apply_event(row, SenderEvent.gone)
        elif answer is Answer.UNAVAIL:
            self._unavailable(row)
        elif answer is Answer.OFFLINE and (row.has_payload or row.void):
            self.apply_event(row, SenderEvent.offline, "OFFLINE")

    def _note_loss(self, row: Outbound, answer: Answer) -> None:
        """Note a copy as lost if the custodian has denied it, and the target has not recorded it or is offline."""
        is_unrecorded = (answer is Answer.NOT and row.target.node == self.source) or answer is Answer.OFFLINE
        if is_unrecorded and row.custodian is not None and row.object_id in self.sender.rows.doubts:
            self._lost.append(row.custodian)

    def _unavailable(self, row: Outbound) -> None:
        """S7: after T_cust, note that the custodian is away if the message can be sent again (rule N27)."""
        since = self.sender.away_since.setdefault(row.object_id, self.core.now())
        if self.core.now() - since >= self.core.settings.custody_silence_s and (row.has_payload or row.void):
            self.apply_event(row, SenderEvent.unavail)

    def _count_negative(self, row: Outbound) -> None:
        if row.outcome is not None:
            return
        self._negatives[row.object_id] += 1
        count = self.sender.negative_answers[row.object_id] + self._negatives[row.object_id]
        if count >= self.core.settings.give_up_after:
            self.apply_event(row, SenderEvent.give_up, f"{count} inquiries")

    def apply(self) -> None:
        self.sender.negative_answers.update(self._negatives)
        for custodian in self._lost:
            self.sender.lost_copy(custodian)
        super().apply()
