"""One delivery: a received document counted, and ready for its application. Used by ``user_queue`` and ``order``."""

from semq.engine.bodies import decode_envelope
from semq.engine.core import Core
from semq.engine.errors import BodyUnreadable
from semq.engine.ports import Delivery
from semq.engine.time.cleanup import leave
from semq.foreign_text import shortened
from semq.store.rows import Event, LedgerLine, Pending, Side
from semq.store.unit import Unit
from semq.umx_t.grids import HANDLING, HandlingHeard
from semq.umx_t.status import AppStatus

DETAIL_MAX = 8000  # characters of an error with its traceback, in the ledger


def deliver(core: Core, unit: Unit, row: Pending) -> Delivery | None:
    """Count a delivery; None: what is stored cannot be read, and the row is parked so that it holds up no other."""
    stored = unit.pending_bodies.get(row.bref)
    try:
        envelope = decode_envelope(stored)
    except BodyUnreadable as error:
        line = LedgerLine(core.now_ms(), Side.RECEIVER, Event.PARKED, str(row.lk0), str(row.target), row.deliveries,
                          detail=shortened(str(error), DETAIL_MAX))  # fmt: skip
        unit.handle(row, AppStatus.PARKED)
        unit.ledger.append(line)
        core.count("unreadable")
        leave(core, unit, row)
        return None
    assert stored is not None
    HANDLING.step(row.app_status, HandlingHeard.give)
    row.deliveries += 1
    unit.given.add(row.bref)
    unit.ledger.append(
        LedgerLine(core.now_ms(), Side.RECEIVER, Event.GIVEN, str(row.lk0), str(row.target), row.deliveries)
    )
    return Delivery(row.bref, envelope, stored.payload, row.deliveries > 1, row.deliveries)
