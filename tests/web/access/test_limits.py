"""Limits of requests and of failed sign-ins."""

import pytest

from semq.web.access.limits import NAMES_MAX, REFUSED_STEP_S, Attempts, Rates, refusal_pause_s
from semq.web.errors import TooManyRequests
from tests.clocks import ManualClock


def wait_s_if_refused(rates: Rates | Attempts, name: str = "a") -> float | None:
    """Return the time to wait (s) if a request is refused, else None."""
    try:
        rates.count(name) if isinstance(rates, Rates) else rates.check(name)
    except TooManyRequests as error:
        return float(error.facts["retry_after_s"])
    return None


def test_a_burst_is_admitted_and_then_requests_at_the_rate() -> None:
    clock = ManualClock()
    rates = Rates(2.0, 3, clock)
    assert [wait_s_if_refused(rates) for _ in range(4)] == [None, None, None, 0.5]
    assert wait_s_if_refused(rates, "b") is None
    clock.now += 0.5
    assert [wait_s_if_refused(rates) for _ in range(2)] == [None, 0.5]
    clock.now += 1000
    assert [wait_s_if_refused(rates) for _ in range(4)] == [None, None, None, 0.5]


def test_the_number_of_counted_names_is_bounded() -> None:
    rates = Rates(1.0, 1, ManualClock())
    for number in range(NAMES_MAX + 10):
        rates.count(str(number))
    assert len(rates._buckets) == NAMES_MAX
    with pytest.raises(TooManyRequests):
        rates.count(str(NAMES_MAX + 9))


def test_only_failures_count_as_attempts() -> None:
    clock = ManualClock()
    attempts = Attempts(2, clock)
    for _ in range(10):
        attempts.check("a")
    for _ in range(2):
        attempts.failed("a")
    assert wait_s_if_refused(attempts) is not None
    assert wait_s_if_refused(attempts, "b") is None
    clock.now += 30
    assert wait_s_if_refused(attempts) is None


def test_the_time_of_a_refused_sign_in_is_a_multiple_of_a_step() -> None:
    for took_s in (0.0, 0.001, 0.49, 0.5, 0.51, 1.7):
        steps = (took_s + refusal_pause_s(took_s)) / REFUSED_STEP_S
        assert steps == pytest.approx(round(steps))
        assert steps >= 1
        assert refusal_pause_s(took_s) >= 0
