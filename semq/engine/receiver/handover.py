"""Handover of received documents to the application (PROTOCOL.md R6 and section 11).

The delivery of a document is decided in the commit that records it if a consumer is free and nothing waits before the
document. Otherwise the document waits in tb_0030 for its turn (``user_queue``, ``order``). A delivery is counted in a
commit before it is made.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from semq.engine.core import Core
from semq.engine.ports import Delivery, Inbox
from semq.engine.receiver.delivery import deliver, status_without_delivery
from semq.engine.receiver.order import (
    BlockedOrders,
    Order,
    OrderId,
    is_predecessor_in_unit,
    may_follow,
    predecessor_needs,
)
from semq.engine.receiver.user_queue import UserQueue
from semq.engine.time.cleanup import delete_if_done
from semq.engine.tracks import Pick, interleaved
from semq.store.postgres.errors import RowRefused
from semq.store.rows import InStreamKey, Pending
from semq.store.unit import FirstInOrder, InboxTracks, Needs, StoppedOrder, Unit, Waiting
from semq.store.work import COMMITTED, Steps, work
from semq.umx_t.locator import Pos
from semq.umx_t.status import AppStatus, Arrival

SEARCHES_MAX = 128  # under way for one source; each delays the documents of all sources


class Handover:
    """Delivers documents to consumers, and keeps a list of the documents that applications have not answered."""

    def __init__(self, core: Core, inbox: Inbox, finished: Sequence[int] = ()) -> None:
        """``finished``: rows that wait for cleanup when the process starts."""
        self.core = core
        self._inbox = inbox
        self.out: dict[int, str] = {}  #: delivered and not answered: bref to user
        self._in_order: dict[int, OrderId] = {}  #: the rows of ``out`` that have an order key: bref to order
        self.queues: dict[str, UserQueue] = {}
        self.orders: dict[OrderId, Order] = {}
        self._blocked = BlockedOrders()
        self._searches: Counter[str] = Counter()  #: number of searches under way, by source
        #: searches that wait for others of their source: by source and order, the user, and ``is_in_turn``
        self._postponed: dict[str, dict[OrderId, tuple[str, bool]]] = {}
        self.to_clean = list(finished)

    def queue_of(self, user: str) -> UserQueue:
        """Return the queue of a user; an empty name means the institution."""
        queue = self.queues.get(user)
        if queue is None:
            queue = self.queues[user] = UserQueue(user)
        return queue

    def take_over(self, old: "Handover") -> None:
        """Continue for the previous engine. Both share ``out``: answers may still reach ``old``."""
        self.out = old.out

    # --- arriving
    def is_given_at_once(self, unit: Unit, row: Pending) -> bool:
        """Whether the document is given to a consumer in the commit that records it."""
        queue = self.queue_of(row.target.user)
        # Each new row of ``unit``, this one included, may take a place.
        return (
            not row.order_key and not queue.has_waiting and self._inbox.free(row.target.user) >= len(unit.new_pending)
        )

    def note_recorded(self, rows: list[tuple[Pending, bool]], given: Sequence[Delivery]) -> None:
        """Continue after a commit. ``rows``: recorded rows; True: the row waits for the application. ``given``: decided
        deliveries.
        """
        claimed = set()
        for delivery in given:
            user = delivery.envelope.target.user
            claimed.add(delivery.bref)
            self.out[delivery.bref] = user
            self._inbox.give(user, delivery)
        for row, waits in rows:
            if not waits:
                self.note_finished(row.bref)
            if row.order_key:
                self._arrived_in_order(row)
            elif waits and row.bref not in claimed:
                self.note_waiting(row)

    def _arrived_in_order(self, row: Pending) -> None:
        """Search for the next document of a row's order. If the order is new and other rows of the user wait, queue the
        row instead."""
        key = (row.lk0.store, row.order_key)
        order = self.orders.get(key)
        if order is not None and order.blocked and not order.searching and row.lk0.object_id > order.blocked_id:
            return  # an earlier one waits for its predecessor
        if row.status is not Arrival.RECV:
            self.continue_order(key, row.target.user)  # it ends without a consumer
        elif key in self.orders or not self.queue_of(row.target.user).has_waiting:
            self.search(key, row.target.user)
        else:
            self.note_waiting(row)

    def note_finished(self, bref: int) -> None:
        """Note that a row may be ready for cleanup."""
        self.to_clean.append(bref)

    # --- feeding
    def feed(self, user: str) -> None:
        """Deliver as many documents as the consumers can take."""
        queue = self.queue_of(user)
        while queue.has_waiting and not queue.is_feeding and (free := self._inbox.free(user)) > 0:
            if not queue.is_known:
                queue.is_feeding = True
                self.core.post(self._read_tracks(queue), failed=lambda error: queue.note_fed())
                return
            keys, picks = queue.pick(queue.tracks.limited(min(free, self.core.settings.claim_rows)))
            if picks:
                queue.is_feeding = True
                taken: list[tuple[Pick, int]] = []
                self.core.post(self._feed(queue, picks, taken), failed=partial(self._not_fed, queue, taken))
            if sum(self.search(key, user) for key in keys) or picks:
                return  # ``feed`` is called again when this work ends

    def _not_fed(self, queue: UserQueue, taken: list[tuple[Pick, int]], error: Exception) -> None:
        queue.note_fed()
        if isinstance(error, RowRefused) and taken:
            queue.tracks.after_refusal(taken, is_passing=error.is_passing)
            self.feed(queue.user)

    def is_feeding(self, user: str) -> bool:
        return self.queue_of(user).is_feeding

    @property
    def is_searching(self) -> bool:
        return bool(self._searches)

    def note_waiting(self, row: Pending, bref: int | None = None) -> None:
        """Queue a row, and deliver to free consumers. ``bref``: the number from which the track is read again."""
        self.queue_of(row.target.user).wake(row.source, row.priority, bref)
        self.feed(row.target.user)

    # --- documents in order
    def search(self, key: OrderId, user: str, *, is_in_turn: bool = True) -> bool:
        """Search for the next document of an order, for a free consumer of ``user``. Return False, without a search, if
        the application has a document of the order. ``is_in_turn``: the document need not wait for others of its user.
        """
        order = self.orders.setdefault(key, Order(user=user))
        if order.busy:
            return False
        if order.searching:
            order.again = True
            return True
        source = str(key[0].node)
        if self._searches[source] >= SEARCHES_MAX:
            postponed = self._postponed.setdefault(source, {})
            postponed[key] = user, is_in_turn or (key in postponed and postponed[key][1])
            return True
        order.searching, order.again = True, False
        self._searches[source] += 1
        self.core.post(self._find_next(key, order, user, is_in_turn), failed=partial(self._search_failed, key, order))
        return True

    def _end_search(self, key: OrderId, order: Order) -> None:
        order.searching = False
        source = str(key[0].node)
        self._searches[source] -= 1
        if not self._searches[source]:
            del self._searches[source]
        postponed = self._postponed.get(source)
        while postponed and self._searches[source] < SEARCHES_MAX:
            first = next(iter(postponed))
            user, is_in_turn = postponed.pop(first)
            self.search(first, user, is_in_turn=is_in_turn)
        if not postponed:
            self._postponed.pop(source, None)

    def _search_failed(self, key: OrderId, order: Order, error: Exception) -> None:
        self._end_search(key, order)
        if isinstance(error, RowRefused) and not error.is_passing:
            self.feed(order.user)  # the order waits for its next document or the next start, the others go on
        else:
            self.queue_of(order.user).note_ready(key)

    def continue_order(self, key: OrderId, user: str) -> None:
        """Find the next document of an order, deliver it in its turn, and deliver to free consumers of ``user``."""
        # The search does not wait for a place of ``user``: the next document may be for another one, or end without a
        # consumer (VOID, REJ).
        if not self.search(key, user, is_in_turn=False):
            self.feed(user)

    def continue_orders(self, orders: Iterable[StoppedOrder]) -> None:
        """Continue orders at the start of the engine: without a consumer nothing else begins a search."""
        for each in orders:
            self.continue_order((each.store, each.order_key), each.user)

    def note_floor(self, stream: InStreamKey, floor: int, closed: int | None) -> None:
        """Deliver documents whose predecessor is below a new floor, or was never sent because its incarnation is
        closed."""
        for key in self._blocked.freed(stream, floor, closed):
            order = self.orders.get(key)
            if order is not None and not order.busy:
                self.continue_order(key, order.user)

    # --- answers of the application
    def note_answered(self, row: Pending) -> None:
        key = (row.lk0.store, row.order_key)
        if row.order_key:
            order = self.orders.setdefault(key, Order(user=row.target.user))
            if order.busy in (row.bref, 0):
                order.busy = 0
                self.continue_order(key, row.target.user)

    def release(self, bref: int) -> None:
        """Note that the application does not have a document any more."""
        self.out.pop(bref, None)
        self._in_order.pop(bref, None)

    def deliver_again(self, bref: int) -> None:
        """Deliver a document again: the application's answer could not be committed."""
        user, key = self.out.pop(bref, None), self._in_order.pop(bref, None)
        order = self.orders.get(key) if key is not None else None
        if key is not None and order is not None and order.busy == bref:
            order.busy = 0
            self.search(key, user or "")
        if user is not None:
            self.queue_of(user).wake_all(bref)
            self.feed(user)

    # --- work
    @work
    def _read_tracks(self, queue: UserQueue) -> Steps:
        """Read which tracks (source and priority) of a user have waiting rows."""
        query = InboxTracks(queue.user)
        unit = yield Needs(queries={query})
        found: list[tuple[str, int]] = list(unit.found.get(query, ()))
        yield COMMITTED
        queue.note_fed(is_known=True)
        for source, priority in found:
            queue.wake(source, priority)
        self.feed(queue.user)

    @work
    def _feed(self, queue: UserQueue, picks: list[list[Pick]], taken: list[tuple[Pick, int]]) -> Steps:
        """Deliver rows. ``taken`` gets them, for the case that Postgres refuses one of them."""
        bytes_max = self.core.settings.claim_bytes // len(picks)
        sources = [[(pick, _query(queue, pick, bytes_max)) for pick in source] for source in picks]
        unit = yield Needs(queries={query for source in sources for _, query in source})
        taken.clear()
        deliveries: list[list[Delivery]] = []
        orders: dict[OrderId, None] = {}
        ends: list[tuple[Pick, int, bool]] = []
        for source in sources:
            given: list[Delivery] = []
            remaining = source[0][0].limit
            for pick, query in source:
                cursor = pick.after
                for row in islice(unit.pending_found(query), remaining):
                    cursor = row.bref
                    taken.append((pick, cursor))
                    remaining -= 1
                    given += self._given(unit, row, orders)
                found = unit.found.get(query) or ()
                ends.append((pick, cursor, bool(found)))
                if query.is_cut(found):
                    break  # more rows of this priority may wait
            deliveries.append(given)
        yield COMMITTED
        queue.note_fed()
        for pick, cursor, is_found in ends:
            queue.tracks.note_read(pick, cursor, found=is_found)
        for delivery in interleaved(deliveries):
            self.out[delivery.bref] = queue.user
            self._inbox.give(queue.user, delivery)
        for key in orders:
            self.search(key, queue.user)
        self.feed(queue.user)

    def _given(self, unit: Unit, row: Pending, orders: dict[OrderId, None]) -> Iterator[Delivery]:
        """Count and yield the delivery of a row. With an order key, add the order to ``orders`` if it is new."""
        if row.app_status is not AppStatus.NEW or row.bref in self.out:
            return
        if not row.order_key:
            delivery = deliver(self.core, unit, row)
            if delivery is not None:
                yield delivery
        elif (key := (row.lk0.store, row.order_key)) not in self.orders:
            orders[key] = None

    @work
    def _find_next(self, key: OrderId, order: Order, user: str, is_in_turn: bool) -> Steps:
        """Find the lowest waiting row of an order, for ``_give_next``. If it is not its turn, queue the order for its
        user."""
        query = FirstInOrder(str(key[0]), key[1])
        unit = yield Needs(queries={query})
        row = next(unit.pending_found(query), None)
        yield COMMITTED
        if row is None or row.target.user != order.user:
            self.queue_of(order.user).forget(key)
        if row is not None:
            order.user = row.target.user
            if not is_in_turn and self._waits_for_turn(row):
                self._end_search(key, order)
                self.queue_of(order.user).note_ready(key)
                self.feed(order.user)
                if user != order.user:
                    self.feed(user)  # the free consumer was not used
                return
            following = self._give_next(key, order, row, user)
            self.core.post(following, failed=partial(self._search_failed, key, order))
            return
        self._end_search(key, order)
        order.blocked = 0
        if order.again:
            self.search(key, user)
        else:
            self.orders.pop(key, None)
            self.feed(user)  # the free consumer was not used

    def _waits_for_turn(self, row: Pending) -> bool:
        """Whether other documents of the user go first. Without a free place, nothing needs a turn."""
        user = row.target.user
        return row.status is Arrival.RECV and self.queue_of(user).has_waiting and self._inbox.free(user) > 0

    @work
    def _give_next(self, key: OrderId, order: Order, lowest: Pending, user_in_turn: str) -> Steps:
        """Deliver the lowest row of an order if its predecessor is recorded or settled (rules N23 and N24).

        ``user_in_turn``: the user with a free consumer, not necessarily the user of the row.
        """
        user = lowest.target.user
        waiting = Waiting(user, lowest.source, lowest.priority, lowest.bref - 1, 1)
        first = FirstInOrder(str(key[0]), key[1])
        needs = predecessor_needs(lowest)
        # ``waiting`` loads the body. Without a free place, the search can only end the row or find what it waits for.
        with_body = self._inbox.free(user) > 0
        needs.queries = {waiting, first} if with_body else {first}
        unit = yield needs
        now = next(unit.pending_found(first), None)
        loaded = next(unit.pending_found(waiting), None) if with_body else now
        is_lowest = now is not None and now.bref == lowest.bref and now is loaded
        result = self._decide(unit, now, with_body) if now is not None and is_lowest else _SearchResult()
        yield COMMITTED
        self._end_search(key, order)
        if result.prev is not None and order.blocked != result.blocked:
            self._blocked.add(key, result.prev)
        order.blocked, order.blocked_id = result.blocked, lowest.lk0.object_id
        if result.delivery is not None:
            order.busy = result.delivery.bref
            self.out[order.busy], self._in_order[order.busy] = user, key
            self._inbox.give(user, result.delivery)
        elif result.is_passed or order.again:
            self.search(key, user_in_turn)
            return
        elif result.has_no_place:
            self.queue_of(user).note_ready(key)
            self.feed(user)
        self.feed(user_in_turn)  # the free consumer may not have been used

    def _decide(self, unit: Unit, row: Pending, with_body: bool) -> "_SearchResult":
        """Deliver the lowest row of an order, if its body is loaded; end it, or return why it waits."""
        if row.app_status is not AppStatus.NEW or row.bref in self.out:
            return _SearchResult()
        if is_predecessor_in_unit(unit, row):
            return _SearchResult()  # the recording of the predecessor has requested another search
        if not may_follow(unit, row):
            return _SearchResult(blocked=row.bref, prev=row.prev)
        if row.status is not Arrival.RECV:
            # VOID and REJ must not end before their turn: a successor could overtake a predecessor (F3).
            unit.change_app_status(row, status_without_delivery(row))
            delete_if_done(self.core, unit, row)
            return _SearchResult(is_passed=True)
        if not with_body or self._inbox.free(row.target.user) <= len(unit.given):
            return _SearchResult(has_no_place=True)  # other searches of this unit may take the same place
        delivery = deliver(self.core, unit, row)
        return _SearchResult(delivery, is_passed=delivery is None)


class _SearchResult(NamedTuple):
    """The result of a search."""

    delivery: Delivery | None = None
    blocked: int = 0  #: the row that waits for its predecessor, at position ``prev``
    prev: Pos | None = None
    is_passed: bool = False  #: the row has ended without a delivery
    has_no_place: bool = False  #: no consumer is free


def _query(queue: UserQueue, pick: Pick, bytes_max: int) -> Waiting:
    return Waiting(queue.user, pick.track.source, pick.track.priority, pick.after, pick.limit, bytes_max)
