"""Limits of requests and of failed sign-ins."""

import tracemalloc

import pytest

from semq.web.access.limits import NAMES_FACTOR, NAMES_MAX, REFUSED_STEP_S, Attempts, Rates, refusal_pause_s
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


def test_failures_count_for_one_user_at_one_network_and_for_all_users_at_ten_times_the_limit() -> None:
    attempts = Attempts(2, ManualClock())
    for _ in range(2):
        attempts.begin("2001:db8::1", "ann")
    for address in ("2001:db8::1", "2001:db8::2"):
        with pytest.raises(TooManyRequests):
            attempts.check(address, "ann")
    attempts.check("2001:db8::1", "bob")
    attempts.check("2001:db8:0:1::1", "ann")
    for number in range(2 * NAMES_FACTOR - 2):
        attempts.begin("2001:db8::1", f"user{number}")
    with pytest.raises(TooManyRequests):
        attempts.check("2001:db8::1", "bob")
    attempts.check("192.0.2.1", "bob")


def test_long_names_of_users_take_no_memory() -> None:
    attempts = Attempts(10, ManualClock())
    tracemalloc.start()
    try:
        for number in range(200):
            attempts.failed(f"10.0.0.{number}", str(number) * 10_000)
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()


def test_only_the_password_that_was_right_last_is_remembered() -> None:
    attempts = Attempts(2, ManualClock())
    attempts.remember("ann", "first")
    attempts.remember("ann", "second")
    assert not attempts.knows("ann", "first")
    assert attempts.knows("ann", "second")
    assert not attempts.knows("bob", "second")
    for number in range(NAMES_MAX):
        attempts.remember(str(number), "x")
    assert not attempts.knows("ann", "second")


def test_the_time_of_a_refused_sign_in_is_a_multiple_of_a_step() -> None:
    for took_s in (0.0, 0.001, 0.49, 0.5, 0.51, 1.7):
        steps = (took_s + refusal_pause_s(took_s)) / REFUSED_STEP_S
        assert steps == pytest.approx(round(steps))
        assert steps >= 1
        assert refusal_pause_s(took_s) >= 0
