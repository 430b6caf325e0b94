"""A census of the queues of one node, kept and shared by all readers. Used by ``overview``.

It counts every row of both queues, so it is kept ``REST`` times as long as it took. For small queues it is therefore
always recent; for millions of rows it is taken about once a minute and costs the database a few percent. ``as_of`` is
its time. A page waits a moment for a new census, then shows the previous one.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from semq.clock import Clock
from semq.engine.people.stuck import SILENT_AFTER, Surroundings, why
from semq.store.postgres.store import PostgresStore
from semq.store.views import census, submissions
from semq.store.views.failed import is_failed

REST = 40  # a census is kept for this multiple of the time that it took
KEPT_S_MIN, KEPT_S_MAX = 1.0, 300.0
WAIT_S = 0.15  # a page does not wait longer


class OverviewNode(Protocol):
    """The parts of a node that the operations use."""

    store: PostgresStore
    clock: Clock

    def surroundings(self) -> Surroundings:
        """Return the node's state besides the rows, to find causes of stuck messages."""


@dataclass(frozen=True, slots=True)
class Census:
    """One census."""

    as_of: int
    groups: list[dict[str, Any]]  #: with ``cause``, the name of a cause or None
    failed: dict[str, list[int]]
    submitted: dict[str, int]  #: submissions: refused, waiting, scheduled, in pieces
    late_in_pieces: int = 0  #: documents in pieces that are overdue


EMPTY = Census(0, [], {"outbound": [], "inbound": []}, {"refused": 0, "waiting": 0, "in_pieces": 0})


class Counting:
    """The census of one node, taken on request if the last one is too old."""

    def __init__(self, node: OverviewNode) -> None:
        self._node = node
        self._last = EMPTY
        self._until = 0.0
        self._taking: asyncio.Task[Census] | None = None

    async def census(self) -> Census:
        """Return the newest census. If it is too old, begin another one, and wait for it for ``WAIT_S``.

        Before the first one is complete, it is EMPTY, with ``as_of`` 0. Raises StoreUnavailable.
        """
        if self._last is not EMPTY and self._node.clock.monotonic() < self._until:
            return self._last
        if self._taking is None or self._taking.done():
            self._taking = asyncio.get_running_loop().create_task(self._take())
            # marks the exception as retrieved, also if no reader waits
            self._taking.add_done_callback(lambda task: task.cancelled() or task.exception())
        done, _ = await asyncio.wait([self._taking], timeout=WAIT_S)
        return self._taking.result() if done else self._last

    async def _take(self) -> Census:
        clock, store, around = self._node.clock, self._node.store, self._node.surroundings()
        began = clock.monotonic()
        sent, received = _marks(around)
        groups = await store.read(census.groups, around.now_ms - around.overdue_ms, sent, received)
        failed: dict[str, list[int]] = {"outbound": [], "inbound": []}
        if any(is_failed(group) for group in groups):
            failed = await store.read(census.failed_numbers)
        submitted = await store.read(submissions.counts)
        late_ms, late_in_pieces = around.now_ms - around.overdue_ms, 0
        if submitted["in_pieces"]:
            late_in_pieces = await store.read(submissions.late_in_pieces, late_ms)
        for group in groups:
            cause = None if group["piece"] else why(group, around)
            group["cause"] = cause.name if cause is not None else None
        took = clock.monotonic() - began
        self._until = clock.monotonic() + min(max(took * REST, KEPT_S_MIN), KEPT_S_MAX)
        self._last = Census(around.now_ms, groups, failed, submitted, late_in_pieces)
        return self._last


def _marks(around: Surroundings) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Return the numbers of rows whose cause depends on the engine's memory, at most MARKED_MAX of each kind."""
    most = census.MARKED_MAX
    silent = [number for number, count in (around.asked or {}).items() if count >= SILENT_AFTER]
    sent = {"away": list(around.away)[:most], "silent": silent[:most]}
    return sent, {"blocked": list(around.blocked)[:most]}
