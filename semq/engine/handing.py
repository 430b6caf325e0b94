"""Handing over: received documents reach the application, each at least once, repeats flagged (PROTOCOL.md R6, 11).

A document is given in the commit that records it when a consumer is free and nothing waits before it; otherwise
consumers are fed from tb_0030 in the order of arrival. Documents with an order key go one at a time per source store
and key, each only when the one before it is recorded or settled; unordered ones are never held back. A delivery is
counted in a commit before it is made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from semq.engine.bodies import decode_envelope
from semq.engine.core import Core, Step
from semq.engine.errors import BodyUnreadable
from semq.engine.ports import Delivery, Inbox
from semq.engine.receiving import Given, ungiven
from semq.errors import Unavailable
from semq.store.rows import Event, InStreamKey, LedgerLine, Pending, Side, Slot
from semq.store.unit import FirstInOrder, Unit, Waiting
from semq.umx_t.envelope import Envelope
from semq.umx_t.grids import HANDLING, Handling, HandlingDeed, HandlingHeard
from semq.umx_t.locator import Store
from semq.umx_t.status import AppStatus, Arrival

DETAIL_MAX = 8000  # characters of an error with its traceback, in the ledger
OrderId = tuple[Store, str]
HANDLING_OF = {AppStatus.NEW: Handling.NEW, AppStatus.DONE: Handling.DONE, AppStatus.PARKED: Handling.PARKED}
APP_STATUS = {handling: status for status, handling in HANDLING_OF.items()}


@dataclass(frozen=True, slots=True)
class Told:
    """Who hears, after the commit, how many rows an act has met, or why it has failed."""

    done: Callable[[int], None]
    failed: Callable[[Exception], None]


@dataclass(slots=True)
class Shelf:
    """What waits for the consumers of one user: volatile, rebuilt from tb_0030."""

    user: str
    cursor: int = 0  #: rows up to here have been looked at
    behind: bool = True  #: rows may wait in the store
    arrived: int = 0  #: how many commits have left rows waiting
    low: int = 1 << 63
    feeding: bool = False


@dataclass(slots=True)
class Order:
    """One source store and order key: its documents go one at a time."""

    busy: int = 0  #: the row that the application has now
    looking: bool = False
    again: bool = False  #: something changed while we were looking
    blocked: int = 0  #: the row that waits for one that has not arrived


@dataclass(slots=True)
class Handing:
    """Which documents the application has, and which it gets next."""

    core: Core
    inbox: Inbox
    out: dict[int, str] = field(default_factory=dict)  #: given and not answered: bref to user
    shelves: dict[str, Shelf] = field(default_factory=dict)
    orders: dict[OrderId, Order] = field(default_factory=dict)
    to_clean: list[int] = field(default_factory=list)

    def shelf(self, user: str) -> Shelf:
        """The shelf of a user of this node; the empty name is the institution itself."""
        shelf = self.shelves.get(user)
        if shelf is None:
            shelf = self.shelves[user] = Shelf(user)
        return shelf

    def take_over(self, other: "Handing") -> None:
        """Go on for an engine whose store was lost: what its applications have they keep, and answer here.

        The very table is shared: answers that the other engine could not note are still on their way to it.
        """
        self.out = other.out

    # --- arriving
    def claim_place(self, unit: Unit, row: Pending, envelope: Envelope) -> bool:
        """Whether the document goes to a consumer in the very commit that records it."""
        shelf = self.shelf(row.target.user)
        # The row itself is among the new ones, and each of those before it may have taken a place.
        return not row.order_key and not shelf.behind and self.inbox.free(row.target.user) >= len(unit.new_pending)

    def arrived(self, rows: list[tuple[Pending, bool]], given: Given) -> None:
        """After the commit that recorded rows, each new for the application or done with: give what was claimed, feed
        the rest."""
        claimed = set()
        for user, delivery in given.deliveries:
            claimed.add(delivery.bref)
            self.out[delivery.bref] = user
            self.inbox.give(user, delivery)
        for row, is_new in rows:
            if not is_new:
                self.finished(row.bref)
                if row.order_key:
                    self._look((row.lk0.store, row.order_key))
            elif row.order_key:
                self._look((row.lk0.store, row.order_key))
            elif row.bref not in claimed:
                self._restock(row.target.user)

    def finished(self, bref: int) -> None:
        """A row may be ready for cleanup; the statement that deletes looks at its state again."""
        self.to_clean.append(bref)

    # --- feeding
    def feed(self, user: str) -> None:
        """A consumer has become free, or rows wait: give what the consumers can take."""
        shelf = self.shelf(user)
        free = self.inbox.free(user)
        if shelf.behind and not shelf.feeding and free > 0:
            shelf.feeding = True
            shelf.low = 1 << 63
            self.core.post(_Feed(self, shelf, min(free, self.core.settings.claim_rows)))
        if free > 0:
            for key in list(self.orders):
                self._look(key)

    def is_feeding(self, user: str) -> bool:
        """Whether rows are being looked at for the free consumers of this user."""
        return self.shelf(user).feeding

    @property
    def is_looking(self) -> bool:
        """Whether the next document of some order is being looked for."""
        return any(order.looking for order in self.orders.values())

    def behind(self, told: Told) -> None:
        """Tell when all that has been posted so far is committed, or why that will not be."""
        self.core.post(_Behind(told))

    def _restock(self, user: str, bref: int | None = None) -> None:
        shelf = self.shelf(user)
        shelf.behind = True
        shelf.arrived += 1
        if bref is not None:
            shelf.cursor = min(shelf.cursor, bref - 1)
            shelf.low = min(shelf.low, bref - 1)
        self.feed(user)

    def _look(self, key: OrderId) -> None:
        order = self.orders.setdefault(key, Order())
        if order.busy:
            return
        if order.looking:
            order.again = True
            return
        order.looking = True
        self.core.post(_FindNext(self, key, order))

    def unblocked(self, store: Store) -> None:
        """Floors of a source store moved: rows that waited for one before them may go."""
        for key, order in list(self.orders.items()):
            if key[0] == store and not order.busy:
                self._look(key)

    # --- the application's answers
    def finish(self, brefs: Sequence[int]) -> None:
        """The application has these documents for good."""
        self.core.post(Handled(self, list(brefs), HandlingHeard.done))

    def fail(self, brefs: Sequence[int], detail: str = "") -> None:
        """The application will never succeed with these: park them for a person."""
        self.core.post(Handled(self, list(brefs), HandlingHeard.fail, detail))

    def park(self, brefs: Sequence[int], why: str, told: Told | None = None) -> None:
        """A person or a worker sets documents aside that wait for the application, or are with it."""
        self.core.post(Handled(self, list(brefs), HandlingHeard.fail, why, AppStatus.NEW, told))

    def requeue(self, brefs: Sequence[int], why: str = "", told: Told | None = None) -> None:
        """A person gives parked documents another chance; it moves them, nothing is copied."""
        self.core.post(Handled(self, list(brefs), HandlingHeard.requeue, f"requeued: {why}", AppStatus.PARKED, told))

    def remove(self, brefs: Sequence[int], why: str, told: Told | None = None) -> None:
        """A person has dealt with parked documents, and with no others: they go; the ledger keeps their story."""
        self.core.post(Handled(self, list(brefs), HandlingHeard.done, f"removed: {why}", AppStatus.PARKED, told))

    def give_back(self, brefs: Sequence[int]) -> None:
        """The application gave these back, or its connection was lost: they are given again, flagged."""
        self.core.post(Handled(self, list(brefs), HandlingHeard.back))

    def _release(self, bref: int) -> None:
        self.out.pop(bref, None)

    def _free(self, bref: int) -> None:
        user = self.out.pop(bref, None)
        for key, order in list(self.orders.items()):
            if order.busy == bref:
                order.busy = 0
                self._look(key)
        if user is not None:
            self._restock(user, bref)


class _Feed(Step):
    """Gives waiting unordered documents to free consumers; notes which orders have documents waiting."""

    def __init__(self, handing: Handing, shelf: Shelf, limit: int) -> None:
        super().__init__()
        self._handing = handing
        self._shelf = shelf
        self._arrived = shelf.arrived
        self._query = Waiting(shelf.user, shelf.cursor, limit)
        self.needs.queries.add(self._query)

    def decide(self, unit: Unit) -> None:
        self._deliveries: list[Delivery] = []
        self._orders: set[OrderId] = set()
        self._cursor = self._query.after
        self._found = bool(unit.found.get(self._query))
        for row in unit.pending_found(self._query):
            self._cursor = row.bref
            if row.app_status is not AppStatus.NEW or row.bref in self._handing.out:
                continue
            if row.order_key:
                self._orders.add((row.lk0.store, row.order_key))
            else:
                delivery = _give(self._handing.core, unit, row)
                self._deliveries += [delivery] if delivery is not None else []

    def committed(self) -> None:
        handing, shelf = self._handing, self._shelf
        shelf.feeding = False
        shelf.cursor = min(self._cursor, shelf.low)
        if not self._found and shelf.arrived == self._arrived:
            shelf.behind = False
        for delivery in self._deliveries:
            handing.out[delivery.bref] = shelf.user
            handing.inbox.give(shelf.user, delivery)
        for key in self._orders:
            handing._look(key)
        handing.feed(shelf.user)

    def failed(self, error: Exception) -> None:
        self._shelf.feeding = False


class _Behind(Step):
    """Reads and writes nothing; its turn comes when everything before it has had its own."""

    def __init__(self, told: Told) -> None:
        super().__init__()
        self._told = told

    def decide(self, unit: Unit) -> None:
        pass

    def committed(self) -> None:
        self._told.done(0)

    def failed(self, error: Exception) -> None:
        self._told.failed(error)


def _give(core: Core, unit: Unit, row: Pending) -> Delivery | None:
    """Count a delivery; None: what is stored cannot be read, and the row is parked so that it holds up no other."""
    stored = unit.pending_bodies.get(row.bref)
    try:
        envelope = decode_envelope(stored)
    except BodyUnreadable as error:
        line = LedgerLine(core.now_ms(), Side.RECEIVER, Event.PARKED, str(row.lk0), str(row.target), row.deliveries,
                          detail=str(error)[:DETAIL_MAX])  # fmt: skip
        unit.handle(row, AppStatus.PARKED)
        unit.ledger.append(line)
        core.count("unreadable")
        return None
    assert stored is not None
    HANDLING.step(HANDLING_OF[row.app_status], HandlingHeard.give)
    row.deliveries += 1
    unit.given.add(row.bref)
    unit.ledger.append(
        LedgerLine(core.now_ms(), Side.RECEIVER, Event.GIVEN, str(row.lk0), str(row.target), row.deliveries)
    )
    return Delivery(row.bref, envelope, stored.payload, row.deliveries > 1, row.deliveries)


class _FindNext(Step):
    """First look: which row is the lowest one waiting for an order."""

    def __init__(self, handing: Handing, key: OrderId, order: Order) -> None:
        super().__init__()
        self._handing = handing
        self._key = key
        self._order = order
        self._query = FirstInOrder(str(key[0]), key[1])
        self.needs.queries.add(self._query)

    def decide(self, unit: Unit) -> None:
        self._row = next(unit.pending_found(self._query), None)

    def committed(self) -> None:
        handing, order, row = self._handing, self._order, self._row
        if row is None:
            order.looking = False
            order.blocked = 0
            if order.again:
                order.again = False
                handing._look(self._key)
            else:
                handing.orders.pop(self._key, None)
            return
        handing.core.post(_GiveOrdered(handing, self._key, order, row))

    def failed(self, error: Exception) -> None:
        self._order.looking = False


class _GiveOrdered(Step):
    """Second look: give the lowest row if the one before it is recorded or settled (rules R23 and R24)."""

    def __init__(self, handing: Handing, key: OrderId, order: Order, row: Pending) -> None:
        super().__init__()
        self._handing = handing
        self._key = key
        self._order = order
        self._user = row.target.user
        self._query = Waiting(self._user, row.bref - 1, 1)
        self._first = FirstInOrder(str(key[0]), key[1])
        self.needs.queries.update((self._query, self._first))
        if row.prev is not None:
            stream = InStreamKey(row.lk0.store, row.prev.inc)
            self.needs.in_streams.add(stream)
            self.needs.recorded.add(Slot(stream, row.prev.sid))

    def decide(self, unit: Unit) -> None:
        self._delivery: Delivery | None = None
        self._blocked = self._passed = 0
        row = next(unit.pending_found(self._first), None)
        waiting = next(unit.pending_found(self._query), None)
        if row is None or waiting is not row or row.app_status is not AppStatus.NEW or row.bref in self._handing.out:
            return
        if _is_overtaking(unit, row):
            return  # we look again: recording that one has asked for it
        if not _may_follow(unit, row):
            self._blocked = row.bref
        elif row.status is not Arrival.RECV:
            # VOID and REJ take their place in the order: what comes after them must not overtake what is before (F3).
            unit.handle(row, ungiven(row))
            self._passed = row.bref
        elif self._handing.inbox.free(self._user) > 0:
            self._delivery = _give(self._handing.core, unit, row)
            self._passed = 0 if self._delivery is not None else row.bref

    def committed(self) -> None:
        handing, order = self._handing, self._order
        order.looking = False
        order.blocked = self._blocked
        if self._delivery is not None:
            order.busy = self._delivery.bref
            handing.out[order.busy] = self._user
            handing.inbox.give(self._user, self._delivery)
            return
        if self._passed:
            handing.finished(self._passed)
        if self._passed or order.again:
            order.again = False
            handing._look(self._key)

    def failed(self, error: Exception) -> None:
        self._order.looking = False


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


HANDLED = {AppStatus.DONE: Event.DONE, AppStatus.PARKED: Event.PARKED, AppStatus.NEW: Event.OPERATOR}


class Handled(Step):
    """What the application said of documents that it has."""

    def __init__(
        self,
        handing: Handing,
        brefs: list[int],
        news: HandlingHeard,
        detail: str = "",
        only: AppStatus | None = None,
        told: Told | None = None,
    ) -> None:
        """``only``: rows that stand elsewhere are left alone; ``told`` hears how many it met, after the commit."""
        super().__init__()
        self._handing = handing
        self._brefs = brefs
        self._news = news
        self._detail = detail.replace("\0", "\N{REPLACEMENT CHARACTER}")[:DETAIL_MAX]
        self._only = only
        self._told = told
        self.needs.pending.update(brefs)

    def decide(self, unit: Unit) -> None:
        core, at = self._handing.core, self._handing.core.now_ms()
        self._rows: list[tuple[Pending, HandlingDeed | None, bool]] = []  #: the last: finished by this work
        for bref in self._brefs:
            row = unit.pending.get(bref)
            if row is None:
                core.count("answer_late")
                continue
            if self._only is not None and row.app_status is not self._only:
                continue
            news = self._news
            if news is HandlingHeard.back and row.deliveries >= core.settings.deliveries_max:
                news = HandlingHeard.fail
            if news is HandlingHeard.requeue and row.status is not Arrival.RECV:
                continue  # nothing readable to give
            rule = HANDLING.step(HANDLING_OF[row.app_status], news)
            if APP_STATUS[rule.after] is not row.app_status:
                unit.handle(row, APP_STATUS[rule.after])
                unit.ledger.append(
                    LedgerLine(
                        at, Side.RECEIVER, HANDLED[row.app_status], str(row.lk0), str(row.target),
                        row.deliveries, detail=self._detail,
                    )
                )  # fmt: skip
            self._rows.append((row, rule.deed, row.app_status is not AppStatus.NEW))

    def committed(self) -> None:
        handing = self._handing
        for bref in self._brefs:
            handing._release(bref)
        for row, deed, is_finished in self._rows:
            if is_finished:
                handing.finished(row.bref)
            key = (row.lk0.store, row.order_key)
            if row.order_key:
                order = handing.orders.setdefault(key, Order())
                if order.busy in (row.bref, 0):
                    order.busy = 0
                    handing._look(key)
            elif deed is HandlingDeed.offer:
                handing._restock(row.target.user, row.bref)
        if self._told is not None:
            self._told.done(len(self._rows))

    def failed(self, error: Exception) -> None:
        handing = self._handing
        handing.core.count("answer_failed")
        if self._only is None:  # the application has answered, and that was not noted
            # Where the store is lost, the next engine gives the document again.
            let_go = handing._release if isinstance(error, Unavailable) else handing._free
            for bref in self._brefs:
                let_go(bref)
        if self._told is not None:
            self._told.failed(error)
