"""Numbers of the carrier's messages: each number of an incarnation is new once, in any order; memory is bounded."""

from hypothesis import given
from hypothesis import strategies as st

from semq.engine.hub.repetitions import INCARNATIONS_MAX, WINDOW, Repetitions


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, WINDOW)), max_size=200))
def test_each_number_is_new_once_in_any_order(numbers: list[tuple[int, int]]) -> None:
    repetitions, known = Repetitions(), set[tuple[int, int]]()
    for incarnation, number in numbers:
        assert repetitions.note(incarnation, number) is ((incarnation, number) in known)
        known.add((incarnation, number))


def test_a_number_before_the_window_counts_as_repeated_and_memory_is_bounded() -> None:
    repetitions = Repetitions()
    for number in range(1, 5 * WINDOW, 2):
        assert not repetitions.note(7, number)
    assert repetitions.note(7, 2)
    assert not repetitions.note(7, 5 * WINDOW - 4)
    highest, recent = repetitions._numbers[7]
    assert highest == 5 * WINDOW - 1
    assert len(recent) <= 2 * WINDOW
    for incarnation in range(100, INCARNATIONS_MAX + 101):
        assert not repetitions.note(incarnation, 1)
    assert len(repetitions._numbers) == INCARNATIONS_MAX
    assert 7 not in repetitions._numbers
