"""Slices of the schedule: due together, repeated after growing intervals, and merged."""

from hypothesis import given
from hypothesis import strategies as st

from semq.engine.time.schedule import SLICES_MAX, Schedule, Slice

FIRST_S, MAX_S = 16.0, 256.0
MIDDLE = 0.5  # a jitter that does not change intervals


def test_rows_of_one_moment_become_due_together() -> None:
    schedule = Schedule(FIRST_S, MAX_S)
    for n in range(100):
        schedule.add(n, now=n / 100)
    assert len(schedule) == 1
    assert schedule.take(FIRST_S - 0.1) is None
    slice_ = schedule.take(FIRST_S)
    assert slice_ is not None
    assert (slice_.first, slice_.last) == (0, 99)
    assert schedule.take(1e9) is None


def test_intervals_double_up_to_the_longest() -> None:
    schedule = Schedule(FIRST_S, MAX_S)
    schedule.add(1, now=0.0)
    now, gaps = FIRST_S, []
    for _ in range(7):
        slice_ = schedule.take(now)
        assert slice_ is not None
        schedule.again(slice_, now, MIDDLE)
        due = schedule.next_due()
        assert due is not None
        gaps.append(due - now)
        now = due
    assert gaps == [32, 64, 128, 256, 256, 256, 256]


def test_each_earlier_send_doubles_the_first_interval_up_to_the_longest() -> None:
    for sends, wait in enumerate((16, 32, 64, 128, 256, 256), 1):
        schedule = Schedule(FIRST_S, MAX_S)
        schedule.add(1, now=0.0, sends=sends)
        assert schedule.next_due() == wait
        schedule.add(2, now=0.0)
        assert schedule.due_of(2) == FIRST_S
        slice_ = schedule.take(wait)
        while slice_ is not None and slice_.first != 1:
            slice_ = schedule.take(wait)
        assert slice_ is not None
        schedule.again(slice_, float(wait), MIDDLE)
        assert schedule.due_of(1) == wait + min(2 * wait, MAX_S)


def test_a_backlog_of_hours_has_few_slices() -> None:
    schedule = Schedule(FIRST_S, MAX_S)
    now = 0.0
    for n in range(20_000):
        now += 0.5
        schedule.add(n, now)
        slice_ = schedule.take(now)
        if slice_ is not None:
            schedule.again(slice_, now, MIDDLE)
    assert len(schedule) < 40
    assert schedule.next_due() is not None


def test_a_reconnect_makes_all_rows_due_together() -> None:
    schedule = Schedule(FIRST_S, MAX_S)
    for n in range(10):
        schedule.add(n, now=float(n * 10))
    schedule.begin_again(due=101.0)
    slice_ = schedule.take(101.0)
    assert slice_ == Slice(0, 9, 101.0)
    Schedule(FIRST_S, MAX_S).begin_again(0.0)  # an empty schedule has nothing due


def test_a_span_that_is_made_due_replaces_the_slices_inside_it() -> None:
    schedule = Schedule(FIRST_S, MAX_S)
    schedule.add(5, now=0.0)
    schedule.add(50, now=100.0)
    schedule.make_due(0, 10, due=1.0)
    assert schedule.take(1.0) == Slice(0, 10, 1.0)
    assert schedule.next_due() == 116.0


def test_a_slice_that_is_put_back_counts_no_inquiry() -> None:
    schedule = Schedule(FIRST_S, MAX_S)
    schedule.add(1, now=0.0)
    slice_ = schedule.take(20.0)
    assert slice_ is not None
    schedule.put_back(slice_, due=21.0)
    assert schedule.next_due() == 21.0
    assert slice_.inquiry_count == 0


@given(
    st.lists(st.tuples(st.floats(0, 40), st.integers(0, 8)), max_size=60),
    st.floats(0, 1, exclude_max=True),
)
def test_no_row_is_ever_forgotten(steps: list[tuple[float, int]], jitter: float) -> None:
    schedule = Schedule(FIRST_S, MAX_S)
    now, rows = 0.0, 0
    for wait, sends in steps:
        now += wait
        if sends:
            schedule.add(rows, now, sends)
            rows += 1
        while (slice_ := schedule.take(now)) is not None:
            schedule.again(slice_, now, jitter)
            assert slice_.due > now
    covered: set[int] = set()
    while (slice_ := schedule.take(1e12)) is not None:
        covered.update(range(slice_.first, slice_.last + 1))
    assert covered >= set(range(rows))


