"""The nightly extract: the node's scheduler starts ``spark_reconcile extract`` as a process.

It runs after the start of the node, then every day at ``extract.at``, and again a quarter of an hour after a failure.
It extracts those of the last seven completed dates that have no complete extract, or whose lines have changed since,
and delivers the unsent extracts. The extracts of the institutions of a virtual server run one after another.
"""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

import structlog

from semq.answers.status import ExtractStatus
from semq.clock import Clock
from semq.config.settings import Settings
from semq.moments import utc_text
from semq.service.clockwork import ScheduledJob

log = structlog.get_logger("semq.nightly")
CHECK_S = 20.0  # between two checks of the clock
RETRY_S = 900.0  # from a failed extract to the next
AHEAD_MAX = timedelta(hours=25)  # longest time to the next extract, on the date on which summer time ends
COMMAND = (sys.executable, "-P", "-m", "spark_reconcile", "extract", "--nightly")
DATABASE_VARIABLE = "SEMQ_DATABASE_URL"  # environment variable of child processes: the URL of the node's database


def next_after(now: datetime, at: str, zone: str) -> datetime:
    """Return the first time after ``now`` with the time of day ``at`` (HH:MM) in the zone."""
    local_now = now.astimezone(ZoneInfo(zone))
    day = local_now.date()
    while True:
        moment = datetime.combine(day, time.fromisoformat(at), local_now.tzinfo)
        if moment.timestamp() > now.timestamp():
            return moment
        day += timedelta(days=1)


class NightlyExtracts:
    """The regular extracts of one node's ledger."""

    def __init__(
        self, settings: Settings, clock: Clock, environment: Callable[[], Mapping[str, str]], turn: asyncio.Lock
    ) -> None:
        """``environment`` returns environment variables for the process, such as the URL of the node's database.

        ``turn``: held while an extract runs, and shared with the other nodes of this process.
        """
        self._settings = settings
        self._clock = clock
        self._environment = environment
        self._turn = turn
        self._due = clock.wall()
        self._process: Process | None = None
        self._is_stopping = False
        self.last: ExtractStatus | None = None

    def jobs(self) -> list[ScheduledJob]:
        if self._settings.extract.at is None:
            return []
        if self._settings.file is None:
            log.warning("extract_needs_a_file", remedy="Write [extract] into a file: a separate process reads it.")
            return []
        return [ScheduledJob("extract", CHECK_S, self.run_if_due, self.make_due, self._due_monotonic)]

    def make_due(self) -> None:
        self._due = self._clock.wall()

    def _due_monotonic(self) -> float:
        return self._clock.monotonic() + (self._due - self._clock.wall()).total_seconds()

    async def run_if_due(self) -> None:
        extract, now = self._settings.extract, self._clock.wall()
        # The wall clock may have been set back since the last extract.
        if extract.at is None or now < self._due <= now + AHEAD_MAX:
            return
        async with self._turn:
            status = await self._run()
        if status == 0:
            self._due = next_after(now, extract.at, extract.zone)
        else:
            self._due = now + timedelta(seconds=RETRY_S)

    async def stop(self) -> None:
        """Stop a running extract."""
        self._is_stopping = True
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            await self._process.wait()

    async def _run(self) -> int:
        institution = self._settings.institution
        chosen = ("--institution", institution) if institution is not None else ()
        self._process = process = await asyncio.create_subprocess_exec(
            *COMMAND, "--config", str(self._settings.file), *chosen,
            stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, env=dict(os.environ) | dict(self._environment()),
        )  # fmt: skip
        if self._is_stopping:  # `stop` was called while the process was being started
            with suppress(ProcessLookupError):
                process.terminate()
        _, output = await process.communicate()
        lines = output.decode("utf-8", "replace").strip().splitlines()
        status = await process.wait()
        self.last = ExtractStatus(
            at=utc_text(self._clock.wall()), exit_status=status, output=lines[-1] if lines else ""
        )
        (log.info if status == 0 or self._is_stopping else log.error)("extract", exit_status=status, output=lines[-5:])
        return status
