"""What is heard about own rows: receipts, answers, and the questions of receivers (PROTOCOL.md section 5.1).

Posted by ``sender``. Whoever speaks must be the one who can know: the receiver of the message, or the platform.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from semq.engine.core import Step
from semq.engine.errors import Cancelled, Mismatch, NotYours, RefusedByOperator, UnknownTarget
from semq.engine.ports import Believed
from semq.engine.sender.deeds import AfterOutbound, ReceiverEvidence
from semq.engine.sender.disbelief import is_put_off, is_unbelieved, unbelieved
from semq.engine.sender.outbound import NEWS, is_open
from semq.engine.sender.refused_copies import news_of, says_returned
from semq.engine.sender.resealing import REFUSALS
from semq.errors import SemqError
from semq.moments import moment_text
from semq.store.rows import Event, KeptReceipts, Outbound, OutStreamKey, Reason, Side
from semq.store.unit import StreamsTo, Unit
from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Primitive
from semq.umx_t.grids import Heard
from semq.umx_t.locator import LK0, LK1, Pos, parse_lk0, parse_pos
from semq.umx_t.records import ARRIVAL_BY_ANSWER, AckFlag, Answer, HubFlag, Inquiry, Receipt, Role
from semq.umx_t.status import Arrival, SaveFwd, SendStatus

if TYPE_CHECKING:
    from semq.engine.sender.sender import Sender

NOBODY_KNOWS = "The platform knows no such target any more: nobody can tell whether it had arrived."
NO_TARGET = f"Cancelled. {NOBODY_KNOWS}"
# Notes of the platform, as news; each must name the attempt that it speaks of.
NOTES = {
    HubFlag.FORWARDED: Heard.fwd,
    HubFlag.FORWARD_FAILED: Heard.fwd_failed,
    HubFlag.DISCARDED: Heard.discarded,
}
# The same of what was sent without a row (@Ack2=0), as events.
UNKEPT_TOLD = {HubFlag.FORWARDED: "forwarded", HubFlag.STORED: "stored"}


class _OwnRows(Step):
    """Work on our own rows, found by the LK0 in each record; unreadable and foreign ones are violations."""

    def __init__(self, sender: "Sender", source: Address, believed: Believed | None) -> None:
        super().__init__()
        self._sender = sender
        self._core = sender.core
        self._source = source
        self._believed = believed
        self._bad: list[tuple[str, SemqError]] = []

    def _find(self, ident: str) -> LK0 | None:
        """The locator of a record about one of our rows; None (and a violation) if it cannot be ours."""
        try:
            lk0 = parse_lk0(ident)
            if lk0.store != self._core.home:
                raise NotYours(
                    "A record names a message that was not accepted here.", lk0=ident, peer=str(self._source)
                )
        except SemqError as error:
            self._bad.append((ident, error))
            return None
        self.needs.outbound.add(lk0.object_id)
        return lk0

    def _begin(self, unit: Unit) -> None:
        self._after = AfterOutbound(self._core.now_ms())
        for ident, error in self._bad:
            self._core.violation(unit, Side.SENDER, error, ident, str(self._source))

    def _row(self, unit: Unit, lk0: LK0) -> Outbound | None:
        """The row of a message, if it is still here and the very same (rule N6)."""
        row = unit.outbound.get(lk0.object_id)
        return row if row is not None and row.lk0 == lk0 else None

    def _is_target(self, unit: Unit, row: Outbound | None, lk0: LK0) -> bool:
        """Only the receiver may speak about the arrival of a message."""
        if row is None or row.target.node == self._source:
            return True
        error = NotYours(lk0=str(lk0), peer=str(self._source), target=str(row.target))
        self._core.violation(unit, Side.SENDER, error, str(lk0), str(self._source))
        return False

    def _is_placed(self, unit: Unit, row: Outbound | None, sid: int) -> bool:
        """Whether the receiver speaks of the position that this message has: what it has signed about another one was
        asked of it, or shown to it, under this message's name."""
        if row is None or row.sid == sid or (sid < 0 and (self._believed is None or not self._believed.binds_place)):
            return True
        error = NotYours(
            "The receiver speaks of another position.", lk0=str(row.lk0), peer=str(self._source), sid=sid, ours=row.sid
        )
        self._core.violation(unit, Side.SENDER, error, str(row.lk0), str(self._source))
        return False

    def _is_same(self, unit: Unit, row: Outbound | None, ending: Arrival, digest: str) -> bool:
        """Whether the receiver has the document that we sent, and not one that somebody put in its place."""
        if row is None or not is_open(row) or ending is not Arrival.RECV or not digest or not row.digest:
            return True
        if digest == row.digest.hex():
            return True
        error = Mismatch("The receiver has other bytes.", lk0=str(row.lk0), sent=row.digest.hex(), there=digest)
        self._core.violation(unit, Side.SENDER, error, str(row.lk0), str(self._source))
        return False

    def _is_hub(self, unit: Unit, row: Outbound) -> bool:
        """Only the platform may speak of custody and forwarding."""
        if self._sender.hub == self._source:
            return True
        error = NotYours("Not the platform, yet it speaks as one.", lk0=str(row.lk0), peer=str(self._source))
        self._core.violation(unit, Side.SENDER, error, str(row.lk0), str(self._source))
        return False

    def _hear(
        self,
        unit: Unit,
        row: Outbound | None,
        news: Heard,
        detail: str = "",
        reason: Reason | None = None,
        cause: Any = None,
    ) -> None:
        try:
            self._sender.rows.hear(unit, row, news, self._after, detail, reason, cause)
        except SemqError as error:
            self._core.violation(unit, Side.SENDER, error, str(row.lk0) if row is not None else "", str(self._source))

    def committed(self) -> None:
        for end in self._after.settled:
            self._sender.forget(end.row)
        self._sender.rows.apply(self._after)
        refused = {end.row.dest for end in self._after.settled if end.code in REFUSALS}
        for dest in refused:
            self._sender.rewrapping.look(dest)


