"""Test groups begin once each, in order, and no long group waits for a long test while a worker is idle."""

import re
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.selection.kinds import KINDS, Groups, kind_of, rank_of

CRASH = [f"tests/crash/test_{name}.py::test_{number}" for name in ("refusing", "pieces") for number in range(2)]
SPARK = [f"tests/spark_reconcile/spark/test_session.py::test_{number}" for number in range(5)]
DEMO = [f"tests/demo/test_scenario.py::test_{number}" for number in range(3)]
SEEDS = [f"tests/simulation/test_campaign.py::test_share[{number}]" for number in range(4)]
SHORT = [f"tests/seal/test_{name}.py::test_{number}" for name in ("chain", "keys", "proof") for number in range(3)]
TESTS = sorted(SHORT + SEEDS + DEMO + SPARK + CRASH, key=rank_of)


@dataclass(eq=False)
class FakeWorker:
    """A worker. It begins a test only when it knows the next test, or that there is none."""

    queue: deque[int] = field(default_factory=deque)
    done: list[str] = field(default_factory=list)
    shutting_down: bool = False
    gateway: Any = field(default_factory=lambda: SimpleNamespace(id="fake"))

    def send_runtest_some(self, indices: list[int]) -> None:
        self.queue += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    def can_run(self) -> bool:
        return len(self.queue) > 1 or (bool(self.queue) and self.shutting_down)


@pytest.fixture
def scheduler(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(pytestconfig.option, "tx", ["popen"] * 2, raising=False)
    monkeypatch.setattr(pytestconfig.option, "px", [], raising=False)
    monkeypatch.setattr(pytestconfig.option, "loadscopereorder", False, raising=False)
    monkeypatch.setattr(pytestconfig.option, "maxworkerrestart", None, raising=False)
    return Groups(pytestconfig, None)


def begin(scheduler: Any) -> list[FakeWorker]:
    workers = [FakeWorker(), FakeWorker()]
    for worker in workers:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, TESTS)
    scheduler.schedule()
    return workers


def step(scheduler: Any, worker: FakeWorker) -> str:
    """Run and return the next test of the worker."""
    assert worker.can_run()
    index = worker.queue.popleft()
    worker.done.append(TESTS[index])
    scheduler.mark_test_complete(worker, index)
    return TESTS[index]


def test_each_worker_begins_with_a_long_group(scheduler: Any) -> None:
    first, second = begin(scheduler)
    assert [TESTS[index] for index in first.queue] == CRASH
    assert [TESTS[index] for index in second.queue] == DEMO


def test_a_short_group_follows_the_last_test_of_a_long_group(scheduler: Any) -> None:
    first, second = begin(scheduler)
    for _ in range(3):
        assert len(first.queue) > 1
        step(scheduler, first)
    assert [TESTS[index] for index in first.queue] == [CRASH[-1], *SHORT[-3:]]
    while second.can_run() and step(scheduler, second) not in SPARK:
        pass
    assert second.done[-1] in SPARK


def test_every_test_is_run_once_and_groups_stay_together(scheduler: Any) -> None:
    workers = begin(scheduler)
    while any(worker.can_run() for worker in workers):
        for worker in workers:
            if worker.can_run():
                step(scheduler, worker)
    assert sorted(workers[0].done + workers[1].done) == sorted(TESTS)
    for group in (CRASH, SPARK, DEMO):
        (indexes,) = ([done.index(test) for test in group] for done in (w.done for w in workers) if group[0] in done)
        assert indexes == list(range(indexes[0], indexes[0] + len(group)))


def test_every_row_has_tests() -> None:
    """A row with an outdated name would match no test."""
    root = Path(__file__).parents[2]
    for kind in KINDS:
        file, _, name = kind.prefix.partition("::")
        files = list(root.glob(f"{file}*"))
        assert files, kind.prefix
        if name:
            function = re.escape(name.partition("[")[0])  # without values of parameters
            assert re.search(rf"^(async )?def {function}", files[0].read_text("utf-8"), re.MULTILINE), kind.prefix


def test_a_test_without_a_row_is_in_the_group_of_its_file() -> None:
    assert kind_of("tests/seal/test_keys.py::test_a").group == "file"
