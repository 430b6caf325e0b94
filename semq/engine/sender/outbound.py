"""How a row of tb_0031 changes at its sender: one door for all news of a message (PROTOCOL.md section 5.1).

``hear`` is called with what a receipt, an answer, a timer or a person says; the grid decides; the row, the ledger and
the application's event change in one transaction; what follows the commit is gathered in ``Effects`` and done by
``apply``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec.structs import replace

from semq.engine.bodies import decode_envelope, encode_envelope
from semq.engine.core import Core, of_marker
from semq.engine.errors import BodyUnreadable
from semq.engine.sender.lanes import Pump
from semq.engine.sender.refused_copies import is_kept, says_returned
from semq.engine.time.expiry import says_expired
from semq.seal.errors import SignerGone
from semq.store.rows import Event, Outbound, OutStreamKey, Reason, Side, Stored
from semq.store.unit import Recovered, Unit
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.floor import Floor
from semq.umx_t.grids import SENDER, SENDER_12, Heard, SenderDeed, Standing
from semq.umx_t.locator import LK1
from semq.umx_t.status import OUTCOME_OF, Arrival, Outcome, SaveFwd, SendStatus

# What each end means in the ledger and to the application.
ENDS: dict[Standing, tuple[Outcome, Event, str]] = {
    Standing.SS_ACK2: (Outcome.DELIVERED, Event.DELIVERED, "delivered"),
    Standing.REJECTED: (Outcome.REJECTED, Event.REJECTED, "failed"),
    Standing.CANCELLED: (Outcome.CANCELLED, Event.CANCELLED, "failed"),
    Standing.LOST: (Outcome.LOST, Event.LOST, "failed"),
    Standing.UNKNOWN: (Outcome.UNKNOWN, Event.UNKNOWN, "failed"),
    Standing.DROPPED: (Outcome.DROPPED, Event.DROPPED, "failed"),
}
# What each step on the way means in the ledger and to the application; AGAIN is told to nobody.
STEPS: dict[Standing, tuple[SendStatus, Event, str]] = {
    Standing.SS_INIT: (SendStatus.SS_INIT, Event.AGAIN, ""),
    Standing.SS_SENT: (SendStatus.SS_SENT, Event.SENT, "sent"),
    Standing.SS_ACK_FWD: (SendStatus.SS_ACK_FWD, Event.FORWARDED, "forwarded"),
    Standing.SS_ACK: (SendStatus.SS_ACK, Event.STORED, "stored"),
}
STANDING = {
    SendStatus.SS_INIT: Standing.SS_INIT,
    SendStatus.SS_SENT: Standing.SS_SENT,
    SendStatus.SS_ACK_FWD: Standing.SS_ACK_FWD,
    SendStatus.SS_ACK: Standing.SS_ACK,
    SendStatus.SS_ACK2: Standing.FINAL,
}
MAKE_MARKER = frozenset({SenderDeed.make_void, SenderDeed.give_up, SenderDeed.refuse})
UNKEPT_MAX = 10_000  # of classes 1 and 2, in memory
UNDER_WAY = frozenset({SendStatus.SS_SENT, SendStatus.SS_ACK_FWD})
# A marker comes from a cancellation, a refusal, an expiry or a loss; a row that was put back does not know from which.
FORGOTTEN_MARKER = "its receiver has a marker that this store knows nothing of: it was put back to a backup"
# What the receiver's ledger says, as news.
NEWS = {
    Arrival.RECV: Heard.recv,
    Arrival.REJ: Heard.rej,
    Arrival.VOID: Heard.void,
    Arrival.SETTLED: Heard.settled,
}
assert set(NEWS) == set(OUTCOME_OF)  # one source of outcomes


class End(NamedTuple):
    """A row that has ended, as it ended: the row itself is shared with later work of the same unit."""

    row: Outbound  #: to be read for what never changes
    outcome: Outcome
    code: str  #: of the reason
    is_kept: bool  #: it waits for a person


@dataclass(slots=True)
class Effects:
    """What follows the commit of one piece of work on our own rows, by value (``semq.store.ended``)."""

    at: int  #: the moment of the decision, in milliseconds since 1970 UTC
    settled: list[End] = field(default_factory=list)
    corrected: list[int] = field(default_factory=list)  #: rows that had ended by the platform's word, and are delivered
    landed: list[Outbound] = field(default_factory=list)  #: no longer under way
    wake: list[Outbound] = field(default_factory=list)
    watch: list[Outbound] = field(default_factory=list)  #: in custody although not under way: to be asked about
    doubts: list[tuple[int, Standing | None]] = field(default_factory=list)
    asks: list[tuple[Outbound, LK1 | None]] = field(default_factory=list)  #: of its custodian, or of its target
    events: list[Any] = field(default_factory=list)
    corrects: dict[int, Outcome] = field(default_factory=dict)  #: the outcomes that were told before


class OutboundRows:
    """The sender's rows: what is known of them beside the store, and how they change."""

    def __init__(self, core: Core, recovered: Recovered) -> None:
        self.core = core
        self.floors: dict[OutStreamKey, Floor] = {
            state.key: Floor(state.floor, state.settled_above) for state in recovered.streams
        }
        self.unsettled = dict(recovered.backlog)  #: rows without an outcome by destination, for quotas
        self.to_clean: list[int] = list(recovered.settled)
        self.doubts: dict[int, Standing] = {}  #: custody in doubt: GONE or AWAY (volatile)
        self.unkept: dict[int, Outbound] = {}  #: sent without a row, and what the platform does is not known (volatile)
        self.pump: Pump  # set by the sender, whose lanes these rows leave on
        self.ask: Callable[[Outbound, LK1 | None], None]  # set by the asker

    def floor(self, row: Outbound) -> Floor:
        """The floor of the stream of a row."""
        return self.floor_of(OutStreamKey(row.dest, row.lk0.inc))

    def floor_of(self, key: OutStreamKey) -> Floor:
        """The floor of a stream, made when first asked for."""
        floor = self.floors.get(key)
        if floor is None:
            floor = self.floors[key] = Floor()
        return floor

    def standing(self, row: Outbound) -> Standing:
        """The column of the grid where a row stands."""
        if row.outcome is not None:
            return Standing.FINAL
        if row.ss_status is SendStatus.SS_ACK and row.save_fwd is SaveFwd.MUST:
            return self.doubts.get(row.object_id, Standing.SS_ACK)
        return STANDING[row.ss_status]

    def hear(
        self, unit: Unit, row: Outbound, news: Heard, effects: Effects, detail: str = "", reason: Reason | None = None
    ) -> SenderDeed | None:
        """Change a row by the grid; raises ImpossibleNews where the grid says so (nothing is changed then)."""
        before, standing = row.ss_status, self.standing(row)
        if news is Heard.recv and is_by_hub(row):
            news = Heard.corrected
        rule = (SENDER if row.save_fwd is SaveFwd.MUST else SENDER_12).step(standing, news)
        after = rule.after
        if after is Standing.CANCELLED and row.lost:
            after = Standing.LOST
        elif after is Standing.CANCELLED and news is Heard.void and not row.void:
            after, detail = Standing.UNKNOWN, FORGOTTEN_MARKER
        elif after is Standing.CANCELLED and ((row.void and row.has_payload) or is_refused(row.reason)):
            after = Standing.REJECTED  # the marker of a document that was refused, by the platform or by its time
        if after is not standing:
            detail = of_marker(detail or news.name, after in STEPS and (row.void or rule.deed in MAKE_MARKER))
            self._move(unit, row, after, effects, detail, reason)
            if row.ss_status is not before or row.outcome is not None:
                unit.change_outbound(row, before)
                if before in UNDER_WAY and (row.ss_status not in UNDER_WAY or row.outcome is not None):
                    effects.landed.append(row)
                elif before is SendStatus.SS_INIT and row.ss_status is SendStatus.SS_ACK:
                    effects.watch.append(row)
        self._do(unit, row, rule.deed, before, effects, reason)
        return rule.deed

    def _move(
        self, unit: Unit, row: Outbound, after: Standing, effects: Effects, detail: str, reason: Reason | None
    ) -> None:
        if after in ENDS and row.outcome is not None:
            self._correct(unit, row, effects)
            event, kind = Event.DELIVERED, "delivered"
        elif after in ENDS:
            row.outcome, event, kind = ENDS[after]
            if after is Standing.SS_ACK2:
                row.ss_status = SendStatus.SS_ACK2
            row.reason = reason or row.reason
            effects.settled.append(End(row, row.outcome, row.reason[0] if row.reason else "", is_kept(row)))
            detail = " ".join(row.reason) if row.reason else detail
        elif after in STEPS:
            row.ss_status, event, kind = STEPS[after]
            effects.doubts.append((row.object_id, None))
        else:  # GONE or AWAY: what we think of the custodian, not of the row
            effects.doubts.append((row.object_id, after))
            return
        unit.ledger.append(self.core.line(Side.SENDER, event, row, detail, effects.at))
        # Its way to the application's view: a marker that is sent and stored is not the document once more.
        if kind and (after in ENDS or not row.void):
            self.core.tell(unit, kind, row, effects.events, effects.at, effects.corrects.get(row.object_id))

    def _correct(self, unit: Unit, row: Outbound, effects: Effects) -> None:
        """S5c: the receiver has a document that had ended by the platform's word alone. Told as a correction."""
        assert row.outcome is not None
        ended = " ".join((row.outcome.name, *(row.reason or ())))
        detail = f"corrects {ended}: the receiver has it"
        unit.ledger.append(self.core.line(Side.SENDER, Event.OPERATOR, row, detail, effects.at))
        effects.corrects[row.object_id] = row.outcome
        row.outcome, row.ss_status, row.reason = Outcome.DELIVERED, SendStatus.SS_ACK2, None
        effects.corrected.append(row.object_id)

    def _do(
        self,
        unit: Unit,
        row: Outbound,
        deed: SenderDeed | None,
        before: SendStatus,
        effects: Effects,
        reason: Reason | None,
    ) -> None:
        if deed is SenderDeed.wake:
            effects.wake.append(row)
        elif deed is SenderDeed.custody:
            if not row.ack2 and not row.void and row.has_payload:
                unit.drop_payload(row)
                unit.change_outbound(row, before)
        elif deed is SenderDeed.make_void or deed is SenderDeed.give_up:
            self._make_void(unit, row, lost=deed is SenderDeed.give_up)
            unit.change_outbound(row, before)
            effects.wake.append(row)
        elif deed is SenderDeed.refuse:
            row.reason = reason
            stored = unit.bodies.get(row.object_id)
            row.has_payload = row.has_payload and stored is not None
            self._mark_void(unit, row, stored.payload if stored is not None else b"")
            unit.change_outbound(row, before)
            effects.wake.append(row)
        elif deed is SenderDeed.ask_target or deed is SenderDeed.ask_custodian:
            effects.asks.append((row, row.custodian if deed is SenderDeed.ask_custodian else None))

    def _make_void(self, unit: Unit, row: Outbound, *, lost: bool) -> None:
        """Let a marker race for the place in the receiver's ledger instead of the payload (rule R11, section 12).

        What has expired keeps its body: it may be wanted all the same, and ends REJECTED.
        """
        stored = unit.bodies.get(row.object_id)
        kept = stored.payload if stored is not None and row.has_payload and says_expired(row.reason) else b""
        row.has_payload = row.has_payload and says_expired(row.reason)
        row.lost = row.lost or lost
        self._mark_void(unit, row, kept)

    def _mark_void(self, unit: Unit, row: Outbound, payload: bytes) -> None:
        row.void = True
        try:
            envelope = decode_envelope(unit.bodies.get(row.object_id))
        except BodyUnreadable:  # a marker says no more than the row
            envelope = self._envelope_of(row)
        unit.replace_body(row.object_id, Stored(encode_envelope(replace(envelope, void=True)), payload))

    def _envelope_of(self, row: Outbound) -> Envelope:
        """What a marker needs of an envelope that cannot be read any more."""
        attributes = Attributes(
            save_fwd=row.save_fwd, ack2=row.ack2, app_key=row.app_key, order_key=row.order_key,
            expires_at=row.expires_at,
        )  # fmt: skip
        return Envelope(
            source=self.core.address, target=row.target, lk0=row.lk0, attributes=attributes, sid=row.sid, prev=row.prev,
            digest=row.digest,
        )  # fmt: skip

    def apply(self, effects: Effects) -> None:
        """After the commit: floors, lanes, doubts, inquiries and events follow what is now true."""
        for object_id, doubt in effects.doubts:
            if doubt is None:
                self.doubts.pop(object_id, None)
            else:
                self.doubts[object_id] = doubt
        for row in effects.landed:
            self.pump.lane(row.dest).flight.discard(row.object_id)
        for end in effects.settled:
            self._settled(end)
        for object_id in effects.corrected:
            self.core.count("corrected")
            self.to_clean.append(object_id)
        for row in effects.watch:
            self.pump.watch(row.object_id)
        for row in effects.wake:
            self.pump.wake(row)
        for dest in {row.dest for row in effects.landed} | {end.row.dest for end in effects.settled}:
            self.pump.unblock(dest)
        for row, custodian in effects.asks:
            self.ask(row, custodian)
        if effects.events:
            self.core.events.publish(effects.events)

    def remember(self, row: Outbound) -> None:
        """A document has left that no row is kept of: its application is told what the platform does with it."""
        self.unkept[row.object_id] = row
        if len(self.unkept) > UNKEPT_MAX:
            del self.unkept[next(iter(self.unkept))]

    def left(self, row: Outbound) -> None:
        """A document has left, and its row with it (class 2 without a receipt); ``row`` is as it was then."""
        self.gone(row)
        self.remember(row)

    def gone(self, row: Outbound) -> None:
        """A row counts no more: it has ended, or went with its message (class 2 without a receipt)."""
        self.unsettled[row.dest] = max(self.unsettled.get(row.dest, 1) - 1, 0)

    def _settled(self, end: End) -> None:
        row = end.row
        if row.sid >= 0:
            self.floor(row).settle(row.sid)
        self.doubts.pop(row.object_id, None)
        self.pump.lane(row.dest).flight.discard(row.object_id)
        self.gone(row)
        self.core.count(ENDS_COUNTED[end.outcome])
        if not (end.is_kept and self.core.settings.keep_rejected):
            self.to_clean.append(row.object_id)


def is_refused(reason: Reason | None) -> bool:
    """Whether a message is to be refused although its marker travels like that of a cancelled one."""
    return says_expired(reason) or says_returned(reason) or (reason is not None and reason[0] == SignerGone.code)


def is_by_hub(row: Outbound) -> bool:
    """Whether a message has ended by the platform's word alone: that of the receiver corrects it (S5c).

    A receiver that has refused it itself says nothing else later, unless its store was put back and has it now. UNKNOWN
    contradicts no receipt and stays.
    """
    return row.outcome is Outcome.DROPPED or (row.outcome is Outcome.REJECTED and not row.void)


def is_open(row: Outbound) -> bool:
    """Whether a receipt can still change a message."""
    return row.outcome is None or is_by_hub(row)


ENDS_COUNTED = {outcome: outcome.name.lower() for outcome in Outcome}
