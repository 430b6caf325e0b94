"""Acks, answers and inquiries about copies in the hub's store (PROTOCOL.md section 5.2, H6-H12, H17).

Inquiries of H7 and H8 name the message only. All other records name the copy by LK1 and the message by its identity,
and both must fit the row.
"""

from collections.abc import Sequence
from functools import partial

from semq.engine.errors import NotYours
from semq.engine.hub.custody import Custody
from semq.engine.hub.deeds import Ack, AfterCopies, SenderQuestion, answered
from semq.store.rows import Outbound, Side
from semq.store.unit import Needs, Unit
from semq.store.work import COMMITTED, Steps, work
from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Packet, Primitive
from semq.umx_t.grids import HubEvent
from semq.umx_t.locator import LK1
from semq.umx_t.records import ARRIVAL_BY_ANSWER, Answer, Inquiry, Receipt

Named = Sequence[tuple[LK1, Inquiry]]  # records with the copies that they name

NOTED = "its sender has noted the refusal"  # detail of the line about the copy


class Copies:
    """Processes what nodes state and ask about copies."""

    def __init__(self, custody: Custody) -> None:
        self._custody = custody
        self._core = custody.core
        self._stores = custody.stores

    def receive_acks(self, source: Address, records: Sequence[Receipt]) -> None:
        """H6: Acks of receivers about copies."""
        self._receive_acks([Ack(source, _copy(r), r.ident, r.dest_ref_id) for r in records])

    def receive_role_r(self, source: Address, records: Sequence[Inquiry]) -> None:
        """H6: inquiries of a receiver whether its Ack was noted; they count as Acks."""
        self._receive_acks([Ack(source, LK1(*r.lk1), r.ident, r.dest_ref_id) for r in records if r.lk1 is not None])

    def _receive_acks(self, acks: Sequence[Ack]) -> None:
        here = [ack for ack in acks if self._stores.is_here(ack.lk1)]
        if here:
            self._core.post_each(here, self._acks)
        self._stores.receive_acks([ack for ack in acks if not self._stores.is_here(ack.lk1)])

    def receive_noted_refusals(self, source: Address, records: Sequence[Receipt]) -> None:
        """H17: a sender has noted the refusal of copies of its messages."""
        noted = [(_copy(r), r.ident) for r in records if self._stores.is_here(_copy(r))]
        if noted:
            self._core.post_each(noted, partial(self._noted, source))

    def receive_answers(self, source: Address, records: Sequence[Inquiry]) -> None:
        """H11 and H12: answers to inquiries of this store."""
        here, _ = self._named(records)
        if here:
            self._core.post_each(here, partial(self._answers, source))

    def receive_custody_inquiries(self, source: Address, records: Sequence[Inquiry]) -> None:
        """H9: inquiries of a sender to the custodian."""
        here, elsewhere = self._named(records)
        if here:
            self._core.post_each(here, partial(self._custody_inquiries, source))
        self._stores.answer_custody(source, elsewhere)

    def receive_inquiries(self, source: Address, target: Address, records: Sequence[Inquiry]) -> None:
        """H7 and H8: inquiries of a sender to a target; the hub answers for stored copies and offline targets."""
        if self._custody.is_clear(str(source), str(target)):
            self.pass_on(source, target, records)
        else:
            self._core.post_each(records, partial(self._inquiries, source, target))

    def pass_on(self, source: Address, target: Address, records: Sequence[Inquiry]) -> None:
        """H8: pass inquiries on to the target if it is online, else answer OFFLINE.

        OFFLINE makes the sender of a class-3 message send another copy. A hub that does not serve the target would
        refuse each such copy, so it answers only inquiries about classes 1 and 2.
        """
        session = self._custody.sessions.get(str(target))
        if session is not None:
            session.link.send(Packet(source, target, Function.INQUIRIES, Primitive.REQUEST, records))
            return
        is_served = self._custody.directory.serves(target)
        for record in records:
            if is_served or record.sid < 0:
                self._core.mail.add(*answered(source, record, Answer.OFFLINE))

    def _named(self, records: Sequence[Inquiry]) -> tuple[Named, Named]:
        """Return the records that name a copy in this store, and those that name a copy in another one."""
        named = [(LK1(*r.lk1), r) for r in records if r.lk1 is not None]
        here = [pair for pair in named if self._stores.is_here(pair[0])]
        return here, [pair for pair in named if not self._stores.is_here(pair[0])]

    # --- work
    @work
    def _acks(self, acks: Sequence[Ack]) -> Steps:
        """H6: note that the receiver has the message. An Ack is answered also without a row here (rule N16)."""
        unit = yield Needs(outbound={ack.lk1.object_id for ack in acks})
        after = AfterCopies()
        for ack in acks:
            row = unit.outbound.get(ack.lk1.object_id)
            if row is None or may_state(row, ack.ident, row.target.node, ack.source):
                self._custody.apply_event(unit, row, HubEvent.ack, after, ack)
            else:
                self._custody.apply_event(unit, row, HubEvent.ack_other, after, ack)
                self._core.count("ack_other")
                self._violation(unit, ack.source, ack.lk1, ack.ident, f"An Ack {_fault(row, ack.ident)}")
        yield COMMITTED
        self._custody.apply(after)

    @work
    def _noted(self, source: Address, noted: Sequence[tuple[LK1, str]]) -> Steps:
        unit = yield Needs(outbound={lk1.object_id for lk1, _ in noted})
        after = AfterCopies()
        for lk1, ident in noted:
            row = unit.outbound.get(lk1.object_id)
            if row is not None and not may_state(row, ident, row.lk0.node, source):
                row = None
            self._custody.apply_event(unit, row, HubEvent.noted, after, detail=NOTED)
        yield COMMITTED
        self._custody.apply(after)

    @work
    def _answers(self, source: Address, named: Named) -> Steps:
        unit = yield Needs(outbound={lk1.object_id for lk1, _ in named})
        after = AfterCopies()
        for lk1, record in named:
            row, answer = unit.outbound.get(lk1.object_id), record.effective_answer
            if row is not None and not may_state(row, record.ident, row.target.node, source):
                self._violation(unit, source, lk1, record.ident, f"An answer {_fault(row, record.ident)}")
            elif answer in ARRIVAL_BY_ANSWER:
                self._custody.apply_event(unit, row, HubEvent.held, after, detail=answer.name)
            elif row is None or (answer is Answer.NOT and record.nonce == row.att):
                self._custody.apply_event(unit, row, HubEvent.not_here, after, detail=Answer.NOT.name)
        yield COMMITTED
        self._custody.apply(after)

    @work
    def _custody_inquiries(self, source: Address, named: Named) -> Steps:
        unit = yield Needs(outbound={lk1.object_id for lk1, _ in named})
        after = AfterCopies()
        for lk1, record in named:
            row = unit.outbound.get(lk1.object_id)
            is_meant = row is not None and is_about(row, record.ident)
            self._custody.apply_event(
                unit, row if is_meant else None, HubEvent.asked, after, SenderQuestion(source, record, lk1)
            )
        yield COMMITTED
        self._custody.apply(after)

    @work
    def _inquiries(self, source: Address, target: Address, records: Sequence[Inquiry]) -> Steps:
        unit = yield Needs(relayed={record.ident for record in records})
        after = AfterCopies()
        for record in records:
            row = unit.relayed.get(record.ident)
            self._custody.apply_event(unit, row, HubEvent.inquired, after, SenderQuestion(source, record))
        yield COMMITTED
        self._custody.apply(after)
        if after.to_pass_on:
            self.pass_on(source, target, after.to_pass_on)

    def _violation(self, unit: Unit, source: Address, lk1: LK1, ident: str, text: str) -> None:
        error = NotYours(text, lk1=str(lk1), peer=str(source))
        self._core.note_violation(unit, Side.HUB, error, ident, str(source))


def is_about(row: Outbound, ident: str) -> bool:
    """Whether a record with this identity names the row's message."""
    return str(row.lk0) == ident


def may_state(row: Outbound, ident: str, entitled: Address, source: Address) -> bool:
    """Whether a record names the row's message and comes from ``entitled``, the node that may make the statement."""
    return is_about(row, ident) and entitled == source


def _fault(row: Outbound, ident: str) -> str:
    if is_about(row, ident):
        return "does not come from the node to which the message is addressed."
    return "names another message than the row."


def _copy(record: Receipt) -> LK1:
    return LK1(record.src_semq_id, record.src_semq_db_id, record.src_ref_id)
