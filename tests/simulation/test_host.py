"""A simulated process delays work like the real writer, and goes on for a while after the loss of its store."""

import pytest

from semq.errors import SemqError
from semq.store.postgres.errors import StoreUnavailable
from semq.store.unit import Unit
from tests.memory_store.store import CommitFault
from tests.memory_store.test_store import FunctionWork
from tests.simulation.host import HubHost
from tests.simulation.plan import draw
from tests.simulation.world import World


class TimedWork(FunctionWork):
    """Work that notes the times of its decision and its notification."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.decided_at = self.notified_at = -1.0

    def decide(self, unit: Unit) -> None:
        super().decide(unit)
        self.decided_at = self._world.time.now

    def finish(self) -> None:
        super().finish()
        self.notified_at = self._world.time.now

    def abandon(self, error: Exception) -> None:
        super().abandon(error)
        self.notified_at = self._world.time.now


def at_rest() -> tuple[World, HubHost]:
    """Return a world with the hub alone, without faults."""
    world = World(draw(1, hell=False))
    world.faults.active = False
    world.hub.start()
    let_pass(world, 60.0)
    assert world.hub.is_idle
    assert world.hub.store is not None
    world.hub.store._group = lambda waiting: waiting  # take all waiting work, like the real writer
    return world, world.hub


def let_pass(world: World, seconds: float) -> None:
    end = world.time.now + seconds
    while world.time.step(end):
        pass


def test_deferred_work_waits_for_a_limited_time() -> None:
    world, host = at_rest()
    began, job = world.time.now, TimedWork(world)
    assert host.store is not None
    host.store.post(job, later=True)
    let_pass(world, 5.0)
    assert job.results == [None]
    assert job.decided_at >= began + world.plan.later_s


def test_deferred_work_shares_the_unit_of_urgent_work() -> None:
    world, host = at_rest()
    patient, urgent = TimedWork(world), TimedWork(world)
    began = world.time.now
    assert host.store is not None
    host.store.post(patient, later=True)
    host.store.post(urgent)
    let_pass(world, 5.0)
    assert patient.decided_at == urgent.decided_at
    assert urgent.decided_at < began + world.plan.later_s
    again = TimedWork(world)  # the timer of ``patient`` is cancelled
    began = world.time.now
    host.store.post(again, later=True)
    let_pass(world, 5.0)
    assert again.decided_at >= began + world.plan.later_s


def test_after_the_loss_of_its_store_a_process_continues_and_all_its_work_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, host = at_rest()
    faults = [CommitFault.ANSWER_LOST]
    monkeypatch.setattr(world.faults, "commit_fault", lambda of: faults.pop() if faults else CommitFault.NONE)
    monkeypatch.setattr(world.faults, "reopening_s", lambda: 2.0)
    first, life = TimedWork(world), host.life
    assert host.store is not None
    host.store.post(first)
    let_pass(world, 1.0)
    assert host.is_up(life)
    after = TimedWork(world)
    host.store.post(after, later=True)
    let_pass(world, 0.5)
    for job in (first, after):
        assert [type(error) for error in job.results] == [StoreUnavailable]
        assert isinstance(job.results[0], SemqError)
    assert after.decided == 0
    let_pass(world, 5.0)
    assert host.is_up()
    assert host.life == life + 1
