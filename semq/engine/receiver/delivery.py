"""The events of a recorded document at its application: given, acknowledged, returned, failed, requeued (PROTOCOL.md
section 5.3, R6).
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from semq.engine.core import Core
from semq.engine.errors import BodyUnreadable, DocumentTooLarge, Expired
from semq.engine.ports import Delivery
from semq.engine.stored_envelopes import decode_envelope
from semq.engine.time.cleanup import delete_if_done
from semq.foreign_text import shortened
from semq.store.rows import Event, LedgerLine, Pending, Side
from semq.store.unit import Unit
from semq.umx_t.envelope import Envelope
from semq.umx_t.errors import HeadersTooLarge
from semq.umx_t.grids import HANDLING, HandlingDeed, HandlingEvent
from semq.umx_t.pieces import PIECES_USER
from semq.umx_t.status import AppStatus, Arrival

DETAIL_MAX = 8000  # characters of an error with its traceback, in the ledger
HANDLED = {AppStatus.DONE: Event.DONE, AppStatus.PARKED: Event.PARKED, AppStatus.NEW: Event.OPERATOR}
# Codes of refused documents that are not kept for an operator, because their body is not stored.
NOT_KEPT = frozenset({DocumentTooLarge.code, Expired.code, HeadersTooLarge.code})
Content = tuple[Envelope, bytes]


class AfterDelivery(Struct):
    """The documents to act on after the commit."""

    at: int  #: the moment of the decision, in milliseconds since 1970 UTC
    given: list[Delivery] = field(default_factory=list)  #: to be given to a consumer
    offered: list[Pending] = field(default_factory=list)  #: rows that wait for the next consumer again


def apply_event(
    unit: Unit,
    row: Pending,
    event: HandlingEvent,
    after: AfterDelivery,
    detail: str = "",
    content: Content | None = None,
) -> None:
    """Change a row by the grid and do the deed of the cell. ``content``: for the event ``give``, the document.

    Raises ImpossibleEvent, without a change.
    """
    rule = HANDLING.step(row.app_status, event)
    if rule.after is not row.app_status:
        unit.change_app_status(row, rule.after)
        _line(unit, row, HANDLED[rule.after], after, detail)
    if rule.deed is not None:
        EFFECTS[rule.deed](unit, row, after, content)


def status_without_delivery(row: Pending) -> AppStatus:
    """Return the status of a row that was recorded as REJ or VOID and is never delivered.

    PARKED for an unreadable document, until an operator decides; DONE for a marker, a piece, or a document refused for
    size or expiry. The caller sets the status without ``apply_event``, because the ledger line is already written.
    """
    is_kept = row.status is Arrival.REJ and (row.reason is None or row.reason[0] not in NOT_KEPT)
    # A refused piece is not kept: its sender learns the reason, and ends the whole document with it.
    is_kept = is_kept and row.target.user != PIECES_USER
    return HANDLING.step(row.app_status, HandlingEvent.fail if is_kept else HandlingEvent.done).after


def deliver(core: Core, unit: Unit, row: Pending) -> Delivery | None:
    """Count a delivery and return it. If the stored body cannot be read, park the row and return None."""
    stored, after = unit.pending_bodies.get(row.bref), AfterDelivery(core.now_ms())
    try:
        envelope = decode_envelope(stored)
    except BodyUnreadable as error:
        apply_event(unit, row, HandlingEvent.fail, after, shortened(str(error), DETAIL_MAX))
        core.count("unreadable")
        delete_if_done(core, unit, row)
        return None
    assert stored is not None
    if core.spans is not None:  # the document may have been recorded before this start of the node
        core.spans.begin(Side.RECEIVER, envelope, row.received_at)
    apply_event(unit, row, HandlingEvent.give, after, content=(envelope, stored.payload))
    return after.given[0]


def take_back(unit: Unit, row: Pending) -> None:
    """Do not count the last delivery of a row, because it did not leave the node."""
    row.deliveries -= 1
    unit.taken_back.add(row.bref)


def _line(unit: Unit, row: Pending, event: Event, after: AfterDelivery, detail: str = "") -> None:
    line = LedgerLine(after.at, Side.RECEIVER, event, str(row.lk0), str(row.target), row.deliveries, detail=detail)
    unit.ledger.append(line)


def _give(unit: Unit, row: Pending, after: AfterDelivery, content: Content) -> None:
    row.deliveries += 1
    if row.bref not in unit.new_pending:
        unit.given.add(row.bref)
    _line(unit, row, Event.GIVEN, after)
    envelope, payload = content
    after.given.append(Delivery(row.bref, envelope, payload, row.deliveries > 1, row.deliveries))


def _offer(unit: Unit, row: Pending, after: AfterDelivery, content: None) -> None:
    after.offered.append(row)


EFFECTS: dict[HandlingDeed, Callable[[Unit, Pending, AfterDelivery, Any], None]] = {
    HandlingDeed.give: _give,
    HandlingDeed.offer: _offer,
}
