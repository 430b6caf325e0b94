"""Tracks: the waiting rows of one destination or user, by source and priority.

Sources take turns, so that many rows of one do not delay the others. In a source, the highest priority goes first.
"""

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

T = TypeVar("T")


NEVER = 1 << 63  # more than any row number
SOURCES_AT_ONCE = 16  # sources read in one piece of work
TRACKS_AT_ONCE = 2  # tracks of one source in one piece of work
PRIORITY_MAX = 9
AGAIN_MAX = 2  # further reads of a row that Postgres has refused for a cause that may pass


def level(priority: int) -> int:
    """Return the priority, limited to 0 to 9."""
    return min(max(priority, 0), PRIORITY_MAX)


def shares(sources: Sequence[str], limit: int) -> list[tuple[str, int]]:
    """Divide ``limit`` equally among the first SOURCES_AT_ONCE sources; the remainder goes to the first of them."""
    chosen = sources[: min(SOURCES_AT_ONCE, limit)]
    count = len(chosen)
    return [(source, limit // count + (index < limit % count)) for index, source in enumerate(chosen)]


def interleaved(lists: Sequence[Sequence[T]]) -> list[T]:
    """Return the first items of all lists, then the second ones, and so on."""
    most = max(map(len, lists), default=0)
    return [items[index] for index in range(most) for items in lists if index < len(items)]


class Track(Struct):
    """Rows of one source and priority."""

    source: str
    priority: int
    cursor: int = 0  #: rows up to here have been read
    has_waiting: bool = False  #: the store may hold waiting rows
    blocked: bool = False  #: the next row may not be sent yet
    wake_count: int = 0  #: number of calls of ``wake``
    low: int = NEVER  #: lowest row passed to ``wake`` since the last pick, minus one


class Pick(Struct, frozen=True):
    """One read of a track: at most ``limit`` rows above ``after``."""

    track: Track
    limit: int
    after: int
    wake_count: int  #: ``track.wake_count`` when the read was posted


class Tracks:
    """All tracks of one destination or user."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, int], Track] = {}
        self._ready: dict[str, dict[int, Track]] = {}  #: by source, in the order of turns
        self._single = 0  #: number of pieces of work that take one row each
        self._again = 0  #: number of reads of a row after faults that may pass

    @property
    def has_ready(self) -> bool:
        """Whether the store may hold waiting rows that are not blocked."""
        return bool(self._ready)

    @property
    def has_waiting(self) -> bool:
        """Whether the store may hold waiting rows."""
        return bool(self._ready) or any(track.has_waiting for track in self._all.values())

    def wake(self, source: str, priority: int, row: int | None = None) -> None:
        """Note that rows wait from ``row`` on; None: after the cursor."""
        key = (source, priority)
        track = self._all.get(key)
        if track is None:
            track = self._all[key] = Track(source, priority)
        self._wake(track, row)

    def wake_all(self, row: int) -> None:
        """Note that rows from ``row`` on may wait on every track."""
        for track in self._all.values():
            self._wake(track, row)

    def _wake(self, track: Track, row: int | None) -> None:
        track.has_waiting = True
        track.wake_count += 1
        if row is not None:
            track.cursor = min(track.cursor, row - 1)
            track.low = min(track.low, row - 1)
            track.blocked = False  # the row may precede the blocked row
        if not track.blocked:
            self._ready.setdefault(track.source, {})[track.priority] = track

    def unblock(self) -> None:
        for track in self._all.values():
            if track.blocked:
                track.blocked = False
                self._ready.setdefault(track.source, {})[track.priority] = track

    def pick(self, limit: int) -> list[list[Pick]]:
        """Return the reads of the sources whose turn it is, a list for each; the sources share ``limit``."""
        picks = []
        for source, share in shares(list(self._ready), limit):
            self._ready[source] = self._ready.pop(source)  # to the end
            picks.append(self.pick_of(source, share))
        return picks

    def has(self, source: str) -> bool:
        """Return whether the store may hold waiting rows of a source that are not blocked."""
        return source in self._ready

    def pick_of(self, source: str, limit: int) -> list[Pick]:
        """Return reads of the TRACKS_AT_ONCE highest priorities of a source; ``has(source)`` must be true.

        Each read may find ``limit`` rows; the caller uses at most ``limit`` rows of all reads, in their order."""
        levels = self._ready[source]
        picks = []
        for priority in sorted(levels, reverse=True)[:TRACKS_AT_ONCE]:
            track = levels[priority]
            track.low = NEVER
            picks.append(Pick(track, limit, track.cursor, track.wake_count))
        return picks

    def after_refusal(self, taken: Sequence[tuple[Pick, int]], *, is_passing: bool) -> None:
        """Continue after Postgres has refused the rows of a piece of work. ``taken``: its rows, each with its read.

        The same rows are read again, one in each piece of work. A row that is refused alone is passed over: it waits
        for ``wake_all`` or the next start. Before that it is read AGAIN_MAX times if the cause may pass (a deadlock).
        """
        if len(taken) > 1:
            self._single = max(self._single, len(taken))
        elif is_passing and self._again < AGAIN_MAX:
            self._again += 1
            self._single = max(self._single, 1)
        else:
            pick, row = taken[-1]
            self.note_read(pick, row, found=True)

    def limited(self, limit: int) -> int:
        """Return how many rows the next piece of work may take, at most ``limit``."""
        if not self._single:
            return limit
        self._single -= 1
        return min(limit, 1)

    def note_read(self, pick: Pick, cursor: int, *, found: bool, blocked: bool = False) -> None:
        """Note a committed read up to ``cursor``. ``found``: it returned rows; ``blocked``: as in ``Track``."""
        track, self._again = pick.track, 0
        # Not past rows that ``wake`` has named since the pick.
        track.cursor = min(cursor, track.low)
        track.blocked = blocked and track.low == NEVER
        if not found and track.wake_count == pick.wake_count:
            track.has_waiting = False
        if track.blocked or not track.has_waiting:
            levels = self._ready.get(track.source, {})
            levels.pop(track.priority, None)
            if not levels:
                self._ready.pop(track.source, None)
