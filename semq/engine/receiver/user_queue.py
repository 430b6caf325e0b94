"""What waits for the consumers of one user: sources take turns, and of one source the highest priority comes first.

A source's turn gives it its share of the free places: first the next documents of its order keys whose last one was
finished, then rows of its first track. Volatile, rebuilt from tb_0030 when the first consumer comes. Used by
``handover``.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from semq.engine.core import Step
from semq.engine.ports import Delivery
from semq.engine.receiver.delivery import deliver
from semq.engine.receiver.order import OrderId
from semq.engine.tracks import Pick, Tracks, interleaved, shares
from semq.store.rows import Pending
from semq.store.unit import Unit, Waiting, WaitingTracks
from semq.umx_t.status import AppStatus

if TYPE_CHECKING:
    from semq.engine.receiver.handover import Handing


@dataclass(slots=True)
class SourceTurns:
    """What one source has for its next turns, beside its tracks."""

    keys: deque[OrderId] = field(default_factory=deque)  #: orders whose next document may be given
    is_row_next: bool = False  #: where there is one place only: orders and tracks alternate


@dataclass(slots=True)
class Shelf:
    """One user's; the empty name is the institution itself."""

    user: str
    known: bool = False  #: the tracks that the store holds have been read
    tracks: Tracks = field(default_factory=Tracks)
    sources: dict[str, SourceTurns] = field(
        default_factory=dict
    )  #: with something to give, in the order of their next turns
    feeding: bool = False

    @property
    def behind(self) -> bool:
        """Whether something waits, so that nothing new may be given past it."""
        return not self.known or bool(self.sources)

    def wake(self, source: str, priority: int, bref: int | None = None) -> None:
        """Rows wait: from ``bref`` on, or from where their track has come to."""
        self.tracks.wake(source, priority, bref)
        self.sources.setdefault(source, SourceTurns())

    def wake_all(self, bref: int) -> None:
        """Rows from ``bref`` on may wait on any track: all are read anew."""
        self.tracks.wake_all(bref)
        self.known = False

    def ready(self, key: OrderId) -> None:
        """The next document of an order may be given when its source has its turn."""
        self.sources.setdefault(str(key[0].node), SourceTurns()).keys.append(key)

    def pick(self, limit: int) -> tuple[list[OrderId], list[list[Pick]]]:
        """What fills ``limit`` places: orders to look at, and rows to look for."""
        keys: list[OrderId] = []
        picks: list[list[Pick]] = []
        for source in [name for name, turns in self.sources.items() if not turns.keys and not self.tracks.has(name)]:
            del self.sources[source]
        for source, share in shares(list(self.sources), limit):
            turns = self.sources[source] = self.sources.pop(source)  # behind the others
            for _ in range(self._keys_of(source, turns, share)):
                keys.append(turns.keys.popleft())
                share -= 1
            if share and self.tracks.has(source):
                picks.append(self.tracks.pick_of(source, share))
        return keys, picks

    def _keys_of(self, source: str, turns: SourceTurns, share: int) -> int:
        """How many places of a share orders get: half of them, as long as rows wait too."""
        if self.tracks.has(source):
            if turns.keys and share == 1:
                turns.is_row_next = not turns.is_row_next
                return int(turns.is_row_next)
            share = (share + 1) // 2
        return min(len(turns.keys), share)


class ReadTracks(Step):
    """Finds out which tracks the store holds for a user: once in a life of the process."""

    def __init__(self, handing: "Handing", shelf: Shelf) -> None:
        super().__init__()
        self._handing = handing
        self._shelf = shelf
        self._query = WaitingTracks(shelf.user)
        self.needs.queries.add(self._query)

    def decide(self, unit: Unit) -> None:
        self._found: list[tuple[str, int]] = list(unit.found.get(self._query, ()))

    def committed(self) -> None:
        self._shelf.feeding, self._shelf.known = False, True
        for source, priority in self._found:
            self._shelf.wake(source, priority)
        self._handing.feed(self._shelf.user)

    def failed(self, error: Exception) -> None:
        self._shelf.feeding = False


class Feed(Step):
    """Gives waiting documents to free consumers; of those with an order key it names the orders to look at."""

    def __init__(self, handing: "Handing", shelf: Shelf, picks: list[list[Pick]]) -> None:
        super().__init__()
        self._handing = handing
        self._shelf = shelf
        self._looks = [[(pick, self._query(pick)) for pick in source] for source in picks]
        self.needs.queries.update(query for source in self._looks for _, query in source)

    def _query(self, pick: Pick) -> Waiting:
        return Waiting(self._shelf.user, pick.track.source, pick.track.priority, pick.after, pick.limit)

    def decide(self, unit: Unit) -> None:
        deliveries: list[list[Delivery]] = []
        self._orders: dict[OrderId, None] = {}
        self._ends: list[tuple[Pick, int, bool]] = []
        for source in self._looks:
            given: list[Delivery] = []
            left = source[0][0].limit
            for pick, query in source:
                cursor = pick.after
                for row in islice(unit.pending_found(query), left):
                    cursor = row.bref
                    left -= 1
                    given += self._look(unit, row)
                found = unit.found.get(query) or ()
                self._ends.append((pick, cursor, bool(found)))
                if len(found) >= pick.limit:
                    break  # more of this priority may wait behind rows that have ended in this very unit
            deliveries.append(given)
        self._deliveries = interleaved(deliveries)

    def _look(self, unit: Unit, row: Pending) -> list[Delivery]:
        handing = self._handing
        if row.app_status is not AppStatus.NEW or row.bref in handing.out:
            return []
        if not row.order_key:
            delivery = deliver(handing.core, unit, row)
            return [delivery] if delivery is not None else []
        if (key := (row.lk0.store, row.order_key)) not in handing.orders:
            self._orders[key] = None  # one that is there is looked at when what it waits for has come
        return []

    def committed(self) -> None:
        handing, shelf = self._handing, self._shelf
        shelf.feeding = False
        for pick, cursor, found in self._ends:
            shelf.tracks.looked(pick, cursor, found=found)
        for delivery in self._deliveries:
            handing.out[delivery.bref] = shelf.user
            handing.inbox.give(shelf.user, delivery)
        for key in self._orders:
            handing.look(key, shelf.user)
        handing.feed(shelf.user)

    def failed(self, error: Exception) -> None:
        self._shelf.feeding = False
