"""Intervals of retries: doubled up to a limit, with a variation of a fifth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.umx_t.retry import JITTER, backoff, doublings, interval

jitters = st.floats(0, 1, exclude_max=True)


@given(st.integers(0, 10**6), jitters)
def test_an_interval_stays_within_its_bounds(asked: int, jitter: float) -> None:
    assert 15 * (1 - JITTER) <= interval(asked, 15, 300, jitter) <= 300 * (1 + JITTER)


def test_it_doubles_up_to_the_limit() -> None:
    assert [interval(asked, 15, 100, 0.5) for asked in range(5)] == [15, 30, 60, 100, 100]


def test_the_spread_is_a_fifth_each_way() -> None:
    assert interval(0, 10, 100, 0.0) == 8
    assert interval(0, 10, 100, 0.75) == 11


def test_failures_count_from_one() -> None:
    assert [backoff(failures, 1, 60, 0.5) for failures in (0, 1, 2, 3)] == [1, 1, 2, 4]


@pytest.mark.parametrize("most_s", [15, 16, 30, 300, 3000, 5])
def test_the_doubling_of_intervals_is_bounded(most_s: int) -> None:
    needed = doublings(15, most_s)
    assert interval(needed, 15, most_s, 0.5) == most_s
    assert needed == 0 or interval(needed - 1, 15, most_s, 0.5) < most_s
