"""The window of sequence numbers, compared with a set."""

from hypothesis import given
from hypothesis import strategies as st

from semq.datagrams.replay import WINDOW, ReplayWindow


@given(st.lists(st.integers(0, 3 * WINDOW), max_size=300))
def test_each_number_passes_once_and_none_below_the_window(numbers: list[int]) -> None:
    window, passed, highest = ReplayWindow(), set[int](), -1
    for number in numbers:
        expected = number not in passed and number > highest - WINDOW
        assert window.is_new(number) is expected
        if expected:
            assert window.note(number) is (number > highest)
            passed.add(number)
            highest = max(highest, number)
    assert window.highest == highest


def test_late_numbers_inside_the_window_pass() -> None:
    window = ReplayWindow()
    window.note(WINDOW)
    assert not window.is_new(0)
    assert window.is_new(1)


def test_is_new_changes_nothing() -> None:
    window = ReplayWindow()
    assert window.is_new(5)
    assert window.is_new(5)
    assert window.highest == -1
