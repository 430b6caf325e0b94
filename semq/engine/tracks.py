"""Rows that wait for one destination, or for one user: by source and priority, each track with its own cursor.

Sources take turns, so that a flood of one keeps no other waiting; within a source the highest priority goes first.
Volatile: rebuilt from the store when the process starts. Used by ``sender.lanes`` for what leaves, by
``receiver.user_queue`` for what is given to applications.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


NEVER = 1 << 63
SOURCES_AT_ONCE = 16  # of which rows are looked for in one piece of work
TRACKS_AT_ONCE = 2  # of one source
PRIORITY_MAX = 9


def level(priority: int) -> int:
    """The priority of a document (AMQP has a byte for it) as one of the ten that are told apart."""
    return min(max(priority, 0), PRIORITY_MAX)


def shares(sources: Sequence[str], limit: int) -> list[tuple[str, int]]:
    """Divide ``limit`` equally among the next sources; the first ones get one more of the remainder."""
    chosen = sources[: min(SOURCES_AT_ONCE, limit)]
    count = len(chosen)
    return [(source, limit // count + (place < limit % count)) for place, source in enumerate(chosen)]


def interleaved(lists: Sequence[Sequence[T]]) -> list[T]:
    """The first of each, then the second of each: what several sources send or get together, in turns."""
    most = max(map(len, lists), default=0)
    return [one[place] for place in range(most) for one in lists if place < len(one)]


@dataclass(slots=True)
class Track:
    """Rows of one source and priority."""

    source: str
    priority: int
    cursor: int = 0  #: rows up to here have been looked at
    behind: bool = False  #: the store may hold rows that wait
    blocked: bool = False  #: the next row may not go yet
    arrived: int = 0  #: how many commits have left rows waiting
    low: int = NEVER  #: lowest row that came back since the last look was posted, less one


@dataclass(slots=True, frozen=True)
class Pick:
    """One look at a track: up to so many rows, and what was known of it when it was posted."""

    track: Track
    limit: int
    after: int
    arrived: int


class Tracks:
    """The tracks of one destination or user."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, int], Track] = {}
        self._ready: dict[str, dict[int, Track]] = {}  #: by source, in the order of their next turns

    @property
    def ready(self) -> bool:
        """Whether rows may wait that may go."""
        return bool(self._ready)

    @property
    def behind(self) -> bool:
        """Whether rows may wait, those included that may not go yet."""
        return bool(self._ready) or any(track.behind for track in self._all.values())

    def wake(self, source: str, priority: int, row: int | None = None) -> None:
        """Rows wait (from ``row`` on, or from where the track has come to)."""
        key = (source, priority)
        track = self._all.get(key)
        if track is None:
            track = self._all[key] = Track(source, priority)
        self._wake(track, row)

    def wake_all(self, row: int) -> None:
        """Rows from ``row`` on may wait on every track that is known."""
        for track in self._all.values():
            self._wake(track, row)

    def _wake(self, track: Track, row: int | None) -> None:
        track.behind = True
        track.arrived += 1
        if row is not None:
            track.cursor = min(track.cursor, row - 1)
            track.low = min(track.low, row - 1)
            track.blocked = False  # it goes before the row that may not go yet
        if not track.blocked:
            self._ready.setdefault(track.source, {})[track.priority] = track

    def unblock(self) -> None:
        """Try blocked tracks again."""
        for track in self._all.values():
            if track.blocked:
                track.blocked = False
                self._ready.setdefault(track.source, {})[track.priority] = track

    def pick(self, limit: int) -> list[list[Pick]]:
        """Return the tracks to read next, for each of the next sources: ``limit`` rows in all."""
        picks = []
        for source, share in shares(list(self._ready), limit):
            self._ready[source] = self._ready.pop(source)  # behind the others
            picks.append(self.pick_of(source, share))
        return picks

    def has(self, source: str) -> bool:
        """Whether rows of a source may wait that may go."""
        return source in self._ready

    def pick_of(self, source: str, limit: int) -> list[Pick]:
        """The first tracks of one source, which has rows that may go: the second is for what the first leaves."""
        levels = self._ready[source]
        picks = []
        for priority in sorted(levels, reverse=True)[:TRACKS_AT_ONCE]:
            track = levels[priority]
            track.low = NEVER
            picks.append(Pick(track, limit, track.cursor, track.arrived))
        return picks

    def looked(self, pick: Pick, cursor: int, *, found: bool, blocked: bool = False) -> None:
        """A look is committed: it came to ``cursor``; ``found``: there was a row; ``blocked``: the next may not go."""
        track = pick.track
        # Rows that came back since the look was posted must not be jumped over.
        track.cursor = min(cursor, track.low)
        track.blocked = blocked and track.low == NEVER
        if not found and track.arrived == pick.arrived:
            track.behind = False
        if track.blocked or not track.behind:
            levels = self._ready.get(track.source, {})
            levels.pop(track.priority, None)
            if not levels:
                self._ready.pop(track.source, None)