class _ReAck2(_OwnRows):
    """Work that is answered with ReAck2: it carries the floors of the streams to the asker (rules N16, N25)."""

    def __init__(self, sender: "Sender", source: Address, believed: Believed | None) -> None:
        super().__init__(sender, source, believed)
        self._streams = StreamsTo(str(source))
        self.needs.queries.add(self._streams)

    def _begin(self, unit: Unit) -> None:
        super()._begin(unit)
        self._next = {stream.key: stream.next_sid for stream in unit.found.get(self._streams, ())}
        self._next |= {
            key: stream.next_sid for key, stream in unit.out_streams.items() if key.dest == str(self._source)
        }

    def _reply(self) -> None:
        told: set[int] = set()
        for lk0, bref, prev in self._after.evidence:
            floors = {}
            for inc in {lk0.inc} | ({prev.inc} if prev else set()):
                if inc not in told:
                    told.add(inc)
                    floors[f"{inc:x}"] = self._floor(inc)
            receipt = Receipt(
                src_semq_id=lk0.semq_id, src_semq_db_id=lk0.semq_db_id, src_ref_id=lk0.object_id,
                dest_ref_id=bref, ack_flag=AckFlag.END_TO_END, ident=str(lk0), floors=floors or None,
            )  # fmt: skip
            self._core.mail.add(self._source, Function.RECEIPTS, Primitive.RESPONSE, receipt)

    def _floor(self, inc: int) -> tuple[int, int | None]:
        """Return the floor of one of our streams and where it was closed, or (0, 0) for an unknown one (break F6)."""
        key = OutStreamKey(str(self._source), inc)
        floor = self._sender.rows.floors.get(key)
        if inc == self._core.inc:
            return (floor.value if floor else 0), None
        next_sid = self._next.get(key)
        if next_sid is None:
            return 0, 0
        return (floor.value if floor else next_sid), next_sid


