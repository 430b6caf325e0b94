"""Changes of a row of tb_0031 at its sender: one function for all events of a message (PROTOCOL.md section 5.1).

The row, its ledger line and the application's event are written in one transaction; ``apply`` follows the commit.
"""

from typing import Protocol

from semq.engine.core import Core, with_marker_note
from semq.engine.latency import Stage
from semq.engine.ports import Secrecy
from semq.engine.sender.deeds import EFFECTS, MAKE_MARKER, AfterOutbound, End
from semq.engine.sender.endings import is_kept, notice_due, says_returned
from semq.engine.sender.lanes import Pump
from semq.engine.time.expiry import says_expired
from semq.seal.errors import SignerGone
from semq.store.rows import Event, Outbound, OutStreamKey, Reason, Side
from semq.store.unit import Recovered, Unit
from semq.umx_t.floor import Floor
from semq.umx_t.grid import Grid, GridRule
from semq.umx_t.grids import SENDER, SENDER_12, SenderDeed, SenderEvent, SenderState
from semq.umx_t.locator import LK1
from semq.umx_t.status import Arrival, Outcome, SaveFwd, SendStatus

# For each end: the outcome, the event in the ledger and the event for the application.
ENDS: dict[SenderState, tuple[Outcome, Event, str]] = {
    SenderState.SS_ACK2: (Outcome.DELIVERED, Event.DELIVERED, "delivered"),
    SenderState.REJECTED: (Outcome.REJECTED, Event.REJECTED, "failed"),
    SenderState.CANCELLED: (Outcome.CANCELLED, Event.CANCELLED, "failed"),
    SenderState.LOST: (Outcome.LOST, Event.LOST, "failed"),
    SenderState.UNKNOWN: (Outcome.UNKNOWN, Event.UNKNOWN, "failed"),
    SenderState.DROPPED: (Outcome.DROPPED, Event.DROPPED, "failed"),
}
# For each status that is no end: the status, the event in the ledger and the event for the application (empty: none).
STEPS: dict[SenderState, tuple[SendStatus, Event, str]] = {
    SenderState.SS_INIT: (SendStatus.SS_INIT, Event.AGAIN, ""),
    SenderState.SS_SENT: (SendStatus.SS_SENT, Event.SENT, "sent"),
    SenderState.SS_ACK_FWD: (SendStatus.SS_ACK_FWD, Event.FORWARDED, "forwarded"),
    SenderState.SS_ACK: (SendStatus.SS_ACK, Event.STORED, "stored"),
}
STATE_OF_STATUS = {
    SendStatus.SS_INIT: SenderState.SS_INIT,
    SendStatus.SS_SENT: SenderState.SS_SENT,
    SendStatus.SS_ACK_FWD: SenderState.SS_ACK_FWD,
    SendStatus.SS_ACK: SenderState.SS_ACK,
    SendStatus.SS_ACK2: SenderState.FINAL,
}
SenderRule = GridRule[SenderState, SenderDeed]
UNKEPT_MAX = 10_000  # messages of classes 1 and 2 remembered without a row
UNDER_WAY = frozenset({SendStatus.SS_SENT, SendStatus.SS_ACK_FWD})
FORGOTTEN_MARKER = "its receiver has a marker that is not in this store: the store was restored from a backup"
# For each status in the receiver's ledger: the event.
EVENT_OF_ARRIVAL = {
    Arrival.RECV: SenderEvent.recv,
    Arrival.REJ: SenderEvent.rej,
    Arrival.VOID: SenderEvent.void,
    Arrival.SETTLED: SenderEvent.settled,
}
assert set(EVENT_OF_ARRIVAL) == set(Arrival) - {Arrival.NOT}


class Asker(Protocol):
    """Sends inquiries that the grid demands."""

    def ask(self, row: Outbound, custodian: LK1 | None) -> None:
        """Send Inquiry S about a row to the store of the hub that has custody; ``custodian`` None: to the target."""


