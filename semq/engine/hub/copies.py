"""What others say and ask about copies in a platform store: Acks, answers, inquiries (PROTOCOL.md section 5.2, H6–H12).

Posted by ``custody``, which keeps away what names a copy in another store (``stores``). Whoever speaks must name the
copy by LK1 and the message by its identity; both must fit the row.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from semq.engine.core import Core, Step
from semq.engine.errors import NotYours
from semq.engine.sender.refused_copies import says_returned
from semq.store.rows import Event, Outbound, Side
from semq.store.unit import Unit
from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Primitive
from semq.umx_t.grids import HUB, Held, HubDeed, HubHeard
from semq.umx_t.locator import LK1
from semq.umx_t.records import ARRIVAL_BY_ANSWER, AckFlag, Answer, Inquiry, Receipt
from semq.umx_t.status import SendStatus

if TYPE_CHECKING:
    from semq.engine.hub.custody import Holding, Notice

HELD = {SendStatus.SS_INIT: Held.SS_INIT, SendStatus.SS_SENT: Held.SS_SENT}
STATUS = {Held.SS_INIT: SendStatus.SS_INIT, Held.SS_SENT: SendStatus.SS_SENT}


def standing_of(row: Outbound) -> Held:
    """The column of the grid where a row stands."""
    return Held.REFUSED if row.held and says_returned(row.reason) else HELD[row.ss_status]


def reack(core: Core, source: Address, lk1: LK1, ident: str, bref: int) -> None:
    """Mail ReAck: an Ack about a copy is noted."""
    receipt = Receipt(
        src_semq_id=lk1.semq_id, src_semq_db_id=lk1.semq_db_id, src_ref_id=lk1.object_id, dest_ref_id=bref,
        ack_flag=AckFlag.TRANSPORT, ident=ident,
    )  # fmt: skip
    core.mail.add(source, Function.RECEIPTS, Primitive.RESPONSE, receipt)


class OnCopies(Step):
    """Work on rows of this store that others name by LK1."""

    def __init__(self, holding: "Holding", source: Address) -> None:
        super().__init__()
        self._holding = holding
        self._core = holding.core
        self._source = source
        self._released: list[Outbound] = []
        self._wake: list[Outbound] = []

    def _begin(self) -> None:
        self._released = []
        self._wake = []

    def _want(self, lk1: LK1) -> None:
        self.needs.outbound.add(lk1.object_id)

    def _row(self, unit: Unit, lk1: LK1) -> Outbound | None:
        """The row under the number of a copy in this store; whether it is the same message is for the caller."""
        return unit.outbound.get(lk1.object_id)

    def _hear(self, unit: Unit, row: Outbound, news: HubHeard, detail: str = "") -> None:
        before = row.ss_status
        rule = HUB.step(standing_of(row), news)
        lk1 = str(self._core.lk1(row.object_id))
        if rule.after is Held.ABSENT:
            unit.delete_outbound(row)
            unit.relayed.pop(str(row.lk0), None)
            self._released.append(row)
            unit.ledger.append(self._core.line(Side.HUB, Event.RELEASED, row, detail, lk1=lk1))
        elif rule.after is not standing_of(row):
            row.ss_status = STATUS[rule.after]
            unit.change_outbound(row, before)
            self._wake.append(row)
            unit.ledger.append(self._core.line(Side.HUB, Event.AGAIN, row, detail, lk1=lk1))

    def committed(self) -> None:
        holding = self._holding
        for row in self._released:
            holding.released(row)
        for row in self._wake:
            holding.pump.lane(row.dest).flight.discard(row.object_id)
            holding.pump.wake(row)


class HearAcks(OnCopies):
    """H6: the receiver has it; always answered, whatever is here."""

    def __init__(self, holding: "Holding", source: Address, acks: Sequence[tuple[LK1, str, int]]) -> None:
        super().__init__(holding, source)
        self._acks = acks
        for lk1, _, _ in acks:
            self._want(lk1)

    def decide(self, unit: Unit) -> None:
        self._begin()
        for lk1, ident, _ in self._acks:
            row = self._row(unit, lk1)
            if row is None:
                HUB.step(Held.ABSENT, HubHeard.ack)
                continue
            if str(row.lk0) == ident and row.target.node == self._source:
                self._hear(unit, row, HubHeard.ack)
            else:
                HUB.step(standing_of(row), HubHeard.ack_other)
                self._core.count("ack_other")
                error = NotYours("An Ack names another message than the row.", lk1=str(lk1), peer=str(self._source))
                self._core.violation(unit, Side.HUB, error, ident, str(self._source))

    def committed(self) -> None:
        super().committed()
        # Always answered: also when the row is gone, or was never here (rule R16).
        for lk1, ident, bref in self._acks:
            reack(self._core, self._source, lk1, ident, bref)


class HearNoted(OnCopies):
    """H17: a sender knows that its copies were refused; others, and other rows, are none of its business."""

    def __init__(self, holding: "Holding", source: Address, noted: Sequence[tuple[LK1, str]]) -> None:
        super().__init__(holding, source)
        self._noted = noted
        for lk1, _ in noted:
            self._want(lk1)

    def decide(self, unit: Unit) -> None:
        self._begin()
        for lk1, ident in self._noted:
            row = self._row(unit, lk1)
            if row is None or str(row.lk0) != ident or row.lk0.node != self._source:
                HUB.step(Held.ABSENT, HubHeard.noted)
            else:
                self._hear(unit, row, HubHeard.noted, "its sender has noted the refusal")


class _OnNamedCopies(OnCopies):
    """Inquiries and answers about the copies that they name."""

    def __init__(self, holding: "Holding", source: Address, records: Sequence[tuple[LK1, Inquiry]]) -> None:
        super().__init__(holding, source)
        self._records = records
        for lk1, _ in records:
            self._want(lk1)


class HearAnswers(_OnNamedCopies):
    """H11 and H12: the receiver answers."""

    def decide(self, unit: Unit) -> None:
        self._begin()
        for lk1, record in self._records:
            row = self._row(unit, lk1)
            if row is not None and (str(row.lk0) != record.ident or row.target.node != self._source):
                error = NotYours("An answer names another message than the row.", lk1=str(lk1), peer=str(self._source))
                self._core.violation(unit, Side.HUB, error, record.ident, str(self._source))
                continue
            answer = record.graded
            news = HubHeard.held if answer in ARRIVAL_BY_ANSWER else HubHeard.not_here
            if row is None:
                HUB.step(Held.ABSENT, news)
                continue
            if news is HubHeard.held or (answer is Answer.NOT and record.nonce == row.att):
                self._hear(unit, row, news, answer.name if answer else "")


class AnswerCustody(_OnNamedCopies):
    """H9: is the copy still here?"""

    def decide(self, unit: Unit) -> None:
        self._answers: list[tuple[Inquiry, Answer, LK1, bool]] = []
        self._refused: list[Notice] = []
        for lk1, record in self._records:
            row = self._row(unit, lk1)
            if row is not None and str(row.lk0) == record.ident:
                if HUB.step(standing_of(row), HubHeard.inquired).deed is HubDeed.refuse:
                    self._refused.append(self._holding.refusal(row))
                else:
                    self._answers.append((record, Answer.CUSTODY, lk1, row.void))
            else:
                HUB.step(Held.ABSENT, HubHeard.inquired)
                self._answers.append((record, Answer.GONE, lk1, False))

    def committed(self) -> None:
        for record, answer, lk1, void in self._answers:
            self._holding.answer(self._source, record, answer, lk1, void=void)
        self._holding.tell(self._refused)


class AnswerOrPassOn(Step):
    """H7 and H8 where the store may hold copies for the target."""

    def __init__(self, holding: "Holding", source: Address, target: Address, records: Sequence[Inquiry]) -> None:
        super().__init__()
        self._holding = holding
        self._source = source
        self._target = target
        self._records = records
        self.needs.relayed.update(record.ident for record in records)

    def decide(self, unit: Unit) -> None:
        self._held: list[tuple[Inquiry, int, bool]] = []
        self._refused: list[Notice] = []
        self._rest: list[Inquiry] = []
        for record in self._records:
            row = unit.relayed.get(record.ident)
            if row is None:
                self._rest.append(record)
            elif HUB.step(standing_of(row), HubHeard.inquired).deed is HubDeed.refuse:
                self._refused.append(self._holding.refusal(row))
            else:
                self._held.append((record, row.object_id, row.void))

    def committed(self) -> None:
        holding = self._holding
        for record, object_id, void in self._held:
            holding.answer(self._source, record, Answer.CUSTODY, holding.core.lk1(object_id), void=void)
        holding.tell(self._refused)
        if self._rest:
            holding.pass_on(self._source, self._target, self._rest)
