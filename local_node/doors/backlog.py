"""The number of waiting documents of one inbox, counted in the store on demand, at most once a second for basic.get.

Between two counts, deliveries are subtracted; arrivals appear at the next count. Counting uses an index, does not pass
through the writer, and ends at ``COUNT_MAX``: the number is for display and for clients that poll until it is 0.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from semq.errors import Unavailable

log = structlog.get_logger("semq.inbox")
FRESH_S = 1.0
COUNT_MAX = 10_000

Report = Callable[[int], None]  # gets the number of waiting documents


class Backlog:
    """The count of one inbox."""

    def __init__(
        self, count: Callable[[int], Awaitable[int]], unacknowledged: Callable[[], int], now: Callable[[], float]
    ) -> None:
        """``count(at_most)`` counts the rows in the store, unacknowledged deliveries included;
        ``unacknowledged`` counts these deliveries.
        """
        self._count = count
        self._unacknowledged = unacknowledged
        self._now = now
        self._waiting = 0
        self._counted_at = float("-inf")
        self._reports: list[Report] = []
        self._counting: asyncio.Task[None] | None = None

    def subtract_delivered(self) -> None:
        self._waiting = max(self._waiting - 1, 0)

    def report(self, report: Report) -> None:
        """Report the number of waiting documents; count again if the last count is older than FRESH_S."""
        if self._now() - self._counted_at < FRESH_S:
            report(self._waiting)
        else:
            self.count_and_report(report)

    def count_and_report(self, report: Report) -> None:
        """Report the number of waiting documents, from a count that is under way or from a new one."""
        self._reports.append(report)
        if self._counting is None:
            self._counting = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            rows = await self._count(COUNT_MAX + self._unacknowledged())
            self._waiting, self._counted_at = max(rows - self._unacknowledged(), 0), self._now()
        except Unavailable as error:  # report the last known number
            log.warning("not_counted", error=str(error))
        except Exception:  # a count that has failed must not leave the callers without a report
            log.exception("not_counted")
        self._counting = None
        reports, self._reports = self._reports, []
        for report in reports:
            report(self._waiting)