class OutboundRows:
    """The sender's rows: their changes, and facts about them in memory."""

    def __init__(self, core: Core, recovered: Recovered, secrecy: Secrecy, pump: Pump, asker: Asker) -> None:
        self.core = core
        self.secrecy = secrecy
        self.pump = pump
        self._asker = asker
        self.floors: dict[OutStreamKey, Floor] = {
            state.key: Floor(state.floor, state.settled_above) for state in recovered.streams
        }
        self.unsettled = dict(recovered.backlog)  #: number of rows without an outcome, by destination
        self.to_clean: list[int] = list(recovered.settled)
        self.doubts: dict[int, SenderState] = {}  #: custody in doubt: GONE or AWAY
        self.unkept: dict[int, Outbound] = {}  #: messages sent without a row

    def floor(self, row: Outbound) -> Floor:
        return self.floor_of(OutStreamKey(row.dest, row.lk0.inc))

    def floor_of(self, key: OutStreamKey) -> Floor:
        """Return the floor of a stream."""
        floor = self.floors.get(key)
        if floor is None:
            floor = self.floors[key] = Floor()
        return floor

    def state_of(self, row: Outbound | None) -> SenderState:
        """Return the state, a column of the grid, of a row; None: this store has no row."""
        if row is None:
            return SenderState.ABSENT
        if row.outcome is not None:
            return SenderState.FINAL
        if row.ss_status is SendStatus.SS_ACK and row.save_fwd is SaveFwd.MUST:
            return self.doubts.get(row.object_id, SenderState.SS_ACK)
        return STATE_OF_STATUS[row.ss_status]

    def apply_event(
        self,
        unit: Unit,
        row: Outbound | None,
        event: SenderEvent,
        after: AfterOutbound,
        detail: str = "",
        reason: Reason | None = None,
        cause: object = None,
    ) -> None:
        """Change a row by the grid and do the deed of the cell, which needs the facts in ``cause``.

        Raises ImpossibleEvent, without a change.
        """
        state = self.state_of(row)
        if row is None:
            rule = SENDER.step(state, event)
        else:
            if event is SenderEvent.recv and ended_by_hub(row):
                event = SenderEvent.corrected
            rule = _grid(row).step(state, event)
            if rule.after is not state:
                self._change(unit, row, rule, event, after, detail, reason)
        if rule.deed is not None:
            EFFECTS[rule.deed](self, unit, row, after, cause)

    def is_without_effect(self, row: Outbound, event: SenderEvent) -> bool:
        """Whether the grid has neither another state nor a deed for this event. Raises ImpossibleEvent."""
        state = self.state_of(row)
        rule = _grid(row).step(state, event)
        return rule.after is state and rule.deed is None

    def _change(
        self,
        unit: Unit,
        row: Outbound,
        rule: SenderRule,
        event: SenderEvent,
        after: AfterOutbound,
        detail: str,
        reason: Reason | None,
    ) -> None:
        before, goal = row.ss_status, rule.after
        given_detail, detail = detail, detail or event.name
        if goal is SenderState.CANCELLED:
            goal, detail = end_of_cancelled(row, event, detail)
        elif goal in STEPS:
            if goal is SenderState.SS_SENT:
                row.att += 1
                detail = given_detail or ("again" if row.att > 1 else "")
            detail = with_marker_note(detail, row.void or rule.deed in MAKE_MARKER)
        self._move(unit, row, goal, after, detail, reason)
        if row.ss_status is not before or row.outcome is not None:
            unit.change_outbound(row, before)
            if before in UNDER_WAY and (row.ss_status not in UNDER_WAY or row.outcome is not None):
                after.landed.append(row)
            elif before is SendStatus.SS_INIT and row.ss_status is SendStatus.SS_ACK:
                after.watch.append(row)
        if goal is SenderState.SS_ACK2 and event is not SenderEvent.corrected:
            unit.delete_outbound(row)  # S13: no later event can change it

    def _move(
        self, unit: Unit, row: Outbound, goal: SenderState, after: AfterOutbound, detail: str, reason: Reason | None
    ) -> None:
        if goal in ENDS and row.outcome is not None:
            self._correct(unit, row, after)
            event, kind = Event.DELIVERED, "delivered"
        elif goal in ENDS:
            row.outcome, event, kind = ENDS[goal]
            if goal is SenderState.SS_ACK2:
                row.ss_status, row.reason = SendStatus.SS_ACK2, None  # why it was to be withdrawn no longer matters
            else:
                row.reason = reason or row.reason
            after.settled.append(End(row, row.outcome, row.reason[0] if row.reason else "", is_kept(row)))
            if (notice := notice_due(row)) is not None:
                unit.rare_changes.append(notice)
            detail = " ".join(row.reason) if row.reason else detail
        elif goal in STEPS:
            row.ss_status, event, kind = STEPS[goal]
            after.doubts.append((row.object_id, None))
        else:  # GONE or AWAY: a doubt about the custodian, not a status of the row
            after.doubts.append((row.object_id, goal))
            return
        unit.ledger.append(self.core.line(Side.SENDER, event, row, detail, after.at))
        # Of a marker, only the end is reported: "sent" or "forwarded" would be about the marker, not the document.
        if kind and (goal in ENDS or not row.void):
            self.core.prepare_row_event(unit, kind, row, after.events, after.at, after.corrects.get(row.object_id))

    def _correct(self, unit: Unit, row: Outbound, after: AfterOutbound) -> None:
        """Change to DELIVERED the outcome of a document that had ended on information from the hub alone (S5c)."""
        assert row.outcome is not None
        ended = " ".join((row.outcome.name, *(row.reason or ())))
        detail = f"corrects {ended}: the receiver has it"
        unit.ledger.append(self.core.line(Side.SENDER, Event.OPERATOR, row, detail, after.at))
        after.corrects[row.object_id] = row.outcome
        row.outcome, row.ss_status, row.reason = Outcome.DELIVERED, SendStatus.SS_ACK2, None
        after.corrected.append(row.object_id)

    def apply(self, after: AfterOutbound) -> None:
        """Carry out the actions that follow the commit."""
        for object_id, doubt in after.doubts:
            if doubt is None:
                self.doubts.pop(object_id, None)
            else:
                self.doubts[object_id] = doubt
        for row in after.landed:
            self.pump.lane(row.dest).flight.discard(row.object_id)
        for end in after.settled:
            self._settled(end, after.at)
        for object_id in after.corrected:
            self.core.count("corrected")
            self.to_clean.append(object_id)
        for row in after.watch:
            self.pump.plan_inquiry(row.object_id)
        for row in after.wake:
            self.pump.wake(row)
        for dest in {row.dest for row in after.landed} | {end.row.dest for end in after.settled}:
            self.pump.unblock(dest)
        for row, custodian in after.asks:
            self._asker.ask(row, custodian)
        if after.events:
            self.core.events.publish(after.events)

    def remember(self, row: Outbound) -> None:
        """Remember a document sent without a row, so that ``forwarded`` or ``stored`` can be reported."""
        self.unkept[row.object_id] = row
        if len(self.unkept) > UNKEPT_MAX:
            del self.unkept[next(iter(self.unkept))]

    def note_row_deleted(self, row: Outbound) -> None:
        """Note a document whose row was deleted when it was sent; ``row`` is a copy."""
        self.uncount(row)
        self.remember(row)

    def uncount(self, row: Outbound) -> None:
        self.unsettled[row.dest] = max(self.unsettled.get(row.dest, 1) - 1, 0)

    def _settled(self, end: End, at: int) -> None:
        row = end.row
        if row.sid >= 0:
            self.floor(row).settle(row.sid)
        self.doubts.pop(row.object_id, None)
        self.pump.lane(row.dest).flight.discard(row.object_id)
        self.uncount(row)
        self.core.count(ENDS_COUNTED[end.outcome])
        is_deleted = end.outcome is Outcome.DELIVERED  # by the commit of this outcome
        if is_deleted:
            self.core.latency.observe(Stage.DELIVERED, (at - row.accepted_at) / 1000)
        if not is_deleted and not (end.is_kept and self.core.settings.keep_rejected):
            self.to_clean.append(row.object_id)


