"""The engine's timers, as a table of jobs on APScheduler; also flushes mail at the end of each turn.

APScheduler is an in-process timer here (its SQL job store would run jobs twice under two schedulers); what must run
once is guarded by the store's lease.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from semq.errors import Unavailable
from semq.transport.turn import Turn

log = structlog.get_logger("semq.clockwork")


class Engine(Protocol):
    """What the clockwork drives."""

    def tick(self) -> None:
        """Time has passed: inquire, clean, expire."""

    def flush(self) -> None:
        """Send the records that have gathered."""


@dataclass(frozen=True, slots=True)
class Job:
    """One line of the schedule."""

    name: str
    every_s: float
    run: Callable[[], None] | Callable[[], Awaitable[None]]


class Clockwork:
    """Drives one engine, and the other jobs of its node."""

    def __init__(self, engine: Callable[[], Engine], turn: Turn, jobs: list[Job]) -> None:
        self._engine = engine
        self._turn = turn
        self.jobs = [Job("engine", 0.1, self._tick), *jobs]
        self._scheduler = AsyncIOScheduler(
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        )

    def start(self) -> None:
        """Begin to tick."""
        for job in self.jobs:
            self._scheduler.add_job(_run, "interval", [job], seconds=job.every_s, id=job.name, name=job.name)
        self._scheduler.start()

    def stop(self) -> None:
        """Tick no more."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def on_mail(self) -> None:
        """The engine has mail: flush it at the end of this turn."""
        self._turn.before_flush(self._flush)

    def _flush(self) -> None:
        self._engine().flush()

    def _tick(self) -> None:
        self._engine().tick()


async def _run(job: Job) -> None:
    """Run a job in the event loop. As a coroutine: plain functions would be run in threads, beside the engine."""
    try:
        awaitable = job.run()
        if awaitable is not None:
            await awaitable
    except Unavailable as error:  # the database is away for now: the job comes again
        log.warning("job_put_off", job=job.name, error=str(error))
    except asyncio.CancelledError:  # the node stops
        log.debug("job_cut_short", job=job.name)
