"""Housekeeping of a node: runs ``semq.store.postgres.housekeeping`` a minute after the start and every six hours.

A run that fails is repeated after five minutes. A clock that is wrong must not end retention periods. So a run deletes
nothing in the first hour after the start of the node, in the three days after the clock has jumped ahead by more than a
day, and while the dates of node and database differ by more than a day.
"""

from collections.abc import Callable
from datetime import date, datetime, timedelta

import psycopg
import structlog

from semq.clock import Clock
from semq.config.settings import Settings
from semq.config.web import HttpSection
from semq.service.clockwork import ScheduledJob
from semq.store.postgres.housekeeping import Keep, tidy

log = structlog.get_logger("semq.housekeeping")
FIRST_S, EVERY_S, RETRY_S = 60.0, 6 * 3600.0, 300.0
CHECK_S = 60.0  # between two checks whether housekeeping is due
DAY = timedelta(days=1)
AFTER_START_S, AFTER_JUMP_S = 3600.0, 3 * DAY.total_seconds()  # time for the correction of a wrong clock


class Housekeeping:
    """The housekeeping of one node's store."""

    def __init__(self, url: Callable[[], str], clock: Clock, settings: Settings) -> None:
        """``url`` returns the present URL of the database."""
        self._url = url
        self._clock = clock
        self._keep = Keep(
            ledger_days=settings.database.ledger_days or None,  # 0: unlimited
            audit_days=(settings.http or HttpSection()).audit_days,
        )
        self._due = clock.monotonic() + FIRST_S
        self._deletes_from = clock.monotonic() + AFTER_START_S
        self._epoch = self._find_epoch()

    def jobs(self) -> list[ScheduledJob]:
        return [ScheduledJob("housekeeping", CHECK_S, self.run_if_due, self.make_due, lambda: self._due)]

    def make_due(self) -> None:
        self._due = self._clock.monotonic()

    async def run_if_due(self) -> None:
        if self._clock.monotonic() < self._due:
            return
        try:
            removed = await tidy(self._url(), self._clock.wall().date(), self._keep, self._may_delete)
        except psycopg.Error as error:
            self._due = self._clock.monotonic() + RETRY_S
            log.warning("housekeeping_failed", error=str(error).strip(), again_in_s=RETRY_S)
        else:
            now = self._clock.monotonic()
            self._due = now + EVERY_S if now >= self._deletes_from else min(now + EVERY_S, self._deletes_from)
            log.info("housekeeping", removed={name: count for name, count in removed.items() if count})

    def _find_epoch(self) -> datetime:
        """Return the wall-clock time at which the monotonic clock was 0; it changes only if one of the clocks jumps."""
        return self._clock.wall() - timedelta(seconds=self._clock.monotonic())

    def _may_delete(self, database_today: date) -> bool:
        """Return whether the clocks can be trusted with the deletion of rows by their age."""
        now, today, epoch = self._clock.monotonic(), self._clock.wall().date(), self._find_epoch()
        ahead, self._epoch = epoch - self._epoch, epoch
        if ahead > DAY:
            self._deletes_from = now + AFTER_JUMP_S
            log.warning("clock_jumped", ahead_s=ahead.total_seconds(), nothing_deleted_for_s=AFTER_JUMP_S)
        if abs(today - database_today) > DAY:
            log.warning("clocks_differ", node=str(today), database=str(database_today))
            return False
        return now >= self._deletes_from
