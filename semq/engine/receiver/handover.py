"""Handing over: received documents reach the application, each at least once, repeats flagged (PROTOCOL.md R6, 11).

A document is given in the commit that records it when a consumer is free and nothing waits before it; otherwise
consumers are fed from tb_0030, sources in turn and by priority (``user_queue``). Documents with an order key go one at
a time (``order``); unordered ones are never held back. A delivery is counted in a commit before it is made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from semq.engine.core import Core, Step, with_why
from semq.engine.ports import Delivery, Inbox
from semq.engine.receiver.delivery import DETAIL_MAX, AfterDelivery, hear
from semq.engine.receiver.order import BlockedOrders, FindNext, Order, OrderId
from semq.engine.receiver.user_queue import Feed, ReadTracks, Shelf
from semq.engine.time.cleanup import leave
from semq.errors import Unavailable
from semq.foreign_text import shortened
from semq.store.rows import InStreamKey, Pending
from semq.store.unit import Unit
from semq.umx_t.envelope import Envelope
from semq.umx_t.grids import HandlingHeard
from semq.umx_t.status import AppStatus, Arrival


@dataclass(frozen=True, slots=True)
class ActReport:
    """Who hears, after the commit, how many rows an act has met, or why it has failed."""

    done: Callable[[int], None]
    failed: Callable[[Exception], None]


@dataclass(slots=True)
class Handing:
    """Which documents the application has, and which it gets next."""

    core: Core
    inbox: Inbox
    out: dict[int, str] = field(default_factory=dict)  #: given and not answered: bref to user
    in_order: dict[int, OrderId] = field(default_factory=dict)  #: of those the ones with an order key
    shelves: dict[str, Shelf] = field(default_factory=dict)
    orders: dict[OrderId, Order] = field(default_factory=dict)
    blocked: BlockedOrders = field(default_factory=BlockedOrders)
    looks: int = 0  #: at orders, under way
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

    def arrived(self, rows: list[tuple[Pending, bool]], given: Sequence[Delivery]) -> None:
        """After the commit that recorded rows, each new for the application or done with: give what was claimed, feed
        the rest."""
        claimed = set()
        for delivery in given:
            user = delivery.envelope.target.user
            claimed.add(delivery.bref)
            self.out[delivery.bref] = user
            self.inbox.give(user, delivery)
        for row, is_new in rows:
            if not is_new:
                self.finished(row.bref)
            if row.order_key:
                self._arrived_in_order(row)
            elif is_new and row.bref not in claimed:
                self._restock(row)

    def _arrived_in_order(self, row: Pending) -> None:
        """An order that is known is looked at if it waits for something; a new one has its turn behind what waits."""
        key = (row.lk0.store, row.order_key)
        if key in self.orders or not self.shelf(row.target.user).behind:
            self.look(key, row.target.user)
        else:
            self._restock(row)

    def finished(self, bref: int) -> None:
        """A row may be ready for cleanup; the statement that deletes looks at its state again."""
        self.to_clean.append(bref)

    # --- feeding
    def feed(self, user: str) -> None:
        """A consumer has become free, or rows wait: give what the consumers can take."""
        shelf = self.shelf(user)
        while shelf.behind and not shelf.feeding and (free := self.inbox.free(user)) > 0:
            if not shelf.known:
                shelf.feeding = True
                self.core.post(ReadTracks(self, shelf))
                return
            keys, picks = shelf.pick(min(free, self.core.settings.claim_rows))
            if picks:
                shelf.feeding = True
                self.core.post(Feed(self, shelf, picks))
            if sum(self.look(key, user) for key in keys) or picks:
                return  # each of these feeds again when it has ended

    def is_feeding(self, user: str) -> bool:
        """Whether rows are being looked at for the free consumers of this user."""
        return self.shelf(user).feeding

    @property
    def is_looking(self) -> bool:
        """Whether the next document of some order is being looked for."""
        return self.looks > 0

    def behind(self, told: ActReport) -> None:
        """Tell when all that has been posted so far is committed, or why that will not be."""
        self.core.post(_Behind(told))

    def _restock(self, row: Pending, bref: int | None = None) -> None:
        self.shelf(row.target.user).wake(row.source, row.priority, bref)
        self.feed(row.target.user)

    def look(self, key: OrderId, user: str) -> bool:
        """Look for the next document of an order for a place of ``user``; False if the application has one of it."""
        order = self.orders.setdefault(key, Order())
        if order.busy:
            return False
        if order.looking:
            order.again = True
            return True
        order.looking, order.again = True, False
        self.looks += 1
        self.core.post(FindNext(self, key, order, user))
        return True

    def ended_look(self, order: Order) -> None:
        """A look at an order has come to its end."""
        order.looking = False
        self.looks -= 1

    def _next_of(self, key: OrderId, user: str) -> None:
        """The next document of an order may be given, when its source has its turn."""
        self.shelf(user).ready(key)
        self.feed(user)

    def unblocked(self, stream: InStreamKey, floor: int, closed: int | None) -> None:
        """A floor moved, or an incarnation is over: documents that waited for one before them may go."""
        for key in self.blocked.freed(stream, floor, closed):
            order = self.orders.get(key)
            if order is not None and not order.busy:
                self._next_of(key, order.user)

    # --- the application's answers
    def finish(self, brefs: Sequence[int]) -> None:
        """The application has these documents for good."""
        # The application waits for no answer; where there is an order, the next document of it waits for this one.
        self.core.post(Handled(self, list(brefs), HandlingHeard.done), later=not self.orders)

    def fail(self, brefs: Sequence[int], detail: str = "") -> None:
        """The application will never succeed with these: park them for a person."""
        self.core.post(Handled(self, list(brefs), HandlingHeard.fail, detail))

    def park(self, brefs: Sequence[int], why: str, told: ActReport | None = None) -> None:
        """A person or a worker sets documents aside that wait for the application, or are with it."""
        self.core.post(Handled(self, list(brefs), HandlingHeard.fail, why, AppStatus.NEW, told))

    def requeue(self, brefs: Sequence[int], why: str = "", told: ActReport | None = None) -> None:
        """A person gives parked documents another chance; it moves them, nothing is copied."""
        self.core.post(
            Handled(self, list(brefs), HandlingHeard.requeue, with_why("requeued", why), AppStatus.PARKED, told)
        )

    def remove(self, brefs: Sequence[int], why: str, told: ActReport | None = None) -> None:
        """A person has dealt with parked documents, and with no others: they go; the ledger keeps their story."""
        self.core.post(Handled(self, list(brefs), HandlingHeard.done, with_why("removed", why), AppStatus.PARKED, told))

    def give_back(self, brefs: Sequence[int]) -> None:
        """The application gave these back, or its connection was lost: they are given again, flagged."""
        self.core.post(Handled(self, list(brefs), HandlingHeard.back))

    def give_in_order(self, key: OrderId, user: str, delivery: Delivery) -> None:
        """Hand over the document that has its turn in an order."""
        self.out[delivery.bref] = user
        self.in_order[delivery.bref] = key
        self.inbox.give(user, delivery)

    def _release(self, bref: int) -> None:
        self.out.pop(bref, None)
        self.in_order.pop(bref, None)

    def _free(self, bref: int) -> None:
        user, key = self.out.pop(bref, None), self.in_order.pop(bref, None)
        order = self.orders.get(key) if key is not None else None
        if key is not None and order is not None and order.busy == bref:
            order.busy = 0
            self.look(key, user or "")
        if user is not None:
            self.shelf(user).wake_all(bref)
            self.feed(user)


class _Behind(Step):
    """Reads and writes nothing; its turn comes when everything before it has had its own."""

    def __init__(self, told: ActReport) -> None:
        super().__init__()
        self._told = told

    def decide(self, unit: Unit) -> None:
        pass

    def committed(self) -> None:
        self._told.done(0)

    def failed(self, error: Exception) -> None:
        self._told.failed(error)


class Handled(Step):
    """What the application said of documents that it has."""

    def __init__(
        self,
        handing: Handing,
        brefs: list[int],
        news: HandlingHeard,
        detail: str = "",
        only: AppStatus | None = None,
        told: ActReport | None = None,
    ) -> None:
        """``only``: rows that stand elsewhere are left alone; ``told`` hears how many it met, after the commit."""
        super().__init__()
        self._handing = handing
        self._brefs = brefs
        self._news = news
        self._detail = shortened(detail.replace("\0", "\N{REPLACEMENT CHARACTER}"), DETAIL_MAX)
        self._only = only
        self._told = told
        self.needs.pending.update(brefs)

    def decide(self, unit: Unit) -> None:
        core = self._handing.core
        self._after = AfterDelivery(core.now_ms())
        self._rows: list[Pending] = []
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
            hear(unit, row, news, self._after, self._detail)
            leave(core, unit, row)
            self._rows.append(row)

    def committed(self) -> None:
        handing = self._handing
        for bref in self._brefs:
            handing._release(bref)
        for row in self._rows:
            key = (row.lk0.store, row.order_key)
            if row.order_key:
                order = handing.orders.setdefault(key, Order())
                if order.busy in (row.bref, 0):
                    order.busy = 0
                    handing._next_of(key, row.target.user)
        for row in self._after.offered:
            if not row.order_key:
                handing._restock(row, row.bref)
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
