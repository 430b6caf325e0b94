"""Unmet requirements of a running node in its database, and sessions that hinder it, for health and status.

The list is ``semq.store.postgres.conditions.requirements``, which the start of a node and ``semq doctor`` check, too.
"""

from semq.service.clockwork import ScheduledJob
from semq.store.postgres.store import PostgresStore

CHECK_S = 60.0


class Requirements:
    """The requirements of one node's database."""

    def __init__(self, store: PostgresStore, poll_factor: float) -> None:
        self._store = store
        self._every_s = CHECK_S * poll_factor
        self.unmet: list[str] = []

    def jobs(self) -> list[ScheduledJob]:
        return [ScheduledJob("requirements", self._every_s, self.check)]

    async def check(self) -> None:
        """Check the database again. Raises StoreUnavailable."""
        self.unmet = await self._store.unmet_requirements()
