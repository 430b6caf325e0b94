"""The number of waiting documents of one inbox, counted in the store on demand, at most once a second for basic.get.

Between two counts, deliveries are subtracted; arrivals appear at the next count. Counting uses an index, does not pass
through the writer, and ends at ``COUNT_MAX``: the number is for display and for clients that poll until it is 0. Used
by ``inbox``.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from semq.errors import Unavailable

log = structlog.get_logger("semq.inbox")
FRESH_S = 1.0
COUNT_MAX = 10_000

Then = Callable[[int], None]


class Backlog:
    """The count of one inbox. ``count(at_most)`` reads the rows; ``out`` returns how many of these are delivered."""

    def __init__(
        self, count: Callable[[int], Awaitable[int]], out: Callable[[], int], now: Callable[[], float]
    ) -> None:
        self._count = count
        self._out = out
        self._now = now
        self._known = 0
        self._known_at = float("-inf")
        self._askers: list[Then] = []
        self._counting: asyncio.Task[None] | None = None

    def given(self) -> None:
        """Subtract a delivered document."""
        self._known = max(self._known - 1, 0)

    def report(self, then: Then) -> None:
        """Report the number, at most a second old."""
        if self._now() - self._known_at < FRESH_S:
            then(self._known)
        else:
            self.count_and_report(then)

    def count_and_report(self, then: Then) -> None:
        """Count and report."""
        self._askers.append(then)
        if self._counting is None:
            self._counting = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            found = await self._count(COUNT_MAX + self._out())
            self._known, self._known_at = max(found - self._out(), 0), self._now()
        except Unavailable as error:  # report the last known number
            log.warning("not_counted", error=str(error))
        except Exception:  # a caller waits for the answer in any case
            log.exception("not_counted")
        self._counting = None
        askers, self._askers = self._askers, []
        for then in askers:
            then(self._known)
