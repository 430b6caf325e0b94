"""ReAck, ReAck2 and inquiries at the receiver (PROTOCOL.md section 5.3: R3, R4, R5, R7, R8).

ReAck and ReAck2 complete the acknowledgements of this node; ReAck2 also raises the floors. An inquiry whether a
message has arrived (R5) is answered from the ledger alone.
"""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from semq.engine.core import Core
from semq.engine.errors import NotYours
from semq.engine.receiver import ledger
from semq.engine.receiver.handover import Handover
from semq.engine.time.cleanup import delete_if_done
from semq.engine.uplink import NodeSessions
from semq.errors import SemqError
from semq.store.rows import Event, InStreamKey, LedgerLine, Pending, Recorded, Side, Slot
from semq.store.unit import Needs, Unit
from semq.store.work import COMMITTED, Steps, work
from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Primitive
from semq.umx_t.errors import BadRecord
from semq.umx_t.grids import OWED, RECEIVER, OwedDeed, OwedEvent, ReceiverDeed, ReceiverEvent
from semq.umx_t.locator import LK0, parse_lk0
from semq.umx_t.records import ANSWER_BY_ARRIVAL, RESULT_OF, AckFlag, Inquiry, InquiryRole, Receipt
from semq.umx_t.status import AckStatus, Arrival, SaveFwd

AddressedInquiry = tuple[Address, Inquiry]
Floors = dict[int, tuple[int, int | None]]  #: by incarnation: the floor, and the number of sids if it is closed
Fault = tuple[str, SemqError]  #: the ident of a record, and what is wrong with it


class ReAcks:
    """Processes ReAck and ReAck2, and inquiries whether a message is recorded."""

    def __init__(self, core: Core, uplink: NodeSessions, handover: Handover) -> None:
        self.core = core
        self.uplink = uplink
        self.handover = handover

    def receive_reacks(self, source: Address, records: Sequence[Receipt]) -> None:
        """R3 and R4: ReAck and ReAck2."""
        self.core.post_each(records, partial(self._reacks, source), later=True)

    def receive_inquiries(self, source: Address, records: Sequence[Inquiry]) -> None:
        """R5: inquiries whether this node has a message."""
        self.core.post_each(records, partial(self._inquiries, source))

    @work
    def _reacks(self, source: Address, records: Sequence[Receipt]) -> Steps:
        readable, faults = _read(source, records)
        unit = yield Needs(
            pending={record.dest_ref_id for _, record, _ in readable if record.dest_ref_id},
            in_streams={InStreamKey(lk0.store, inc) for lk0, _, floors in readable for inc in floors},
        )
        statements = _NodeStatements(self, source, unit, faults)
        for lk0, record, floors in readable:
            statements.note(lk0, record)
            if record.ack_flag is AckFlag.END_TO_END:
                statements.raise_floors(lk0, record, floors)
        yield COMMITTED
        for stream, (floor, closed) in statements.raised.items():
            self.handover.note_floor(stream, floor, closed)

    @work
    def _inquiries(self, source: Address, records: Sequence[Inquiry]) -> Steps:
        readable: list[tuple[LK0, Inquiry]] = []
        faults: list[Fault] = []
        for record in records:
            try:
                readable.append((parse_lk0(record.ident), record))
            except SemqError as error:
                faults.append((record.ident, error))
        slots = {Slot(InStreamKey(lk0.store, lk0.inc), record.sid) for lk0, record in readable if record.sid >= 0}
        unit = yield Needs(
            in_streams={slot.stream for slot in slots},
            recorded=slots,
            seen={record.ident for _, record in readable if record.sid < 0},
        )
        statements = _NodeStatements(self, source, unit, faults)
        answers = [answer for lk0, record in readable if (answer := statements.answer(lk0, record)) is not None]
        yield COMMITTED
        for answer in answers:
            self.core.mail.add(source, Function.INQUIRIES, Primitive.CONFIRMATION, answer)


def _read(source: Address, records: Sequence[Receipt]) -> tuple[list[tuple[LK0, Receipt, Floors]], list[Fault]]:
    """Return the readable records, and the faults of the others. A ReAck2 must come from the node of its message."""
    readable: list[tuple[LK0, Receipt, Floors]] = []
    faults: list[Fault] = []
    for record in records:
        try:
            lk0, floors = parse_lk0(record.ident), _floors(record)
            if record.ack_flag is AckFlag.END_TO_END and lk0.node != source:
                raise NotYours("A ReAck2 comes from another node than the message.", lk0=record.ident, peer=str(source))
        except SemqError as error:
            faults.append((record.ident, error))
        else:
            readable.append((lk0, record, floors))
    return readable, faults


def _floors(record: Receipt) -> Floors:
    try:
        return {int(inc, 16): pair for inc, pair in (record.floors or {}).items()}
    except ValueError:
        raise BadRecord("A floor names no incarnation.", ident=record.ident) from None