def test_slow_inquiries_delay_no_others() -> None:
    schedule = Schedule(FIRST_S, MAX_S)
    schedule.put_back(Slice(0, 9, 1.0, patient=True), 1.0)
    schedule.put_back(Slice(10, 19, 2.0), 2.0)
    assert schedule.next_due(patient_from=50.0) == 2.0
    assert schedule.take(3.0, patient=False) == Slice(10, 19, 2.0)
    assert schedule.take(3.0, patient=False) is None
    assert schedule.next_due(patient_from=50.0) == 50.0
    assert schedule.take(3.0) == Slice(0, 9, 1.0, patient=True)


def test_slices_of_different_pace_do_not_merge() -> None:
    """A merge would delay inquiries about the rows of one slice, even if the slices overlap."""
    schedule = Schedule(FIRST_S, MAX_S)
    schedule.again(Slice(0, 99, 0.0, 5, patient=True), 0.0, MIDDLE)
    schedule.again(Slice(40, 50, 0.0, 5), 0.0, MIDDLE)
    assert len(schedule) == 2
    schedule.again(Slice(0, 99, 0.0, 5, patient=True), 1.0, MIDDLE)
    assert schedule.take(1e9, patient=False) is not None
    assert schedule.take(1e9, patient=False) is None
    assert len(schedule) == 1  # the slices of the slower pace have merged


def test_after_a_reconnect_slices_keep_the_slower_pace_and_a_sample_of_their_rows_gets_the_usual_one() -> None:
    schedule = Schedule(FIRST_S, MAX_S)
    schedule.put_back(Slice(0, 9_999, 80.0, 5, patient=True), 80.0)
    schedule.put_back(Slice(20_000, 29_999, 900.0, 5, patient=True), 900.0)
    schedule.put_back(Slice(10_000, 10_099, 700.0, 5), 700.0)
    schedule.begin_again(due=100.0, sample=10)
    soon = [schedule.take(100.0, patient=False) for _ in range(4)]
    spans = [(slice_.first, slice_.last) for slice_ in soon if slice_ is not None]
    assert sorted(spans) == [(9_990, 9_999), (10_000, 10_099), (29_990, 29_999)]
    # Rows that an earlier round has not reached are first.
    assert schedule.take(100.0) == Slice(0, 9_999, 80.0, patient=True)
    assert schedule.take(100.0) == Slice(20_000, 29_999, 100.0, patient=True)


def test_a_rush_ends_the_slower_pace_of_all_slices() -> None:
    schedule = Schedule(FIRST_S, MAX_S)
    schedule.put_back(Slice(0, 99, 900.0, 5, patient=True), 900.0)
    schedule.make_all_due(3.0)
    assert schedule.take(3.0, patient=False) == Slice(0, 99, 3.0)


def test_spans_in_custody_begin_at_the_slower_pace() -> None:
    schedule = Schedule(FIRST_S, MAX_S)
    schedule.begin([(10, 19), (40, 49)], last=60, due=1.0)
    spans = []
    while (slice_ := schedule.take(1.0)) is not None:
        spans.append((slice_.first, slice_.last, slice_.patient))
    assert spans == [(0, 9, False), (10, 19, True), (20, 39, False), (40, 49, True), (50, 60, False)]


def test_distant_rows_have_slices_of_their_own_up_to_a_number_of_slices() -> None:
    schedule = Schedule(FIRST_S, MAX_S)
    schedule.add(1, now=0.0)
    schedule.add(1_000_000, now=0.1)
    for now in (20.0, 60.0, 140.0):
        while (slice_ := schedule.take(now)) is not None:
            schedule.again(slice_, now, MIDDLE)
        assert len(schedule) == 2
    for number in range(2, 1_000):
        schedule.add(number * 1_000_000, now=200.0)
    assert len(schedule) <= SLICES_MAX
