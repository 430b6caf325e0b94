"""A count of all rows of a node's queues, shared by all readers.

A census is kept for ``KEPT_FACTOR`` times the duration of the count (``KEPT_S_MIN`` to ``KEPT_S_MAX`` seconds), so that
counting costs the database a few percent of its time.
"""

import asyncio
from typing import Protocol

from msgspec import Struct, field

from semq.clock import Clock
from semq.engine.people.stuck import SILENT_AFTER, Surroundings, stuck_cause
from semq.store.postgres.store import PostgresStore
from semq.store.views import census, submissions
from semq.store.views.census import CensusGroup

KEPT_FACTOR = 40
KEPT_S_MIN, KEPT_S_MAX = 1.0, 300.0
WAIT_S = 0.15  # longest wait of a page for a new census


class CountedNode(Protocol):
    """The parts of a node that a census uses."""

    store: PostgresStore
    clock: Clock

    def surroundings(self) -> Surroundings:
        """Return the facts, in addition to the rows, on which the causes of stuck documents depend."""


class Census(Struct, frozen=True):
    """The result of one count."""

    as_of: int  #: milliseconds since 1970 UTC
    groups: list[CensusGroup]
    submitted: dict[str, int]  #: counts of the submissions that are not accepted, by state
    presence: dict[str, bool | None] = field(default_factory=dict)  #: whether the targets of open messages are online
    late_in_pieces: int = 0  #: documents in pieces that are overdue
    submitted_since: int | None = None  #: time since which the oldest submission that should be accepted waits


EMPTY = Census(0, [], {"refused": 0, "waiting": 0, "scheduled": 0, "in_pieces": 0})


class SharedCensus:
    """The newest census of one node."""

    def __init__(self, node: CountedNode) -> None:
        self._node = node
        self._last = EMPTY
        self._kept_until = 0.0  #: monotonic
        self._counting: asyncio.Task[Census] | None = None

    async def newest(self) -> Census:
        """Return the newest census. If it is too old, begin a new one, and wait for it at most ``WAIT_S``.

        Returns EMPTY while the first census is not ready. Raises StoreUnavailable if the count fails within this time.
        """
        if self._last is not EMPTY and self._node.clock.monotonic() < self._kept_until:
            return self._last
        if self._counting is None or self._counting.done():
            self._counting = self._begin()
        done, _ = await asyncio.wait([self._counting], timeout=WAIT_S)
        return self._counting.result() if done else self._last

    async def counted_now(self) -> Census:
        """Return a census that was begun after this call. Raises StoreUnavailable."""
        begun_before = self._counting
        if begun_before is not None:
            await asyncio.wait([begun_before])
        if self._counting is begun_before:  # otherwise another caller has begun the next one meanwhile
            self._counting = self._begin()
        assert self._counting is not None
        return await asyncio.shield(self._counting)

    def _begin(self) -> asyncio.Task[Census]:
        task = asyncio.get_running_loop().create_task(self._count())
        # asyncio logs an exception that nobody has retrieved.
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    async def _count(self) -> Census:
        clock, store, surroundings = self._node.clock, self._node.store, self._node.surroundings()
        began = clock.monotonic()
        overdue_before = surroundings.now_ms - surroundings.overdue_ms
        sent, received = _marked_rows(surroundings)
        groups = await store.execute(census.groups, overdue_before, sent, received)
        submitted = await store.execute(submissions.counts)
        late_in_pieces, submitted_since = 0, None
        if any(submitted[kind] for kind in ("waiting", "scheduled", "in_pieces")):
            submitted_since = await store.execute(submissions.oldest_open, surroundings.now_ms)
        if submitted["in_pieces"]:
            late_in_pieces = await store.execute(submissions.late_in_pieces, overdue_before)
        for group in groups:
            cause = None if group["piece"] else stuck_cause(group, surroundings)
            group["cause"] = cause.name if cause is not None else None
        took_s = clock.monotonic() - began
        self._kept_until = clock.monotonic() + min(max(took_s * KEPT_FACTOR, KEPT_S_MIN), KEPT_S_MAX)
        targets = {group["target"] for group in groups if group["side"] == "outbound"}
        presence = {target: surroundings.presence(target) for target in targets}
        self._last = Census(surroundings.now_ms, groups, submitted, presence, late_in_pieces, submitted_since)
        return self._last


def _marked_rows(surroundings: Surroundings) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Return numbers of sent and received rows whose cause is in the engine's memory, at most MARKED_MAX per cause."""
    count_max = census.MARKED_MAX
    silent = [number for number, inquiries in (surroundings.inquiry_counts or {}).items() if inquiries >= SILENT_AFTER]
    sent = {"away": list(surroundings.away_rows)[:count_max], "silent": silent[:count_max]}
    return sent, {"blocked": list(surroundings.blocked_rows)[:count_max]}
