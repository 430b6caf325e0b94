"""The rate of datagrams: the loss that lowers it, its bounds, and documents that are judged once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.datagrams.counts import Coverage
from semq.datagrams.rate import FLOOR_BYTES_PER_S, SAMPLE, START_BYTES_PER_S, ByteBucket, SendingRate

MAXIMUM = 12_500_000


def after_reports(rate: SendingRate, *losses: int, under_way: int = 0, full: int = 0) -> SendingRate:
    """Report samples of 100 documents, each with one of these losses, and return the rate.

    ``under_way``: number of documents that left after the sample; ``full``: number of documents of the sample that
    arrived, but were dropped for lack of room.
    """
    for lost in losses:
        rate.report(Coverage(SAMPLE, lost, full), under_way)
    return rate


def rates(rate: SendingRate, *losses: int) -> list[int]:
    return [round(after_reports(rate, lost).bytes_per_s) for lost in losses]


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ((0, 0, 0), [250_000, 500_000, 1_000_000]),
        ((1, 5, 10), [250_000, 500_000, 1_000_000]),  # loss up to 10 % does not lower the rate
        ((11,), [62_500]),
        ((20, 20, 20, 20), [62_500, 31_250, 15_625, 10_000]),
        ((0, 100, 0, 0, 0), [250_000, 125_000, 137_500, 150_000, 162_500]),
        ((100, 100, 100, 100, 0, 0, 0), [62_500, 31_250, 15_625, 10_000, 11_000, 12_000, 13_000]),
    ],
)
def test_samples_of_100_documents_change_the_rate(losses: tuple[int, ...], expected: list[int]) -> None:
    assert rates(SendingRate(MAXIMUM), *losses) == expected


def test_above_the_last_rate_with_loss_the_steps_double() -> None:
    rate = after_reports(SendingRate(MAXIMUM), 100)
    assert rates(rate, *[0] * 12)[-3:] == [125_000, 131_250, 143_750]


def test_a_rate_after_a_long_outage_reaches_the_maximum_again() -> None:
    rate = after_reports(SendingRate(MAXIMUM), *[0] * 20, *[100] * 20)
    assert rate.bytes_per_s == FLOOR_BYTES_PER_S
    assert after_reports(rate, *[0] * 30).bytes_per_s == MAXIMUM


def test_documents_dropped_for_lack_of_room_lower_the_rate_like_lost_ones() -> None:
    assert after_reports(SendingRate(MAXIMUM), 6, full=6).bytes_per_s == START_BYTES_PER_S / 2


def test_documents_that_left_before_a_halving_are_not_judged_again() -> None:
    rate = SendingRate(MAXIMUM)
    assert rate.report(Coverage(SAMPLE, 50), 150)
    assert not rate.report(Coverage(SAMPLE, 50), 50)
    assert not rate.report(Coverage(SAMPLE, 50), 0)
    assert rate.bytes_per_s == START_BYTES_PER_S / 2
    assert rate.report(Coverage(SAMPLE, 50), 0)


def test_a_small_sample_waits_for_more_documents_and_late_ones_are_subtracted() -> None:
    rate = SendingRate(MAXIMUM)
    rate.report(Coverage(SAMPLE - 1, 60), 0)
    assert rate.bytes_per_s == START_BYTES_PER_S
    rate.report(Coverage(1, -55), 0)
    assert rate.bytes_per_s == 2 * START_BYTES_PER_S


@pytest.mark.parametrize(("maximum", "start"), [(20_000, 20_000), (10_000, 10_000), (1, FLOOR_BYTES_PER_S)])
def test_a_low_maximum_is_the_first_rate_but_not_below_the_floor(maximum: int, start: int) -> None:
    assert SendingRate(maximum).bytes_per_s == start


def test_a_new_path_begins_at_the_first_rate() -> None:
    rate = after_reports(SendingRate(MAXIMUM), 0, 0, 100, under_way=1000)
    rate.restart()
    assert rates(rate, 0) == [2 * START_BYTES_PER_S]


@pytest.mark.parametrize("capacity", [20_000, 50_000, 125_000, 500_000, 3_000_000, 10_000_000])
@pytest.mark.parametrize("under_way", [0, 1], ids=["reports at once", "reports a second late"])
def test_a_bottleneck_is_used_with_little_loss(capacity: int, under_way: int) -> None:
    """The path passes ``capacity`` bytes per second; the sender always has more documents, of 500 bytes."""
    rate, sent, passed = SendingRate(MAXIMUM), 0, 0
    for second in range(300):
        documents = int(rate.bytes_per_s) // 500
        arrived = min(documents, capacity // 500)
        rate.report(Coverage(documents, documents - arrived), under_way * documents)
        if second >= 60:
            sent, passed = sent + documents, passed + arrived
    assert passed * 500 > 0.7 * capacity * 240
    assert (sent - passed) / sent < 0.05


coverages = st.builds(Coverage, st.integers(0, 10_000), st.integers(-10_000, 10_000), st.integers(0, 10_000))
histories = st.lists(st.tuples(coverages, st.integers(0, 10_000)), max_size=100)
maxima = st.integers(FLOOR_BYTES_PER_S, 10**10)


@given(maxima, histories)
def test_the_rate_is_never_below_the_floor_or_above_the_maximum(
    maximum: int, history: list[tuple[Coverage, int]]
) -> None:
    rate = SendingRate(maximum)
    for covered, under_way in history:
        rate.report(covered, under_way)
        assert FLOOR_BYTES_PER_S <= rate.bytes_per_s <= maximum


@given(maxima, histories, st.booleans())
def test_total_loss_ends_at_the_floor_and_no_loss_at_the_maximum_after_any_history(
    maximum: int, history: list[tuple[Coverage, int]], is_lost: bool
) -> None:
    rate = SendingRate(maximum)
    for covered, under_way in history:
        rate.report(covered, under_way)
    for _ in range(300):
        documents = 20_000
        rate.report(Coverage(documents, documents if is_lost else 0), 0)
    assert rate.bytes_per_s == (FLOOR_BYTES_PER_S if is_lost else maximum)


def test_a_bucket_allows_a_tenth_of_a_second_at_once_and_then_the_rate() -> None:
    bucket = ByteBucket(1000, 0.0)
    assert bucket.take(10_000, 100_000, 0.0)
    assert not bucket.take(1, 100_000, 0.0)
    assert not bucket.take(1001, 100_000, 0.01)
    assert bucket.take(1000, 100_000, 0.01)
    assert not bucket.take(10_001, 100_000, 60.0)
    assert bucket.take(10_000, 100_000, 60.0)


def test_a_bucket_always_has_room_for_one_datagram() -> None:
    bucket = ByteBucket(1000, 0.0)
    assert bucket.take(1000, 5000, 0.0)
    assert not bucket.take(1000, 5000, 0.1)
    assert bucket.take(1000, 5000, 0.2)


@given(st.lists(st.tuples(st.integers(1, 3000), st.floats(0, 5)), max_size=50))
def test_a_bucket_never_exceeds_its_rate(events: list[tuple[int, float]]) -> None:
    bucket, now, sent = ByteBucket(3000, 0.0), 0.0, 0
    for size, pause_s in events:
        now += pause_s
        sent += size * bucket.take(size, 10_000, now)
        assert sent <= 3000 + now * 10_000 + 0.001
