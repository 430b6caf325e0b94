"""Documents that wait for the consumers of one user: sources take turns, and each delivers its highest priority first.

In its turn a source gets a share of the free places of the consumers. Half of the share goes to the next documents of
its order keys, the rest to rows of its tracks (``tracks``). If only one of the two waits, it gets the whole share.
"""

from itertools import islice

from msgspec import Struct, field

from semq.engine.receiver.order import OrderId
from semq.engine.tracks import Pick, Tracks, shares


class SourceTurns(Struct):
    """The orders of one source that wait for its turns; its tracks are in ``UserQueue.tracks``."""

    keys: dict[OrderId, None] = field(default_factory=dict)  #: orders whose next document may be given, in turn
    #: Whether the next share of one place goes to a track; orders and tracks get these shares alternately.
    is_row_next: bool = False


class UserQueue(Struct):
    """The waiting documents of one user; the empty name is the institution itself."""

    user: str
    is_known: bool = False  #: the tracks that the store holds have been read
    tracks: Tracks = field(default_factory=Tracks)
    #: Sources with documents to deliver, in the order of their next turns.
    sources: dict[str, SourceTurns] = field(default_factory=dict)
    is_feeding: bool = False  #: work that delivers rows or reads tracks is under way

    @property
    def has_waiting(self) -> bool:
        """Whether documents wait; a new document must not overtake them."""
        return not self.is_known or bool(self.sources)

    def wake(self, source: str, priority: int, bref: int | None = None) -> None:
        """Note that rows wait from ``bref`` on; None: after the cursor of their track."""
        self.tracks.wake(source, priority, bref)
        self.sources.setdefault(source, SourceTurns())

    def note_fed(self, *, is_known: bool | None = None) -> None:
        self.is_feeding = False
        self.is_known = self.is_known if is_known is None else is_known

    def wake_all(self, bref: int) -> None:
        """Note that rows from ``bref`` on may wait on any track, also on one that is not known yet."""
        self.tracks.wake_all(bref)
        self.is_known = False

    def note_ready(self, key: OrderId) -> None:
        """Note that the next document of an order may be delivered in the next turn of its source."""
        self.sources.setdefault(str(key[0].node), SourceTurns()).keys.setdefault(key)

    def forget(self, key: OrderId) -> None:
        """Remove an order that ``note_ready`` has added."""
        turns = self.sources.get(str(key[0].node))
        if turns is not None:
            turns.keys.pop(key, None)

    def pick(self, limit: int) -> tuple[list[OrderId], list[list[Pick]]]:
        """Return orders and reads of tracks that fill ``limit`` places; the orders are removed from the queue."""
        keys: list[OrderId] = []
        picks: list[list[Pick]] = []
        for source in [name for name, turns in self.sources.items() if not turns.keys and not self.tracks.has(name)]:
            del self.sources[source]
        for source, share in shares(list(self.sources), limit):
            turns = self.sources[source] = self.sources.pop(source)  # its next turn is after those of all others
            taken = list(islice(turns.keys, self._take_places_for_orders(source, turns, share)))
            for key in taken:
                del turns.keys[key]
            keys += taken
            share -= len(taken)
            if share and self.tracks.has(source):
                picks.append(self.tracks.pick_of(source, share))
        return keys, picks

    def _take_places_for_orders(self, source: str, turns: SourceTurns, share: int) -> int:
        if self.tracks.has(source):
            if turns.keys and share == 1:
                turns.is_row_next = not turns.is_row_next
                return int(turns.is_row_next)
            share = (share + 1) // 2
        return min(len(turns.keys), share)
