"""Housekeeping of a node: runs ``semq.store.postgres.housekeeping`` a minute after the start and every six hours.

A run that fails is repeated after five minutes. A run deletes nothing while the clocks are in doubt (``clock_check``).
"""

from datetime import date

import psycopg
import structlog

from semq.clock import Clock
from semq.config.settings import Settings
from semq.config.web import HttpSection
from semq.service.clock_check import ClockCheck
from semq.service.clockwork import ScheduledJob
from semq.store.postgres.housekeeping import Keep, tidy
from semq.store.postgres.store import PostgresStore

log = structlog.get_logger("semq.housekeeping")
FIRST_S, EVERY_S, RETRY_S = 60.0, 6 * 3600.0, 300.0
CHECK_S = 60.0  # between two checks whether housekeeping is due


class Housekeeping:
    """The housekeeping of one node's store."""

    def __init__(self, store: PostgresStore, clock: Clock, settings: Settings, check: ClockCheck) -> None:
        self._store = store
        self._clock = clock
        self._keep = Keep(
            ledger_days=settings.database.ledger_days or None,  # 0: unlimited
            audit_days=(settings.http or HttpSection()).audit_days,
        )
        self._due = clock.monotonic() + FIRST_S
        self._check = check
        self._failure = ""  #: of the last run
        self._doubt = ""  #: why the last run has deleted nothing

    def jobs(self) -> list[ScheduledJob]:
        return [
            ScheduledJob(
                "housekeeping", CHECK_S, self.run_if_due, self.make_due, lambda: self._due, lambda: self._failure
            )
        ]

    def make_due(self) -> None:
        self._due = self._clock.monotonic()

    async def run_if_due(self) -> None:
        if self._clock.monotonic() < self._due:
            return
        try:
            removed = await tidy(self._store.url, self._clock.wall().date(), self._keep, self._may_delete)
        except psycopg.Error as error:
            self._due = self._clock.monotonic() + RETRY_S
            self._failure = " ".join(str(error).split())
            log.warning("housekeeping_failed", error=self._failure, again_in_s=RETRY_S)
        else:
            self._failure = ""
            now, deletes_from = self._clock.monotonic(), self._check.deletes_from
            self._due = now + EVERY_S if now >= deletes_from else min(now + EVERY_S, deletes_from)
            if self._doubt:
                log.info("housekeeping", nothing_deleted=self._doubt)
            else:
                log.info("housekeeping", removed={name: count for name, count in removed.items() if count})

    def _may_delete(self, database_today: date) -> bool:
        self._doubt = self._check.doubt(database_today)
        return not self._doubt