class HearReceipts(_ReAck2):
    """Ack2 of receivers; notes and refusals of the platform."""

    def __init__(
        self, sender: "Sender", source: Address, placed: Sequence[tuple[int, Receipt]], believed: Believed | None
    ) -> None:
        super().__init__(sender, source, believed)
        self._records = [(place, lk0, record) for place, record in placed if (lk0 := self._find(record.ident))]
        self.needs.bodies |= {
            lk0.object_id for _, lk0, record in self._records if record.flag is HubFlag.REFUSED or is_unbelieved(record)
        }

    def decide(self, unit: Unit) -> None:
        self._begin(unit)
        self._receipts: KeptReceipts | None = None
        self._noted: list[tuple[LK0, LK1]] = []
        self._told_unkept: list[int] = []
        for place, lk0, record in self._records:
            row = self._row(unit, lk0)
            if record.ack_flag is AckFlag.END_TO_END:
                self._ack2(unit, row, lk0, record, place)
            elif record.flag is HubFlag.REFUSED and record.lk1 is not None:
                self._returned(unit, row, lk0, record, LK1(*record.lk1))
            elif row is not None and record.flag is not None:
                self._note(unit, row, record)
            elif row is None and record.flag is not None:
                self._tell_unkept(unit, lk0, record.flag)

    def _ack2(self, unit: Unit, row: Outbound | None, lk0: LK0, record: Receipt, place: int) -> None:
        ending = ARRIVAL_BY_ANSWER.get(record.status) if record.status else None
        if not self._is_target(unit, row, lk0) or not self._is_placed(unit, row, record.sid):
            return
        if row is not None and is_unbelieved(record):
            unbelieved(self, unit, row, record)
        if ending is None or not self._is_same(unit, row, ending, record.digest):
            return
        is_news = row is not None and is_open(row)
        detail = self._keep(unit, record, place) if is_news and ending is Arrival.RECV else ""
        reason = record.reason if ending is Arrival.REJ else None
        self._hear(unit, row, NEWS[ending], detail, reason, ReceiverEvidence(lk0, record.dest_ref_id))

    def _keep(self, unit: Unit, record: Receipt, place: int) -> str:
        """Keep the signature of the packet once; the ledger line says where in it this receipt stands."""
        if self._believed is None:
            return ""
        if self._receipts is None:
            believed = self._believed
            self._receipts = KeptReceipts(self._core.new_id(), str(self._source), believed.signature, believed.leaves)
            unit.rare.append(self._receipts)
        bound = f" sid {record.sid}" if self._believed.binds_place else ""
        return f"receipt {self._receipts.number} place {place}{bound} stated at {moment_text(record.at, exact=True)}"

    def _note(self, unit: Unit, row: Outbound, record: Receipt) -> None:
        if not self._is_hub(unit, row):
            return
        if record.flag is HubFlag.STORED:
            if record.lk1 is not None:
                custody(self, unit, row, LK1(*record.lk1), record.void)
        elif record.flag is HubFlag.REFUSED:
            self._refused(unit, row, record, record.reason or (UnknownTarget.code, "refused by the platform"))
        elif record.flag is not None and record.att == row.att:
            self._hear(unit, row, NOTES[record.flag], reason=record.reason)

    def _tell_unkept(self, unit: Unit, lk0: LK0, flag: HubFlag) -> None:
        """Tell what the platform did with a document that left no row; once, and only in this life of the process."""
        kind, rows = UNKEPT_TOLD.get(flag), self._sender.rows
        row = rows.unkept.get(lk0.object_id)
        if kind is not None and row is not None and row.lk0 == lk0 and self._is_hub(unit, row):
            self._told_unkept.append(lk0.object_id)
            self._core.tell(unit, kind, row, self._after.events, self._after.at)

    def _returned(self, unit: Unit, row: Outbound | None, lk0: LK0, record: Receipt, lk1: LK1) -> None:
        """S15: always answered, also when the row is gone, so that the platform may forget its copy."""
        if row is not None:
            if not self._is_hub(unit, row):
                return
            news = news_of(row, record)
            if news is not None:
                reason = record.reason or (RefusedByOperator.code, "refused at the platform")
                self._hear(unit, row, news, " ".join(reason), reason, reason)
        self._noted.append((lk0, lk1))

    def _refused(self, unit: Unit, row: Outbound, record: Receipt, reason: Reason) -> None:
        """Section 18: the refusal ends the only copy ever sent; before a later one an earlier may have arrived.

        Then only the receiver can tell. So too in an order: what follows waits for a marker in its place (break F3).
        Where there is no receiver to take the marker, what a person has cancelled ends UNKNOWN, which no record of a
        target that comes back can contradict.
        """
        is_sent = row.ss_status is not SendStatus.SS_INIT  # a marker has an attempt of its own when it is sent
        if is_sent and record.att == row.att and is_given_up(row) and reason[0] == UnknownTarget.code:
            self._hear(unit, row, Heard.give_up, reason=no_target(row))
        elif record.att != row.att or row.void:
            unit.ledger.append(self._core.line(Side.SENDER, Event.REFUSED, row, " ".join(reason)))
        elif self._is_only_copy(row, reason):
            self._hear(unit, row, Heard.refused, reason=reason)
        elif row.has_payload:
            self._hear(unit, row, Heard.refused_again, cause=reason)

    def _is_only_copy(self, row: Outbound, reason: Reason) -> bool:
        """Whether the refused copy is the first that ever left, and nothing in an order waits for its place.

        A row of an earlier life may have been put back by a backup, after it was sent: its attempts prove nothing.
        What has no receiver cannot have been recorded by it; classes 1 and 2 have no markers that could race.
        """
        if row.att != 1:
            return False
        if row.save_fwd is not SaveFwd.MUST or reason[0] == UnknownTarget.code:
            return True
        return row.lk0.inc == self._core.inc and not row.order_key

    def committed(self) -> None:
        super().committed()
        self._reply()
        for object_id in self._told_unkept:
            self._sender.rows.unkept.pop(object_id, None)
        for lk0, lk1 in self._noted:
            receipt = Receipt(
                src_semq_id=lk1.semq_id, src_semq_db_id=lk1.semq_db_id, src_ref_id=lk1.object_id,
                ack_flag=AckFlag.TRANSPORT, ident=str(lk0),
            )  # fmt: skip
            self._core.mail.add(self._source, Function.RECEIPTS, Primitive.RESPONSE, receipt)


