"""The scheduled jobs of a node."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from semq.clock import SystemClock
from semq.service import clockwork
from semq.service.clockwork import BACKSTOP_S, ENGINE, Clockwork, ScheduledJob
from semq.transport.turn import Turn
from tests.service.engine_handles import handle_of


class DueEngine:
    """An engine with a due time, which records its ticks."""

    def __init__(self) -> None:
        self.next_due: float | None = None
        self.ticks = 0
        self.ticked, self.flushed = asyncio.Event(), asyncio.Event()

    def tick(self) -> None:
        self.ticks += 1
        self.next_due = None
        self.ticked.set()

    def flush(self) -> None:
        self.flushed.set()


class ClockworkScene:
    def __init__(self) -> None:
        self.engine = DueEngine()
        self.clock = SystemClock()
        self.ran: asyncio.Queue[str] = asyncio.Queue()
        jobs = [ScheduledJob("daily", 86_400, lambda: self.ran.put_nowait("daily"))]
        self.clockwork = Clockwork(handle_of(cast(Any, self.engine)), Turn(), self.clock)
        self.clockwork.add(jobs)

    def planned(self, name: str) -> float:
        """Seconds until a job runs."""
        job = self.clockwork._scheduler.get_job(name)
        assert job is not None
        wait: timedelta = job.next_run_time - datetime.now(UTC)
        return wait.total_seconds()

    def due_in(self, seconds: float) -> None:
        self.engine.next_due = self.clock.monotonic() + seconds


@pytest.fixture
async def scene() -> AsyncIterator[ClockworkScene]:
    scene = ClockworkScene()
    scene.clockwork.start()
    yield scene
    scene.clockwork.stop()


async def test_an_idle_engine_is_not_ticked_before_the_backstop(scene: ClockworkScene) -> None:
    assert BACKSTOP_S - 5 < scene.planned(ENGINE) <= BACKSTOP_S
    for _ in range(100):
        scene.clockwork.reschedule()
    assert scene.engine.ticks == 0


async def test_the_job_of_the_engine_moves_to_an_earlier_time_and_never_to_a_later_one(scene: ClockworkScene) -> None:
    scene.due_in(8)
    scene.clockwork.reschedule()
    assert scene.planned(ENGINE) <= 8
    scene.due_in(9)
    scene.clockwork.reschedule()
    assert scene.planned(ENGINE) <= 8
    scene.due_in(-5)  # overdue
    scene.clockwork.reschedule()
    await scene.engine.ticked.wait()
    assert scene.engine.ticks == 1
    await asyncio.sleep(0)
    assert scene.planned(ENGINE) > 1


async def test_a_due_engine_is_ticked_with_the_flush_of_its_mail(scene: ClockworkScene) -> None:
    scene.due_in(0)
    scene.clockwork.on_mail(False)
    await scene.engine.ticked.wait()


async def test_mail_that_may_wait_is_flushed_later_or_with_mail_that_may_not(scene: ClockworkScene) -> None:
    scene.clockwork.on_mail(True)
    scene.clockwork.on_mail(True)
    await asyncio.sleep(0)
    assert not scene.engine.flushed.is_set()
    await scene.engine.flushed.wait()
    scene.engine.flushed.clear()
    scene.clockwork.on_mail(True)
    scene.clockwork.on_mail(False)
    await asyncio.sleep(0)
    assert scene.engine.flushed.is_set()


async def test_a_hastened_job_runs_at_once(scene: ClockworkScene) -> None:
    scene.clockwork.hasten("daily")
    assert await scene.ran.get() == "daily"


async def test_a_job_that_is_hastened_while_it_runs_runs_once_more() -> None:
    began: asyncio.Queue[None] = asyncio.Queue()
    proceed = asyncio.Semaphore(0)

    async def run() -> None:
        began.put_nowait(None)
        await proceed.acquire()

    work = Clockwork(handle_of(cast(Any, DueEngine())), Turn(), SystemClock())
    work.add([ScheduledJob("follow", 86_400, run)])
    work.start()
    work.hasten("follow")
    await began.get()
    work.hasten("follow")
    work.hasten("follow")
    proceed.release()
    await began.get()
    assert work.records["follow"].runs == 2
    proceed.release()
    work.stop()


async def test_jobs_run_on_time_after_the_wall_clock_was_set_back(
    scene: ClockworkScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clockwork, "WALL_CHECK_S", 1000)
    for job in scene.clockwork.jobs:
        scene.clockwork.hasten(job.name, 86_400)
    scene.clockwork._wall_offset += 86_400
    scene.clockwork._watch_wall()
    await scene.engine.ticked.wait()
    assert await scene.ran.get() == "daily"


async def test_jobs_are_hastened_neither_before_the_start_nor_after_the_end() -> None:
    scene = ClockworkScene()
    scene.due_in(0)
    scene.clockwork.reschedule()
    scene.clockwork.hasten("daily")
    scene.clockwork.start()
    scene.clockwork.stop()
    scene.clockwork.reschedule()
    scene.clockwork.hasten("daily")
    await asyncio.sleep(0)
    assert (scene.engine.ticks, scene.ran.empty()) == (0, True)
