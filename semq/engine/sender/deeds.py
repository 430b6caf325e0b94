"""The deeds of the sender's grids: actions in addition to the change of a row of tb_0031 (PROTOCOL.md section 5.1).

``OutboundRows.apply_event`` calls the deed of a cell in the open transaction.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field
from msgspec.structs import fields, replace

from semq.engine.core import Core
from semq.engine.errors import BodyUnreadable
from semq.engine.ports import PreparedEvent, Secrecy
from semq.engine.stored_envelopes import decode_envelope, encode_envelope
from semq.engine.time.expiry import says_expired
from semq.store.rows import Outbound, Reason, Side, Stored
from semq.store.unit import Unit
from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes, Data, Envelope
from semq.umx_t.floor import Floor
from semq.umx_t.grids import SenderDeed, SenderState
from semq.umx_t.locator import LK0, LK1, Pos
from semq.umx_t.status import Outcome, SaveFwd

MAKE_MARKER = frozenset({SenderDeed.make_void, SenderDeed.give_up, SenderDeed.refuse, SenderDeed.returned})


#: attributes that are also columns of the row
OF_ROW = sorted(set(Attributes.__struct_fields__).intersection(each.name for each in fields(Outbound)))


class End(NamedTuple):
    """The end of a row."""

    row: Outbound  #: only for its constant columns
    outcome: Outcome
    code: str  #: code of the reason
    is_kept: bool  #: the row stays for an operator (``refused_copies``)


class ReceiverEvidence(NamedTuple):
    """A statement of the receiver about a message, to be answered with ReAck2."""

    lk0: LK0
    bref: int  #: number of the receiver's row
    prev: Pos | None = None  #: the position for which the receiver's row waits


class ReturnedCopy(NamedTuple):
    """The refusal of a copy by an operator of the hub (S15), to be answered with ReAck."""

    lk0: LK0
    lk1: LK1
    reason: Reason


class AfterOutbound(Struct):
    """The actions after the commit of one piece of work on own rows.

    Values are copied before the commit, because later work may change the rows.
    """

    at: int  #: time of the decision, in milliseconds since 1970 UTC
    settled: list[End] = field(default_factory=list)
    corrected: list[int] = field(default_factory=list)  #: delivered rows, ended before by a report of the hub (S5c)
    landed: list[Outbound] = field(default_factory=list)  #: rows no longer under way
    wake: list[Outbound] = field(default_factory=list)  #: rows to be sent again
    watch: list[Outbound] = field(default_factory=list)  #: rows that went from SS_INIT to SS_ACK, to be inquired about
    doubts: list[tuple[int, SenderState | None]] = field(default_factory=list)  #: row; GONE, AWAY or None (no doubt)
    asks: list[tuple[Outbound, LK1 | None]] = field(default_factory=list)  #: row; copy to ask about (None: the target)
    events: list[PreparedEvent] = field(default_factory=list)
    corrects: dict[int, Outcome] = field(default_factory=dict)  #: by row, the outcome in earlier events
    frames: list[Data] = field(default_factory=list)
    evidence: list[ReceiverEvidence] = field(default_factory=list)  #: to be answered with ReAck2
    returns: list[ReturnedCopy] = field(default_factory=list)  #: to be answered with ReAck


class RowsOwner(Protocol):
    """The part of ``outbound.OutboundRows`` that the deeds use."""

    @property
    def core(self) -> Core:
        """The shared state of the engine."""

    @property
    def secrecy(self) -> Secrecy:
        """Signs void markers."""

    def floor(self, row: Outbound) -> Floor:
        """Return the floor of the stream of a row."""


def _send(rows: RowsOwner, unit: Unit, row: Outbound, after: AfterOutbound, stored: Stored) -> None:
    if row.save_fwd is SaveFwd.STORE and not row.ack2:
        unit.delete_outbound(row)
    floor = rows.floor(row).value if row.sid >= 0 else 0
    envelope = replace(decode_envelope(stored), att=row.att, floor=floor)
    if rows.core.spans is not None:  # begun before, unless the node has been restarted since the acceptance
        rows.core.spans.begin(Side.SENDER, envelope, row.accepted_at)
    if row.void:
        frame = Data(rows.secrecy.sign_marker(envelope))
    else:
        frame = Data(envelope, stored.payload) if row.has_payload else Data(envelope, bare=row.size)
    after.frames.append(frame)


def _wake(rows: RowsOwner, unit: Unit, row: Outbound, after: AfterOutbound, cause: object) -> None:
    after.wake.append(row)


def _custody(rows: RowsOwner, unit: Unit, row: Outbound, after: AfterOutbound, custodian: LK1) -> None:
    """S4: note custody; delete the payload if no receipt was requested."""
    if row.custodian != custodian:
        row.custodian = custodian
        unit.change_outbound(row, row.ss_status)
    if row.save_fwd is SaveFwd.MUST and not row.ack2 and not row.void and row.has_payload:
        unit.drop_payload(row)
        unit.change_outbound(row, row.ss_status)


def _reack2(
    rows: RowsOwner, unit: Unit, row: Outbound | None, after: AfterOutbound, evidence: ReceiverEvidence | None
) -> None:
    if evidence is not None:
        after.evidence.append(evidence)


def _ask_target(rows: RowsOwner, unit: Unit, row: Outbound, after: AfterOutbound, cause: object) -> None:
    after.asks.append((row, None))


def _ask_custodian(rows: RowsOwner, unit: Unit, row: Outbound, after: AfterOutbound, cause: object) -> None:
    after.asks.append((row, row.custodian))


def _make_void(rows: RowsOwner, unit: Unit, row: Outbound, after: AfterOutbound, cause: object) -> None:
    """Make the row a void marker (rule N11, section 12). An expired document keeps its body for an operator."""
    stored = unit.bodies.get(row.object_id)
    kept = stored.payload if stored is not None and row.has_payload and says_expired(row.reason) else b""
    row.has_payload = row.has_payload and says_expired(row.reason)
    _mark_void(rows.core.address, unit, row, after, kept)


def _give_up(rows: RowsOwner, unit: Unit, row: Outbound, after: AfterOutbound, cause: object) -> None:
    row.lost = True
    _make_void(rows, unit, row, after, cause)


def _refuse(rows: RowsOwner, unit: Unit, row: Outbound, after: AfterOutbound, reason: Reason) -> None:
    row.reason = reason
    stored = unit.bodies.get(row.object_id)
    row.has_payload = row.has_payload and stored is not None
    _mark_void(rows.core.address, unit, row, after, stored.payload if stored is not None else b"")


def _returned(
    rows: RowsOwner, unit: Unit, row: Outbound, after: AfterOutbound, refusal: ReturnedCopy | Reason | None
) -> None:
    """S15, S16: make the row a void marker, with the reason."""
    if isinstance(refusal, ReturnedCopy):
        after.returns.append(refusal)
        refusal = refusal.reason
    assert refusal is not None
    _refuse(rows, unit, row, after, refusal)


def _reack(rows: RowsOwner, unit: Unit, row: Outbound | None, after: AfterOutbound, cause: object) -> None:
    if isinstance(cause, ReturnedCopy):
        after.returns.append(cause)


def _mark_void(own: Address, unit: Unit, row: Outbound, after: AfterOutbound, payload: bytes) -> None:
    row.void = True
    try:
        envelope = decode_envelope(unit.bodies.get(row.object_id))
    except BodyUnreadable:
        envelope = _envelope_of(own, row)
    unit.replace_body(row.object_id, Stored(encode_envelope(replace(envelope, void=True)), payload))
    unit.change_outbound(row, row.ss_status)
    after.wake.append(row)


def _envelope_of(own: Address, row: Outbound) -> Envelope:
    attributes = Attributes(**{name: getattr(row, name) for name in OF_ROW})
    return Envelope(
        source=own, target=row.target, lk0=row.lk0, attributes=attributes, sid=row.sid, prev=row.prev,
        digest=row.digest,
    )  # fmt: skip


EFFECTS: dict[SenderDeed, Callable[[RowsOwner, Unit, Any, AfterOutbound, Any], None]] = {
    SenderDeed.send: _send,
    SenderDeed.wake: _wake,
    SenderDeed.custody: _custody,
    SenderDeed.reack2: _reack2,
    SenderDeed.ask_target: _ask_target,
    SenderDeed.ask_custodian: _ask_custodian,
    SenderDeed.make_void: _make_void,
    SenderDeed.give_up: _give_up,
    SenderDeed.refuse: _refuse,
    SenderDeed.returned: _returned,
    SenderDeed.reack: _reack,
}
