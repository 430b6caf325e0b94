"""The search for the largest size that passes, on a simulated network."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.datagrams.path import OUTSTANDING_MAX, SIZES, PathProbe, PathTimes

TIMES = PathTimes(answer_s=1.0, keep_s=15.0, search_s=600.0)


class PathScene:
    """A path through a network that passes datagrams up to ``size_max`` bytes, in simulated time."""

    def __init__(self, size_max: int) -> None:
        self.path = PathProbe(TIMES, 0.0)
        self.size_max = size_max
        self.now = 0.0
        self.probes: list[int] = []
        self._number = 0

    def run(self, seconds: float) -> "PathScene":
        end = self.now + seconds
        while self.now < end:
            self.step()
            self.now += 0.5
        return self

    def step(self) -> None:
        for size in self.path.due(self.now):
            self._number += 1
            self.probes.append(size)
            self.path.note_sent(self._number, size, self.now)
            if size <= self.size_max and self.path.note_answer(self._number, self.now):
                self.step()


@pytest.mark.parametrize("size_max", [*SIZES, 1300, 1500, 65_535])
def test_the_largest_size_that_passes_is_found(size_max: int) -> None:
    scene = PathScene(size_max).run(30)
    assert (scene.path.is_open, scene.path.size) == (True, max(size for size in SIZES if size <= size_max))


def test_a_path_that_passes_less_than_the_first_size_stays_closed() -> None:
    scene = PathScene(1199).run(120)
    assert not scene.path.is_open
    assert set(scene.probes) == {SIZES[0]}
    assert len(scene.probes) < 20  # the pauses are doubled up to the interval of an open path


def test_a_smaller_path_is_noticed_without_closing_it() -> None:
    scene = PathScene(1472).run(30)
    scene.size_max = 1200
    scene.run(30)
    assert (scene.path.is_open, scene.path.size) == (True, 1200)
    scene.size_max = 1472
    scene.run(660)
    assert scene.path.size == 1472


def test_a_blocked_path_closes_and_opens_again() -> None:
    scene = PathScene(1472).run(30)
    scene.size_max = 0
    scene.run(30)
    assert not scene.path.is_open
    scene.size_max = 1472
    scene.run(30)
    assert (scene.path.is_open, scene.path.size) == (True, 1472)


def test_an_open_path_costs_a_probe_each_interval() -> None:
    scene = PathScene(1472).run(60)
    probes_before = len(scene.probes)
    scene.run(150)
    assert len(scene.probes) - probes_before == 10


def test_a_late_answer_opens_the_path() -> None:
    path = PathProbe(TIMES, 0.0)
    assert path.due(0.0) == [SIZES[0]]
    path.note_sent(1, SIZES[0], 0.0)
    path.due(5.0)
    path.note_answer(1, 5.0)
    assert path.is_open


def test_a_restart_closes_the_path_and_forgets_the_probes() -> None:
    path = PathScene(1472).run(30).path
    path.note_sent(77, SIZES[0], 30.0)
    path.restart(30.0)
    assert not path.note_answer(77, 30.0)
    assert (path.is_open, path.size, path.due(30.0)) == (False, SIZES[0], [SIZES[0]])


def test_a_size_that_this_machine_cannot_send_is_given_up() -> None:
    path = PathScene(1472).run(30).path
    path.note_too_large(1472, 30.0)
    assert (path.is_open, path.size) == (True, SIZES[0])
    path.note_too_large(SIZES[0], 30.0)
    assert path.size == SIZES[0]


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0, 30)), max_size=60))
def test_no_order_of_answers_breaks_an_invariant(events: list[tuple[int, float]]) -> None:
    path, now = PathProbe(TIMES, 0.0), 0.0
    for sent_number, (number, pause_s) in enumerate(events):
        now += pause_s
        for size in path.due(now):
            path.note_sent(sent_number, size, now)
        path.note_answer(number, now)
        assert path.size in SIZES
        assert len(path._sent) <= OUTSTANDING_MAX
