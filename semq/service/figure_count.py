"""The job ``figures``: counts new lines of a node's ledger (``semq.store.figures``), also for a reader."""

import asyncio

from semq.service.clockwork import ScheduledJob
from semq.store.figures import LINES_MAX, count_lines
from semq.store.postgres.store import PostgresStore

COUNT_S = 20.0
WAIT_S = 0.15  # longest wait of a reader


class FigureCount:
    """The counting of one node's ledger."""

    def __init__(self, store: PostgresStore, poll_factor: float) -> None:
        self._store = store
        self._every_s = COUNT_S * poll_factor
        self._counted = -1  #: commits of the store before the last count
        self._counting: asyncio.Task[None] | None = None

    def jobs(self) -> list[ScheduledJob]:
        return [ScheduledJob("figures", self._every_s, self.count)]

    async def count(self) -> None:
        """Count the lines that are committed now; without a commit since the last count, ask nothing of the database.

        Raises StoreUnavailable.
        """
        if self._counting is None or self._counting.done():
            self._counting = asyncio.get_running_loop().create_task(self._count())
            self._counting.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._counting)

    async def count_soon(self) -> bool:
        """Do what ``count`` does, but wait at most ``WAIT_S``; return whether all lines are counted.

        Raises StoreUnavailable.
        """
        try:
            await asyncio.wait_for(self.count(), WAIT_S)
        except TimeoutError:
            return False  # the task goes on
        return True

    async def _count(self) -> None:
        store = self._store
        seen = store.counters.units - store.counters.read_only
        if seen == self._counted:
            return
        while await store.execute(count_lines) == LINES_MAX:
            pass
        self._counted = seen
