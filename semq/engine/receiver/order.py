"""Documents with an order key: one at a time per source store and key, in the order in which they were accepted.

Each is given only when the one before it is recorded or settled (PROTOCOL.md section 11, rules N23 and N24). Which key
has its turn is decided by ``user_queue``; a key that waits for a document that has not arrived costs nothing until that
one arrives, or the floor of its stream passes it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from semq.engine.core import Step
from semq.engine.ports import Delivery
from semq.engine.receiver.delivery import deliver, end_ungiven
from semq.engine.time.cleanup import leave
from semq.store.rows import InStreamKey, Pending, Slot
from semq.store.unit import FirstInOrder, Unit, Waiting
from semq.umx_t.locator import Pos, Store
from semq.umx_t.status import AppStatus, Arrival

if TYPE_CHECKING:
    from semq.engine.receiver.handover import Handing

OrderId = tuple[Store, str]


@dataclass(slots=True)
class Order:
    """One source store and order key: its documents go one at a time."""

    busy: int = 0  #: the row that the application has now
    looking: bool = False
    again: bool = False  #: something changed while we were looking
    blocked: int = 0  #: the row that waits for one that has not arrived
    user: str = ""  #: of the row that was looked at last


class BlockedOrders:
    """Which orders wait for which positions, found by what a floor passes."""

    def __init__(self) -> None:
        self._waiting: dict[InStreamKey, list[tuple[int, str]]] = {}  #: by stream: a heap of positions and order keys

    def add(self, key: OrderId, prev: Pos) -> None:
        """An order waits for a position of its source store."""
        heappush(self._waiting.setdefault(InStreamKey(key[0], prev.inc), []), (prev.sid, key[1]))

    def freed(self, stream: InStreamKey, floor: int, closed: int | None) -> Iterator[OrderId]:
        """Orders whose position is settled, or will never be sent because its incarnation is closed; each once."""
        heap = self._waiting.get(stream, [])
        while heap and heap[0][0] < floor:
            yield stream.store, heappop(heap)[1]
        if closed is not None:
            yield from ((stream.store, name) for sid, name in heap if sid >= closed)
            heap[:] = [(sid, name) for sid, name in heap if sid < closed]
            heap.sort()
        if not heap:
            self._waiting.pop(stream, None)


class FindNext(Step):
    """First look: which row is the lowest one waiting for an order."""

    def __init__(self, handing: "Handing", key: OrderId, order: Order, user: str) -> None:
        """``user``: whose consumers have a place for it."""
        super().__init__()
        self._handing = handing
        self._key = key
        self._order = order
        self._user = user
        self._query = FirstInOrder(str(key[0]), key[1])
        self.needs.queries.add(self._query)

    def decide(self, unit: Unit) -> None:
        self._row = next(unit.pending_found(self._query), None)

    def committed(self) -> None:
        handing, order, row = self._handing, self._order, self._row
        if row is None:
            handing.ended_look(order)
            order.blocked = 0
            if order.again:
                handing.look(self._key, self._user)
            else:
                handing.orders.pop(self._key, None)
                handing.feed(self._user)  # the place that was meant for this order is free for others
            return
        handing.core.post(GiveOrdered(handing, self._key, order, row, self._user))

    def failed(self, error: Exception) -> None:
        self._handing.ended_look(self._order)
        self._handing.shelf(self._user).ready(self._key)


class GiveOrdered(Step):
    """Second look: give the lowest row if the one before it is recorded or settled (rules N23 and N24)."""

    def __init__(self, handing: "Handing", key: OrderId, order: Order, row: Pending, asked: str) -> None:
        """``asked``: the user whose turn it was; the row may be another's."""
        super().__init__()
        self._handing = handing
        self._key = key
        self._order = order
        self._asked = asked
        self._user = order.user = row.target.user
        self._query = Waiting(self._user, row.source, row.priority, row.bref - 1, 1)
        self._first = FirstInOrder(str(key[0]), key[1])
        self.needs.queries.update((self._query, self._first))
        if row.prev is not None:
            stream = InStreamKey(row.lk0.store, row.prev.inc)
            self.needs.in_streams.add(stream)
            self.needs.recorded.add(Slot(stream, row.prev.sid))

    def decide(self, unit: Unit) -> None:
        self._delivery: Delivery | None = None
        self._blocked = 0
        self._is_passed = False
        self._prev: Pos | None = None
        self._has_no_place = False
        row = next(unit.pending_found(self._first), None)
        waiting = next(unit.pending_found(self._query), None)
        if row is None or waiting is not row or row.app_status is not AppStatus.NEW or row.bref in self._handing.out:
            return
        if _is_overtaking(unit, row):
            return  # we look again: recording that one has asked for it
        if not _may_follow(unit, row):
            self._blocked, self._prev = row.bref, row.prev
        elif row.status is not Arrival.RECV:
            # VOID and REJ take their place in the order: what comes after them must not overtake what is before (F3).
            unit.handle(row, end_ungiven(row))
            leave(self._handing.core, unit, row)
            self._is_passed = True
        elif self._handing.inbox.free(self._user) > 0:
            self._delivery = deliver(self._handing.core, unit, row)
            self._is_passed = self._delivery is None
        else:
            self._has_no_place = True

    def committed(self) -> None:
        handing, order = self._handing, self._order
        handing.ended_look(order)
        if self._prev is not None and order.blocked != self._blocked:
            handing.blocked.add(self._key, self._prev)
        order.blocked = self._blocked
        if self._delivery is not None:
            order.busy = self._delivery.bref
            handing.give_in_order(self._key, self._user, self._delivery)
        elif self._is_passed or order.again:
            handing.look(self._key, self._asked)
            return
        elif self._has_no_place:
            handing.shelf(self._user).ready(self._key)
        handing.feed(self._asked)  # a place that was meant for this order and not taken is free for others

    def failed(self, error: Exception) -> None:
        self._handing.ended_look(self._order)
        self._handing.shelf(self._order.user).ready(self._key)


def _is_overtaking(unit: Unit, row: Pending) -> bool:
    """Whether the one before was recorded earlier in this very unit: no query shows its row yet, but it comes first."""
    return row.prev is not None and Slot(InStreamKey(row.lk0.store, row.prev.inc), row.prev.sid) in unit.new_recorded


def _may_follow(unit: Unit, row: Pending) -> bool:
    """PROTOCOL.md section 11: prev is null, recorded, settled, or was never sent because its incarnation is closed."""
    if row.prev is None:
        return True
    key = InStreamKey(row.lk0.store, row.prev.inc)
    stream = unit.in_streams.get(key)
    if Slot(key, row.prev.sid) in unit.recorded:
        return True
    if stream is None:
        return False
    return row.prev.sid < stream.floor or (stream.closed is not None and row.prev.sid >= stream.closed)
