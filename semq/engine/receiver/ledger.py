"""The receiver's ledger within one unit: the messages that have arrived (PROTOCOL.md section 5.3).

The functions also find entries that earlier work of the same unit has staged.
"""

from semq.engine.core import Core
from semq.store.rows import InStream, InStreamKey, Recorded, Slot
from semq.store.unit import Unit
from semq.umx_t.locator import LK0
from semq.umx_t.status import Arrival

NOT_HERE, SETTLED = Recorded(Arrival.NOT), Recorded(Arrival.SETTLED)


def stream_of(core: Core, unit: Unit, key: InStreamKey) -> InStream:
    """Return a stream; make it if it does not exist."""
    stream = unit.in_streams.get(key)
    if stream is None:
        stream = unit.in_streams[key] = InStream(key, core.new_id())
        unit.changed_in_streams.add(key)
    return stream


def known(unit: Unit, lk0: LK0, sid: int) -> Recorded:
    """Return the entry of a message: of class 3 by its position, of classes 1 and 2 (``sid`` < 0) by its LK0."""
    return recorded_at(unit, Slot(InStreamKey(lk0.store, lk0.inc), sid)) if sid >= 0 else seen(unit, str(lk0))


def recorded_at(unit: Unit, slot: Slot) -> Recorded:
    """Return the entry at a position, or SETTLED for a position below the floor."""
    stream = unit.in_streams.get(slot.stream)
    if stream is not None and slot.sid < stream.floor:
        return SETTLED
    return unit.recorded.get(slot, NOT_HERE)


def seen(unit: Unit, ident: str) -> Recorded:
    """Return the entry of a message of class 1 or 2, by its LK0."""
    return unit.seen.get(ident, NOT_HERE)