def _grid(row: Outbound) -> Grid[SenderState, SenderEvent, SenderDeed]:
    return SENDER if row.save_fwd is SaveFwd.MUST else SENDER_12


def end_of_cancelled(row: Outbound, event: SenderEvent, detail: str) -> tuple[SenderState, str]:
    """Return the true end, with a detail, of a message that ends CANCELLED by the grid. The marker may follow from a
    loss, a refusal by the hub or an expiry; in a restored store the cause is unknown."""
    if row.lost:
        return SenderState.LOST, detail
    if event is SenderEvent.void and not row.void:
        return SenderState.UNKNOWN, FORGOTTEN_MARKER
    if (row.void and row.has_payload) or ends_rejected(row.reason):
        return SenderState.REJECTED, detail
    return SenderState.CANCELLED, detail


def ends_rejected(reason: Reason | None) -> bool:
    """Whether a marker with this reason ends the message as REJECTED, not CANCELLED."""
    return says_expired(reason) or says_returned(reason) or (reason is not None and reason[0] == SignerGone.code)


def ended_by_hub(row: Outbound) -> bool:
    """Whether a message has ended on information from the hub alone, so that a receipt corrects the outcome (S5c)."""
    return row.outcome is Outcome.DROPPED or (row.outcome is Outcome.REJECTED and not row.void)


def is_open(row: Outbound) -> bool:
    """Whether a receipt can still change the outcome of a message."""
    return row.outcome is None or ended_by_hub(row)


ENDS_COUNTED = {outcome: outcome.name.lower() for outcome in Outcome}
