"""Documents with an order key: one at a time per source store and key, in the order in which they were accepted.

A document is given only when its predecessor is recorded, settled or never sent (PROTOCOL.md section 11, rules N23 and
N24).
"""

from heapq import heappop, heappush

from msgspec import Struct, field

from semq.store.rows import InStreamKey, Pending, Slot
from semq.store.unit import Needs, Unit
from semq.umx_t.locator import Pos, Store

OrderId = tuple[Store, str]


class Order(Struct):
    """The state of the documents of one source store and order key."""

    busy: int = 0  #: the row that the application has and has not answered; 0: none
    searching: bool = False
    again: bool = False  #: something has changed during the search: search again after it
    blocked: int = 0  #: the row that waits for a predecessor; 0: none
    blocked_id: int = 0  #: the object_id of the message of that row
    user: str = ""  #: the user of the row found last, in whose queue the order waits for a turn


class _Awaited(Struct):
    """The positions of one stream that orders wait for."""

    heap: list[tuple[int, str]] = field(default_factory=list)  #: positions and order keys
    #: number of sids of a closed incarnation, if all positions in ``heap`` are lower; else None
    closed: int | None = None


class BlockedOrders:
    """Orders by the position that each waits for."""

    def __init__(self) -> None:
        self._waiting: dict[InStreamKey, _Awaited] = {}

    def add(self, key: OrderId, prev: Pos) -> None:
        awaited = self._waiting.setdefault(InStreamKey(key[0], prev.inc), _Awaited())
        heappush(awaited.heap, (prev.sid, key[1]))
        if awaited.closed is not None and prev.sid >= awaited.closed:
            awaited.closed = None

    def freed(self, stream: InStreamKey, floor: int, closed: int | None) -> list[OrderId]:
        """Remove and return the orders whose awaited position is settled, or was never used because its incarnation is
        closed.
        """
        awaited = self._waiting.get(stream)
        if awaited is None:
            return []
        heap, found = awaited.heap, []
        while heap and heap[0][0] < floor:
            found.append((stream.store, heappop(heap)[1]))
        if closed is not None and awaited.closed != closed:
            found += [(stream.store, name) for sid, name in heap if sid >= closed]
            awaited.heap = heap = sorted((sid, name) for sid, name in heap if sid < closed)
            awaited.closed = closed
        if not heap:
            del self._waiting[stream]
        return found


def is_predecessor_in_unit(unit: Unit, row: Pending) -> bool:
    """Whether this same unit records the predecessor, so that its queries did not find it."""
    return row.prev is not None and Slot(InStreamKey(row.lk0.store, row.prev.inc), row.prev.sid) in unit.new_recorded


def predecessor_needs(row: Pending) -> Needs:
    """Return what ``may_follow`` reads."""
    if row.prev is None:
        return Needs()
    stream = InStreamKey(row.lk0.store, row.prev.inc)
    return Needs(in_streams={stream}, recorded={Slot(stream, row.prev.sid)})


def may_follow(unit: Unit, row: Pending) -> bool:
    """Whether there is no predecessor, or it is recorded, settled, or never sent because its incarnation is closed."""
    if row.prev is None:
        return True
    key = InStreamKey(row.lk0.store, row.prev.inc)
    stream = unit.in_streams.get(key)
    if Slot(key, row.prev.sid) in unit.recorded:
        return True
    if stream is None:
        return False
    return row.prev.sid < stream.floor or (stream.closed is not None and row.prev.sid >= stream.closed)
