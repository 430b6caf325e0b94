"""Business dates: every instant belongs to one, for any zone, cut-off and change of clocks."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reconcile.days import Calendar, neighbours, parse_date
from spark_reconcile.errors import BadRunRequest, BadSettings

ZONES = ["UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]
CUTOFFS = ["00:00", "04:30", "12:00", "18:00", "23:59"]
INSTANTS = st.integers(min_value=946_684_800_000, max_value=4_102_444_800_000)


def ms(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type,misc]


@given(st.sampled_from(ZONES), st.sampled_from(CUTOFFS), INSTANTS)
def test_an_instant_lies_in_the_window_of_its_date(zone: str, cutoff: str, at: int) -> None:
    calendar = Calendar(zone, cutoff)
    window = calendar.window(calendar.date_of(at))
    assert window.start <= at < window.end


@given(st.sampled_from(ZONES), st.sampled_from(CUTOFFS), st.dates(date(2001, 1, 1), date(2099, 1, 1)))
def test_dates_follow_each_other_without_gap(zone: str, cutoff: str, day: date) -> None:
    calendar = Calendar(zone, cutoff)
    assert calendar.window(day).end == calendar.window(day + timedelta(days=1)).start


@pytest.mark.parametrize(
    ("zone", "cutoff", "begins", "ends"),
    [
        ("UTC", "00:00", ms(2026, 11, 20), ms(2026, 11, 21)),
        ("Asia/Shanghai", "00:00", ms(2026, 11, 19, 16), ms(2026, 11, 20, 16)),
        ("UTC", "04:00", ms(2026, 11, 20, 4), ms(2026, 11, 21, 4)),
        ("UTC", "18:00", ms(2026, 11, 19, 18), ms(2026, 11, 20, 18)),
    ],
)
def test_a_date_is_named_after_the_day_that_contains_most_of_it(zone: str, cutoff: str, begins: int, ends: int) -> None:
    assert Calendar(zone, cutoff).window(date(2026, 11, 20)) == (begins, ends)


def test_a_day_with_a_change_of_the_clock_is_shorter_or_longer() -> None:
    berlin = Calendar("Europe/Berlin")
    hours = {
        day: (w.end - w.start) // 3_600_000
        for day in (date(2026, 3, 29), date(2026, 10, 25))
        for w in [berlin.window(day)]
    }
    assert hours == {date(2026, 3, 29): 23, date(2026, 10, 25): 25}


@pytest.mark.parametrize(
    "wrong",
    [("Mars/Olympus", "00:00"), ("../etc/passwd", "00:00"), ("UTC", "25:00"), ("UTC", "18:00+02:00"), ("UTC", "x")],
)
def test_an_invalid_zone_or_cutoff_is_refused(wrong: tuple[str, str]) -> None:
    with pytest.raises(BadSettings):
        Calendar(*wrong)


@pytest.mark.parametrize("wrong", ["", "yesterday", "2026-13-01", "20.11.2026", "1999-12-31", "9999-12-31"])
def test_a_date_that_is_unreadable_or_out_of_range_is_refused(wrong: str) -> None:
    with pytest.raises(BadRunRequest):
        parse_date(wrong)


def test_a_date_is_read() -> None:
    assert parse_date("2026-03-01") == date(2026, 3, 1)


def test_neighbours_surround_a_date() -> None:
    assert neighbours(date(2026, 3, 1), 1, 2) == [
        date(2026, 2, 28),
        date(2026, 3, 1),
        date(2026, 3, 2),
        date(2026, 3, 3),
    ]


def test_local_times_carry_their_offset() -> None:
    assert Calendar("Asia/Shanghai").local(ms(2026, 11, 20)) == "2026-11-20 08:00:00.000+08:00"
