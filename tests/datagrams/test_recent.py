"""The loss of the last five minutes."""

from semq.answers.status import LossState
from semq.datagrams.counts import Coverage
from semq.datagrams.recent import RecentLoss


def test_documents_older_than_five_minutes_do_not_count_and_late_ones_are_subtracted() -> None:
    recent = RecentLoss()
    assert recent.shown(0.0) == LossState(documents=0, lost=0, full=0)
    recent.note(10.0, Coverage(100, 10, 1))
    recent.note(59.0, Coverage(100, 5, 0))
    recent.note(61.0, Coverage(10, -6, 0))
    assert recent.shown(299.0) == LossState(documents=210, lost=9, full=1)
    assert recent.shown(301.0) == LossState(documents=10, lost=0, full=0)
    assert recent.shown(3600.0) == LossState(documents=0, lost=0, full=0)


def test_a_pause_leaves_only_the_minutes_of_the_window() -> None:
    recent = RecentLoss()
    for minute in (0, 1, 2, 50, 51):
        recent.note(minute * 60.0, Coverage(1, 1))
    assert recent.shown(51 * 60.0).documents == 2