def no_target(row: Outbound) -> Reason:
    """Why a message that a person has given up ends UNKNOWN."""
    if row.reason is not None and says_returned(row.reason):
        return row.reason[0], f"{row.reason[1]}. {NOBODY_KNOWS}"
    return UnknownTarget.code, NO_TARGET


def is_given_up(row: Outbound) -> bool:
    """Whether a person here or at the platform has given a message up, and its marker is on the way."""
    cancelled = row.void and row.reason is not None and row.reason[0] in (Cancelled.code, RefusedByOperator.code)
    return cancelled and row.ss_status is SendStatus.SS_SENT and row.save_fwd is SaveFwd.MUST and row.outcome is None


def custody(work: _OwnRows, unit: Unit, row: Outbound, lk1: LK1, void: bool) -> None:
    """S4: a platform store holds a copy; that of the payload is no news for a row that has become a void marker."""
    if row.void and not void:
        return
    work._sender.away_since.pop(row.object_id, None)
    work._hear(unit, row, Heard.save, f"copy {lk1}", cause=lk1)


class HearAnswers(_OwnRows):
    """Answers to our inquiries."""

    def __init__(
        self, sender: "Sender", source: Address, records: Sequence[Inquiry], believed: Believed | None
    ) -> None:
        super().__init__(sender, source, believed)
        self._records = [(lk0, record) for record in records if (lk0 := self._find(record.ident))]
        self.needs.bodies |= {lk0.object_id for lk0, record in self._records if record.graded is Answer.NOT}

    def decide(self, unit: Unit) -> None:
        self._begin(unit)
        for lk0, record in self._records:
            row = self._row(unit, lk0)
            if row is not None and (answer := record.graded) is not None:
                self._sender.asked.pop(row.object_id, None)
                self._answer(unit, row, lk0, record, answer)

    def _answer(self, unit: Unit, row: Outbound, lk0: LK0, record: Inquiry, answer: Answer) -> None:
        if answer in ARRIVAL_BY_ANSWER:
            ending = ARRIVAL_BY_ANSWER[answer]
            if not self._is_target(unit, row, lk0) or not self._is_placed(unit, row, record.sid):
                return
            if self._is_same(unit, row, ending, record.digest):
                self._hear(unit, row, NEWS[ending], reason=record.reason)
            elif self._believed and row.has_payload and record.nonce == self._sender.nonces.get(row.object_id):
                # Sent again, proved: what stands in its place without a proof gives way to it.
                self._hear(unit, row, Heard.not_here, "the receiver has other bytes in its place")
        elif answer is Answer.CUSTODY:
            if record.lk1 is not None and self._is_hub(unit, row):
                custody(self, unit, row, LK1(*record.lk1), record.void)
        elif record.nonce == self._sender.nonces.get(row.object_id):
            self._no(unit, row, lk0, record, answer)

    def _no(self, unit: Unit, row: Outbound, lk0: LK0, record: Inquiry, answer: Answer) -> None:
        """A negative answer: it counts only from who may give it, and only for the last inquiry (rule N28)."""
        if row.save_fwd is not SaveFwd.MUST:
            self._count_silence(unit, row)
        elif answer is Answer.NOT:
            is_meant = self._is_target(unit, row, lk0) and self._is_placed(unit, row, record.sid)
            if is_meant and not is_put_off(self._sender, row):
                self._hear(unit, row, Heard.not_here if row.has_payload or row.void else Heard.not_here_bare, "NOT")
        elif not self._is_hub(unit, row):
            return
        elif answer is Answer.GONE:
            if record.lk1 is not None and row.custodian == LK1(*record.lk1):
                self._hear(unit, row, Heard.gone)
        elif answer is Answer.UNAVAIL:
            self._unavailable(unit, row)
        elif answer is Answer.OFFLINE and (row.has_payload or row.void):
            self._hear(unit, row, Heard.offline, "OFFLINE")

    def _unavailable(self, unit: Unit, row: Outbound) -> None:
        """S7: only after T_cust, and only while we could send the payload again (rule N27)."""
        since = self._sender.away_since.setdefault(row.object_id, self._core.now())
        if self._core.now() - since >= self._core.settings.custody_silence_s and (row.has_payload or row.void):
            self._hear(unit, row, Heard.unavail)

    def _count_silence(self, unit: Unit, row: Outbound) -> None:
        count = self._sender.unanswered.get(row.object_id, 0) + 1
        self._sender.unanswered[row.object_id] = count
        if count >= self._core.settings.give_up_after:
            self._hear(unit, row, Heard.give_up, f"{count} inquiries")


