"""The doubts of a node about its clocks, after its start and after jumps."""

from datetime import date, datetime, timedelta

from semq.service.clock_check import AFTER_JUMP_S, AFTER_START_S, ClockCheck
from tests.clocks import START, ManualClock


class MovedClock(ManualClock):
    """A clock whose date differs from the monotonic clock by ``jump``."""

    jump = timedelta(0)

    def wall(self) -> datetime:
        return super().wall() + self.jump


def today(clock: ManualClock) -> date:
    return clock.wall().date()


def test_the_clock_is_in_doubt_in_the_first_hour_after_the_start() -> None:
    clock = ManualClock()
    check = ClockCheck(clock)
    assert check.doubt(today(clock)) == "the node has started; nothing is deleted by its age for 3600 s"
    clock.now += AFTER_START_S
    assert not check.doubt(today(clock))


def test_the_clock_is_in_doubt_while_its_date_differs_from_that_of_the_database() -> None:
    clock = ManualClock()
    check = ClockCheck(clock)
    clock.now += AFTER_START_S
    assert check.doubt(START.date() + timedelta(2)) == "the dates of node and database differ"
    assert not check.doubt(START.date() + timedelta(1))  # one of them has reached the next day


def test_the_clock_is_in_doubt_for_three_days_after_a_jump_ahead_and_not_after_one_back() -> None:
    clock = MovedClock()
    check = ClockCheck(clock)
    clock.now += AFTER_START_S
    clock.jump = timedelta(days=2)
    assert check.doubt(today(clock)).startswith("the clock has jumped ahead; ")
    clock.now += AFTER_JUMP_S - 1
    assert check.doubt(today(clock)).startswith("the clock has jumped ahead; ")
    clock.now += 1
    clock.jump = timedelta(0)
    assert not check.doubt(today(clock))
