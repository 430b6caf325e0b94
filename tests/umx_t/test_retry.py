"""Intervals of retries: doubled up to a limit, with a variation of a fifth."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.umx_t.retry import JITTER, backoff, doublings, growing, interval

jitters = st.floats(0, 1, exclude_max=True)


@given(st.integers(0, 10**6), jitters)
def test_an_interval_stays_within_its_bounds(inquiries: int, jitter: float) -> None:
    assert 15 * (1 - JITTER) <= interval(inquiries, 15, 300, jitter) <= 300 * (1 + JITTER)


def test_the_interval_doubles_up_to_the_limit() -> None:
    assert [interval(inquiries, 15, 100, 0.5) for inquiries in range(5)] == [15, 30, 60, 100, 100]


def test_the_jitter_is_a_fifth_in_both_directions() -> None:
    assert interval(0, 10, 100, 0.0) == 8
    assert interval(0, 10, 100, 0.75) == 11


def test_failures_count_from_one() -> None:
    assert [backoff(failures, 1, 60, 0.5) for failures in (0, 1, 2, 3)] == [1, 1, 2, 4]


@pytest.mark.parametrize("max_s", [15, 16, 30, 300, 3000, 5])
def test_doublings_is_the_number_of_inquiries_until_the_longest_interval(max_s: int) -> None:
    count = doublings(15, max_s)
    assert interval(count, 15, max_s, 0.5) == max_s
    assert count == 0 or interval(count - 1, 15, max_s, 0.5) < max_s


def test_growing_intervals_double_up_to_the_limit() -> None:
    assert list(islice(growing(1.0, 30.0), 7)) == [1, 2, 4, 8, 16, 30, 30]