class HearRoleR(_ReAck2):
    """Inquiries of receivers, each of which is evidence that it has the message."""

    def __init__(
        self, sender: "Sender", source: Address, records: Sequence[Inquiry], believed: Believed | None
    ) -> None:
        super().__init__(sender, source, believed)
        self._records = []
        for record in records:
            lk0 = self._find(record.ident)
            prev = self._prev(record)
            if lk0 is not None and record.role is Role.R:
                self._records.append((lk0, record, prev))

    def _prev(self, record: Inquiry) -> Pos | None:
        try:
            return parse_pos(record.prev) if record.prev else None
        except SemqError as error:
            self._bad.append((record.ident, error))
            return None

    def decide(self, unit: Unit) -> None:
        self._begin(unit)
        for lk0, record, prev in self._records:
            row = self._row(unit, lk0)
            ending = ARRIVAL_BY_ANSWER.get(record.status) if record.status else None
            if ending is None or not self._is_target(unit, row, lk0) or not self._is_placed(unit, row, record.sid):
                continue
            if not self._is_same(unit, row, ending, record.digest):
                continue
            evidence = ReceiverEvidence(lk0, record.dest_ref_id, prev)
            self._hear(unit, row, NEWS[ending], reason=record.reason, cause=evidence)

    def committed(self) -> None:
        super().committed()
        self._reply()
