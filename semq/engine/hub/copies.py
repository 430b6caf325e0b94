"""What others say and ask about copies in a platform store: Acks, answers, inquiries (PROTOCOL.md section 5.2, H6–H12).

Posted by ``custody``, which keeps away what names a copy in another store (``stores``). Whoever speaks must name the
copy by LK1 and the message by its identity; both must fit the row. What follows is decided in ``deeds``.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from semq.engine.core import Step
from semq.engine.errors import NotYours
from semq.engine.hub.deeds import Ack, AfterCopies, SenderQuestion, apply, hear
from semq.store.rows import Outbound, Side
from semq.store.unit import Unit
from semq.umx_t.address import Address
from semq.umx_t.grids import Held, HubHeard
from semq.umx_t.locator import LK1
from semq.umx_t.records import ARRIVAL_BY_ANSWER, Answer, Inquiry

if TYPE_CHECKING:
    from semq.engine.hub.custody import Holding


class OnCopies(Step):
    """Work on rows of this store."""

    def __init__(self, holding: "Holding", rows: Iterable[int]) -> None:
        super().__init__()
        self._holding = holding
        self._core = holding.core
        self.needs.outbound.update(rows)

    def decide(self, unit: Unit) -> None:
        self._after = AfterCopies()
        self._look(unit)

    def _look(self, unit: Unit) -> None:
        raise NotImplementedError

    def _hear(self, unit: Unit, row: Outbound | None, news: HubHeard, cause: Any = None, detail: str = "") -> Held:
        return hear(self._holding, unit, row, news, self._after, cause, detail)

    def committed(self) -> None:
        apply(self._holding, self._after)


class _FromPeer(OnCopies):
    """What a node says of copies that it names by LK1."""

    def __init__(self, holding: "Holding", source: Address, named: Iterable[LK1]) -> None:
        super().__init__(holding, (lk1.object_id for lk1 in named))
        self._source = source

    def _violation(self, unit: Unit, lk1: LK1, ident: str, what: str) -> None:
        error = NotYours(f"{what} names another message than the row.", lk1=str(lk1), peer=str(self._source))
        self._core.violation(unit, Side.HUB, error, ident, str(self._source))


class HearAcks(_FromPeer):
    """H6: the receiver has it; always answered, whatever is here (rule N16)."""

    def __init__(self, holding: "Holding", source: Address, acks: Sequence[Ack]) -> None:
        super().__init__(holding, source, (ack.lk1 for ack in acks))
        self._acks = acks

    def _look(self, unit: Unit) -> None:
        for ack in self._acks:
            row = unit.outbound.get(ack.lk1.object_id)
            if row is None or (str(row.lk0) == ack.ident and row.target.node == self._source):
                self._hear(unit, row, HubHeard.ack, ack)
            else:
                self._hear(unit, row, HubHeard.ack_other, ack)
                self._core.count("ack_other")
                self._violation(unit, ack.lk1, ack.ident, "An Ack")


class HearNoted(_FromPeer):
    """H17: a sender knows that its copies were refused; others, and other rows, are none of its business."""

    def __init__(self, holding: "Holding", source: Address, noted: Sequence[tuple[LK1, str]]) -> None:
        super().__init__(holding, source, (lk1 for lk1, _ in noted))
        self._noted = noted

    def _look(self, unit: Unit) -> None:
        for lk1, ident in self._noted:
            row = unit.outbound.get(lk1.object_id)
            if row is not None and (str(row.lk0) != ident or row.lk0.node != self._source):
                row = None
            self._hear(unit, row, HubHeard.noted, detail="its sender has noted the refusal")


class _OnNamedCopies(_FromPeer):
    """Inquiries and answers about the copies that they name."""

    def __init__(self, holding: "Holding", source: Address, records: Sequence[tuple[LK1, Inquiry]]) -> None:
        super().__init__(holding, source, (lk1 for lk1, _ in records))
        self._records = records


class HearCopyAnswers(_OnNamedCopies):
    """H11 and H12: the receiver answers."""

    def _look(self, unit: Unit) -> None:
        for lk1, record in self._records:
            row, answer = unit.outbound.get(lk1.object_id), record.graded
            if row is not None and (str(row.lk0) != record.ident or row.target.node != self._source):
                self._violation(unit, lk1, record.ident, "An answer")
            elif answer in ARRIVAL_BY_ANSWER:
                self._hear(unit, row, HubHeard.held, detail=answer.name)
            elif row is None or (answer is Answer.NOT and record.nonce == row.att):
                self._hear(unit, row, HubHeard.not_here, detail=Answer.NOT.name)


class AnswerCustody(_OnNamedCopies):
    """H9: is the copy still here?"""

    def _look(self, unit: Unit) -> None:
        for lk1, record in self._records:
            row = unit.outbound.get(lk1.object_id)
            is_meant = row is not None and str(row.lk0) == record.ident
            self._hear(unit, row if is_meant else None, HubHeard.asked, SenderQuestion(self._source, record, lk1))


class AnswerOrPassOn(OnCopies):
    """H7 and H8 where the store may hold copies for the target."""

    def __init__(self, holding: "Holding", source: Address, target: Address, records: Sequence[Inquiry]) -> None:
        super().__init__(holding, ())
        self._source = source
        self._target = target
        self._records = records
        self.needs.relayed.update(record.ident for record in records)

    def _look(self, unit: Unit) -> None:
        for record in self._records:
            self._hear(unit, unit.relayed.get(record.ident), HubHeard.inquired, SenderQuestion(self._source, record))

    def committed(self) -> None:
        super().committed()
        if self._after.rest:
            self._holding.pass_on(self._source, self._target, self._after.rest)