class _NodeStatements:
    """The statements and inquiries of one node in one unit."""

    def __init__(self, owner: ReAcks, source: Address, unit: Unit, faults: Sequence[Fault]) -> None:
        self.core = owner.core
        self._hub = owner.uplink.hub
        self._source = source
        self._unit = unit
        self._at = self.core.now_ms()
        self.raised: dict[InStreamKey, tuple[int, int | None]] = {}
        for ident, error in faults:
            self._violation(error, ident)

    def _violation(self, error: SemqError, ident: str) -> None:
        self.core.note_violation(self._unit, Side.RECEIVER, error, ident, str(self._source))

    def note(self, lk0: LK0, record: Receipt) -> None:
        """Note in the row that the hub (ReAck) or the sender (ReAck2) has the acknowledgement of this node."""
        unit, row = self._unit, self._unit.pending.get(record.dest_ref_id)
        if row is None:
            return
        if row.lk0 != lk0:
            text = "A ReAck names another message than the row."
            self._violation(NotYours(text, lk0=str(lk0), peer=str(self._source)), str(lk0))
            return
        if record.ack_flag is AckFlag.END_TO_END:
            before, noted, event = row.s_ack_status, unit.sender_acked, Event.SENDER_ACKED
        elif self._source == self._hub and self._names_copy_of(row, record):
            before, noted, event = row.p_ack_status, unit.platform_acked, Event.PLATFORM_ACKED
        else:
            return
        after = OWED.step(before, OwedEvent.reack).after
        if after is before:
            return
        if event is Event.SENDER_ACKED:
            row.s_ack_status = after
        else:
            row.p_ack_status = after
        noted.add(row.bref)
        delete_if_done(self.core, unit, row)
        unit.ledger.append(LedgerLine(self._at, Side.RECEIVER, event, str(lk0), str(row.target)))

    @staticmethod
    def _names_copy_of(row: Pending, record: Receipt) -> bool:
        return row.lk1 == (record.src_semq_id, record.src_semq_db_id, record.src_ref_id)

    def raise_floors(self, lk0: LK0, record: Receipt, floors: Floors) -> None:
        """Raise the floors of the named incarnations, and set ``closed``.

        Ignore an incarnation if this node neither has a document of it nor awaits one for this row (``prev``). A
        partner could invent any number of incarnations, and each would be a permanent row.
        """
        unit, row = self._unit, self._unit.pending.get(record.dest_ref_id)
        awaited = row.prev.inc if row is not None and row.lk0 == lk0 and row.prev is not None else None
        for inc, (floor, closed) in floors.items():
            key = InStreamKey(lk0.store, inc)
            if key not in unit.in_streams and inc != awaited:
                self.core.count("floor_ignored")
                continue
            stream = ledger.stream_of(self.core, unit, key)
            if floor > stream.floor:
                unit.raise_floor(stream, floor)
                self.raised[key] = stream.floor, stream.closed
            if closed is not None and stream.closed != closed:
                stream.closed = closed
                unit.changed_in_streams.add(stream.key)
                self.raised[key] = stream.floor, stream.closed

    def answer(self, lk0: LK0, record: Inquiry) -> Inquiry | None:
        """Return the answer to an inquiry; None for a node without the right to inquire about the message."""
        may_inquire = lk0.node == self._source if record.role is InquiryRole.S else self._source == self._hub
        if not may_inquire:
            text = "A node inquires about another node's message."
            self._violation(NotYours(text, lk0=record.ident, peer=str(self._source)), record.ident)
            return None
        entry = ledger.known(self._unit, lk0, record.sid)
        rule = RECEIVER.step(entry.status, ReceiverEvent.inquiry)
        assert rule.deed is not None
        return ANSWERS[rule.deed](rule.after, record, entry)


def _answer(arrival: Arrival, record: Inquiry, entry: Recorded) -> Inquiry:
    answer = ANSWER_BY_ARRIVAL[arrival]
    return Inquiry(
        semq_id=record.semq_id, semq_db_id=record.semq_db_id, ref_id=record.ref_id, flag=record.flag,
        role=record.role, ident=record.ident, sid=record.sid,
        nonce=record.nonce, lk1=record.lk1, answer=answer,
        result=RESULT_OF[answer], reason=entry.reason, digest=entry.digest.hex(),
    )  # fmt: skip


ANSWERS: dict[ReceiverDeed, Callable[[Arrival, Inquiry, Recorded], Inquiry]] = {ReceiverDeed.answer: _answer}


def owed_inquiries(row: Pending, hub: Address | None, *, blocked: bool) -> list[AddressedInquiry]:
    """Return this node's inquiries about a row (R7, R8), each with its target. ``blocked``: the row waits for its
    predecessor, so its sender is asked even if no acknowledgement is owed."""
    inquiry = Inquiry(
        role=InquiryRole.R, ident=str(row.lk0), status=ANSWER_BY_ARRIVAL[row.status], dest_ref_id=row.bref,
        sid=row.sid, reason=row.reason, digest=row.digest.hex(),
    )  # fmt: skip
    inquiries: list[AddressedInquiry] = []
    if hub is not None and row.lk1 is not None:
        of_copy = replace(inquiry, lk1=row.lk1, ref_id=row.lk1.object_id)
        _do_deed(row.p_ack_status, OwedEvent.ask, inquiries, hub, of_copy)
    if row.save_fwd is SaveFwd.MUST:
        event = OwedEvent.blocked if blocked else OwedEvent.ask
        inquiry = replace(inquiry, ref_id=row.lk0.object_id, prev=str(row.prev) if row.prev else "")
        _do_deed(row.s_ack_status, event, inquiries, row.lk0.node, inquiry)
    return inquiries


def _do_deed(
    status: AckStatus, event: OwedEvent, inquiries: list[AddressedInquiry], to: Address, inquiry: Inquiry
) -> None:
    deed = OWED.step(status, event).deed
    if deed is not None:
        EFFECTS[deed](inquiries, to, inquiry)


def _inquire(inquiries: list[AddressedInquiry], to: Address, inquiry: Inquiry) -> None:
    inquiries.append((to, inquiry))


EFFECTS: dict[OwedDeed, Callable[[list[AddressedInquiry], Address, Inquiry], None]] = {OwedDeed.inquire: _inquire}
