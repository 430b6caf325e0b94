"""The scheduled jobs of a node, and the flush of the engine's mail at the end of a turn of the event loop.

The engine's job runs when work is due (``next_due``), at least every ``BACKSTOP_S``.

APScheduler's job store in SQL is not used: every scheduler that shares it would run every job.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from msgspec import Struct

from semq.clock import Clock
from semq.engine.mail import MAIL_LATER_S
from semq.errors import Unavailable
from semq.service.engine_handle import EngineHandle, NodeEngine
from semq.transport.turn import Turn

ENGINE = "engine"
BACKSTOP_S = 10.0  # longest time between two runs of the engine's job
TICK_S_MIN = 0.05  # shortest delay of an early run
WALL_CHECK_S = 15.0  # between two comparisons of wall clock and monotonic clock
WALL_JUMP_S = 2.0  # if their difference changes by more, the wall clock was set
log = structlog.get_logger("semq.clockwork")


class ScheduledJob(Struct, frozen=True):
    """A job that runs at regular intervals."""

    name: str
    every_s: float
    run: Callable[[], None] | Callable[[], Awaitable[None]]
    # Only for a job that runs more often than it has work:
    make_due: Callable[[], None] | None = None  #: makes the work due now
    due: Callable[[], float] | None = None  #: returns when the work is due, in monotonic time
    failure: Callable[[], str] | None = None  #: returns why the last work failed; empty: it did not


class JobRecord(Struct):
    """Runs, errors and pause of a job."""

    runs: int = 0
    last_at: datetime | None = None  #: beginning of the last run
    took_s: float = 0.0
    error: str = ""  #: of the last run
    paused_at: datetime | None = None
    pause_reason: str = ""
    running: bool = False
    again_in_s: float | None = None  #: from the end of this run to the next, set by ``hasten``


class Every(BaseTrigger):  # type: ignore[misc]  # APScheduler has no types
    """A trigger that fires every ``every_s`` seconds, first after ``first_s`` seconds if given."""

    def __init__(self, every_s: float, first_s: float | None = None) -> None:
        self.every_s = every_s
        self._first_s = first_s

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        wait_s, self._first_s = self.every_s if self._first_s is None else self._first_s, None
        return now + timedelta(seconds=wait_s)


class Clockwork:
    """The job of a node's engine, and its other jobs."""

    def __init__(self, engine: EngineHandle[NodeEngine], turn: Turn, clock: Clock) -> None:
        self._engine = engine
        self._turn = turn
        self._clock = clock
        self.jobs = [ScheduledJob(ENGINE, BACKSTOP_S, self._tick)]
        self.records = {ENGINE: JobRecord()}
        self._due = 0.0  #: monotonic time of the next run of the engine's job
        self._wall_offset = 0.0  #: wall clock minus monotonic clock, in seconds
        self._wall_timer: asyncio.TimerHandle | None = None
        self._mail_timer: asyncio.TimerHandle | None = None
        self._scheduler = AsyncIOScheduler(
            # Two, because a run that hastens its job at its end still counts. `_run` permits one at a time.
            job_defaults={"coalesce": True, "max_instances": 2, "misfire_grace_time": None}
        )

    def add(self, jobs: Iterable[ScheduledJob]) -> None:
        """Add jobs, before ``start``."""
        for job in jobs:
            self.jobs.append(job)
            self.records[job.name] = JobRecord()

    def start(self) -> None:
        for job in self.jobs:
            self._scheduler.add_job(self._run, Every(job.every_s), [job], id=job.name, name=job.name)
        self._scheduler.start()
        self._due = self._clock.monotonic() + BACKSTOP_S
        self._wall_offset = self._measure_wall_offset()
        self._watch_wall()
        self.reschedule()

    def stop(self) -> None:
        for timer in (self._wall_timer, self._mail_timer):
            if timer is not None:
                timer.cancel()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def hasten(self, name: str, in_s: float = 0.0) -> None:
        """Run a job in ``in_s`` seconds (from the end of the present run, if any), then at its usual interval."""
        record = self.records[name]
        if record.running:
            record.again_in_s = in_s if record.again_in_s is None else min(in_s, record.again_in_s)
        elif self._scheduler.running:
            job = self._scheduler.get_job(name)
            self._scheduler.reschedule_job(name, trigger=Every(job.trigger.every_s, in_s))

    def failing(self) -> dict[str, str]:
        """Return the error of each job whose last run, or last work, failed."""
        return {name: record.error for name, record in self.records.items() if record.error}

    def on_mail(self, later: bool) -> None:
        """Flush the engine's mail at the end of the turn, or after MAIL_LATER_S."""
        if not later:
            self._turn.before_flush(self._flush)
        elif self._mail_timer is None:
            self._mail_timer = asyncio.get_running_loop().call_later(MAIL_LATER_S, self._flush_later)

    def _flush_later(self) -> None:
        self._mail_timer = None
        self._turn.before_flush(self._flush)

    def reschedule(self) -> None:
        """Move the engine's job to ``next_due``, if that is earlier."""
        due = self._engine.current.next_due
        if due is None or not self._scheduler.running:
            return
        now = self._clock.monotonic()
        due = max(due, now + TICK_S_MIN)
        if due < self._due - TICK_S_MIN / 2:
            self._due = due
            self.hasten(ENGINE, due - now)

    def _flush(self) -> None:
        self._engine.current.flush()
        self.reschedule()

    def _tick(self) -> None:
        self._due = self._clock.monotonic() + BACKSTOP_S
        self._engine.current.tick()
        self.reschedule()

    # APScheduler uses the wall clock: if it is set back by an hour, no job would run for an hour.
    def _measure_wall_offset(self) -> float:
        return self._clock.wall().timestamp() - self._clock.monotonic()

    def _watch_wall(self) -> None:
        self._wall_timer = asyncio.get_running_loop().call_later(WALL_CHECK_S, self._watch_wall)
        offset = self._measure_wall_offset()
        if abs(offset - self._wall_offset) > WALL_JUMP_S:
            log.warning("wall_clock_jumped", by_s=round(offset - self._wall_offset, 1))
            for job in self.jobs:
                self.hasten(job.name)
        self._wall_offset = offset

    async def _run(self, job: ScheduledJob) -> None:
        # APScheduler runs plain functions in threads, so this is a coroutine.
        record = self.records[job.name]
        if record.paused_at is not None or record.running:
            return
        began, record.last_at = self._clock.monotonic(), self._clock.wall()
        record.runs += 1
        record.running = True
        try:
            awaitable = job.run()
            if awaitable is not None:
                await awaitable
        except Unavailable as error:
            log.warning("job_put_off", job=job.name, error=str(error))
            record.error = str(error)
        except asyncio.CancelledError:  # the node stops
            log.debug("job_cut_short", job=job.name)
        except Exception as error:
            record.error = repr(error)
            raise
        else:
            record.error = job.failure() if job.failure is not None else ""
        finally:
            record.took_s = self._clock.monotonic() - began
            again_in_s = record.again_in_s
            record.running, record.again_in_s = False, None
            if again_in_s is not None:
                self.hasten(job.name, again_in_s)

    def next_run(self, job: ScheduledJob) -> datetime | None:
        """Return the later of two times: when a job runs next, and when its work is due.

        Returns None if the job is paused or the clockwork does not run.
        """
        planned = self._scheduler.get_job(job.name) if self._scheduler.running else None
        if planned is None or self.records[job.name].paused_at is not None:
            return None
        at: datetime = planned.next_run_time
        if job.due is not None:
            at = max(at, self._clock.wall() + timedelta(seconds=job.due() - self._clock.monotonic()))
        return at
