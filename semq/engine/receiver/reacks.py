"""What others note and ask about what this node has recorded (PROTOCOL.md section 5.3: R3, R4, R5, R7, R8).

Posted by ``recording`` and ``time.owed_acks``. ReAck and ReAck2 close our acknowledgements and move the floors; an
inquiry is answered from the ledger alone.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from semq.engine.core import Step
from semq.engine.errors import NotYours
from semq.engine.time.cleanup import leave
from semq.errors import SemqError
from semq.store.rows import Event, InStreamKey, LedgerLine, Pending, Recorded, Side, Slot
from semq.store.unit import Unit
from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Primitive
from semq.umx_t.errors import BadRecord
from semq.umx_t.grids import OWED, Arrived, OwedDeed, OwedHeard
from semq.umx_t.locator import LK0, parse_lk0
from semq.umx_t.records import ANSWER_BY_ARRIVAL, RESULT_OF, AckFlag, Inquiry, Receipt, Role
from semq.umx_t.status import AckStatus, Arrival, SaveFwd

if TYPE_CHECKING:
    from semq.engine.receiver.recording import Receiver

Ask = tuple[Address, Inquiry]


class HearReAcks(Step):
    """R3 and R4: an acknowledgement is known to be noted; floors let the ledger forget and the order go on."""

    def __init__(self, receiver: "Receiver", source: Address, records: Sequence[Receipt]) -> None:
        super().__init__()
        self._receiver = receiver
        self._core = receiver.core
        self._source = source
        self._bad: list[tuple[str, SemqError]] = []
        self._records: list[tuple[LK0, Receipt, dict[int, tuple[int, int | None]]]] = []
        for record in records:
            try:
                lk0 = parse_lk0(record.ident)
                floors = _floors(record)
                if record.ack_flag is AckFlag.END_TO_END and lk0.node != source:
                    raise NotYours(
                        "A ReAck2 comes from another node than the message.", lk0=record.ident, peer=str(source)
                    )
            except SemqError as error:
                self._bad.append((record.ident, error))
                continue
            self._records.append((lk0, record, floors))
            if record.dest_ref_id:
                self.needs.pending.add(record.dest_ref_id)
            self.needs.in_streams.update(InStreamKey(lk0.store, inc) for inc in floors)

    def decide(self, unit: Unit) -> None:
        self._raised: dict[InStreamKey, tuple[int, int | None]] = {}
        self._at = self._core.now_ms()
        for ident, error in self._bad:
            self._core.violation(unit, Side.RECEIVER, error, ident, str(self._source))
        for lk0, record, floors in self._records:
            self._note(unit, lk0, record)
            if record.ack_flag is AckFlag.END_TO_END:
                self._raise(unit, lk0, record, floors)

    def _note(self, unit: Unit, lk0: LK0, record: Receipt) -> None:
        row = unit.pending.get(record.dest_ref_id)
        if row is None:
            return
        if row.lk0 != lk0:
            error = NotYours("A ReAck names another message than the row.", lk0=str(lk0), peer=str(self._source))
            self._core.violation(unit, Side.RECEIVER, error, str(lk0), str(self._source))
            return
        if record.ack_flag is AckFlag.END_TO_END:
            before, noted, event = row.s_ack_status, unit.sender_acked, Event.SENDER_ACKED
        elif self._source == self._receiver.hub and self._is_copy(row, record):
            before, noted, event = row.p_ack_status, unit.platform_acked, Event.PLATFORM_ACKED
        else:
            return
        after = OWED.step(before, OwedHeard.reack).after
        if after is before:
            return
        if event is Event.SENDER_ACKED:
            row.s_ack_status = after
        else:
            row.p_ack_status = after
        noted.add(row.bref)
        leave(self._core, unit, row)
        unit.ledger.append(LedgerLine(self._at, Side.RECEIVER, event, str(lk0), str(row.target)))

    @staticmethod
    def _is_copy(row: Pending, record: Receipt) -> bool:
        return row.lk1 == (record.src_semq_id, record.src_semq_db_id, record.src_ref_id)

    def _raise(self, unit: Unit, lk0: LK0, record: Receipt, floors: dict[int, tuple[int, int | None]]) -> None:
        """Raise floors of incarnations of which a document was recorded, or is awaited by the row that is named.

        Others are ignored: a partner could invent any number, and each would leave a row for good.
        """
        store, row = lk0.store, unit.pending.get(record.dest_ref_id)
        awaited = row.prev.inc if row is not None and row.lk0 == lk0 and row.prev is not None else None
        for inc, (floor, closed) in floors.items():
            key = InStreamKey(store, inc)
            if key not in unit.in_streams and inc != awaited:
                self._core.count("floor_ignored")
                continue
            stream = self._receiver.stream(unit, key)
            if floor > stream.floor:
                unit.raise_floor(stream, floor)
                self._raised[key] = stream.floor, stream.closed
            if closed is not None and stream.closed != closed:
                stream.closed = closed
                unit.changed_in_streams.add(stream.key)
                self._raised[key] = stream.floor, stream.closed

    def committed(self) -> None:
        for stream, (floor, closed) in self._raised.items():
            self._receiver.desk.unblocked(stream, floor, closed)


def _floors(record: Receipt) -> dict[int, tuple[int, int | None]]:
    try:
        return {int(inc, 16): pair for inc, pair in (record.floors or {}).items()}
    except ValueError:
        raise BadRecord("A floor names no incarnation.", ident=record.ident) from None


class AnswerInquiries(Step):
    """R5: read only, from what is committed when the answer leaves."""

    def __init__(self, receiver: "Receiver", source: Address, records: Sequence[Inquiry]) -> None:
        super().__init__()
        self._receiver = receiver
        self._core = receiver.core
        self._source = source
        self._records: list[tuple[LK0, Inquiry]] = []
        self._bad: list[tuple[str, SemqError]] = []
        for record in records:
            try:
                lk0 = parse_lk0(record.ident)
            except SemqError as error:
                self._bad.append((record.ident, error))
                continue
            self._records.append((lk0, record))
            if record.sid >= 0:
                key = InStreamKey(lk0.store, lk0.inc)
                self.needs.in_streams.add(key)
                self.needs.recorded.add(Slot(key, record.sid))
            else:
                self.needs.seen.add(record.ident)

    def decide(self, unit: Unit) -> None:
        self._answers: list[Inquiry] = []
        for ident, error in self._bad:
            self._core.violation(unit, Side.RECEIVER, error, ident, str(self._source))
        for lk0, record in self._records:
            asks_well = lk0.node == self._source if record.role is Role.S else self._source == self._receiver.hub
            if not asks_well:
                lie = NotYours("A node asks about another node's message.", lk0=record.ident, peer=str(self._source))
                self._core.violation(unit, Side.RECEIVER, lie, record.ident, str(self._source))
                continue
            entry = self._receiver.known(unit, lk0, record.sid)
            self._receiver.hear(self, unit, entry, Arrived.inquiry, (record, entry))

    def answer(self, unit: Unit, arrival: Arrival, asked: tuple[Inquiry, Recorded]) -> None:
        """Answer with what the ledger knows."""
        record, entry = asked
        answer = ANSWER_BY_ARRIVAL[arrival]
        self._answers.append(
            Inquiry(
                semq_id=record.semq_id, semq_db_id=record.semq_db_id, ref_id=record.ref_id, flag=record.flag,
                role=record.role, ident=record.ident, sid=record.sid,
                nonce=record.nonce, lk1=record.lk1, answer=answer,
                result=RESULT_OF[answer], reason=entry.reason, digest=entry.digest.hex(),
            )
        )  # fmt: skip

    def committed(self) -> None:
        for answer in self._answers:
            self._core.mail.add(self._source, Function.INQUIRIES, Primitive.CONFIRMATION, answer)


def asks_about(row: Pending, hub: Address | None, *, blocked: bool) -> list[Ask]:
    """R7 and R8: what is asked about a row whose acknowledgements may not have been noted, and of whom."""
    facts: dict[str, Any] = {
        "role": Role.R, "ident": str(row.lk0), "status": ANSWER_BY_ARRIVAL[row.status], "dest_ref_id": row.bref,
        "sid": row.sid, "reason": row.reason, "digest": row.digest.hex(),
    }  # fmt: skip
    asks: list[Ask] = []
    if hub is not None and row.lk1 is not None:
        _hear(row.p_ack_status, OwedHeard.ask, asks, hub, facts | {"lk1": row.lk1, "ref_id": row.lk1.object_id})
    if row.save_fwd is SaveFwd.MUST:
        facts |= {"ref_id": row.lk0.object_id, "prev": str(row.prev) if row.prev else ""}
        _hear(row.s_ack_status, OwedHeard.blocked if blocked else OwedHeard.ask, asks, row.lk0.node, facts)
    return asks


def _hear(status: AckStatus, news: OwedHeard, asks: list[Ask], to: Address, facts: dict[str, Any]) -> None:
    deed = OWED.step(status, news).deed
    if deed is not None:
        EFFECTS[deed](asks, to, facts)


def _inquire(asks: list[Ask], to: Address, facts: dict[str, Any]) -> None:
    asks.append((to, Inquiry(**facts)))


EFFECTS: dict[OwedDeed, Callable[[list[Ask], Address, dict[str, Any]], None]] = {OwedDeed.inquire: _inquire}
