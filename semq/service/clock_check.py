"""Whether the clocks of a node can be trusted with the deletion of rows by their age.

A clock that is wrong must not end retention periods. So nothing is deleted by its age in the first hour after the start
of the node, in the three days after the clock has jumped ahead by more than a day, and while the dates of node and
database differ by more than a day.
"""

from datetime import date, datetime, timedelta

import structlog

from semq.clock import Clock

log = structlog.get_logger("semq.housekeeping")
DAY = timedelta(days=1)
AFTER_START_S, AFTER_JUMP_S = 3600.0, 3 * DAY.total_seconds()  # time for the correction of a wrong clock


class ClockCheck:
    """The check of a node's clock, from the start of the node on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._epoch = self._find_epoch()
        self.deletes_from = clock.monotonic() + AFTER_START_S  #: monotonic time from which the clock is trusted
        self._cause = "the node has started"

    def doubt(self, database_today: date) -> str:
        """Return why nothing may be deleted by its age now; empty: it may. ``database_today``: its date in UTC."""
        now, today, epoch = self._clock.monotonic(), self._clock.wall().date(), self._find_epoch()
        ahead, self._epoch = epoch - self._epoch, epoch
        if ahead > DAY:
            self.deletes_from, self._cause = now + AFTER_JUMP_S, "the clock has jumped ahead"
            log.warning("clock_jumped", ahead_s=ahead.total_seconds(), nothing_deleted_for_s=AFTER_JUMP_S)
        if abs(today - database_today) > DAY:
            log.warning("clocks_differ", node=str(today), database=str(database_today))
            return "the dates of node and database differ"
        if now < self.deletes_from:
            return f"{self._cause}; nothing is deleted by its age for {self.deletes_from - now:.0f} s"
        return ""

    def _find_epoch(self) -> datetime:
        """Return the wall-clock time at which the monotonic clock was 0; it changes only if one of the clocks jumps."""
        return self._clock.wall() - timedelta(seconds=self._clock.monotonic())
