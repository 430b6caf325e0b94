"""Violations: the first ones of each minute and peer get a ledger line; the others are counted."""

from semq.engine.violations import LINES_PER_MINUTE, OTHERS, PEERS_MAX, WINDOW_S, Violations


def test_the_first_violations_of_a_minute_get_lines_and_the_others_are_counted() -> None:
    violations = Violations()
    due = violations.next_due
    assert due is None
    admitted = [violations.admit("a", 100.0 + n / 1000) for n in range(LINES_PER_MINUTE + 5)]
    assert admitted == [True] * LINES_PER_MINUTE + [False] * 5
    assert violations.admit("b", 110.0)  # peers are counted separately
    assert violations.next_due == 100.0 + WINDOW_S
    assert violations.ended(100.0 + WINDOW_S - 1) == []
    assert violations.ended(100.0 + WINDOW_S) == [("a", 5)]
    assert violations.ended(100.0 + WINDOW_S) == []
    assert violations.admit("a", 161.0)  # the next minute
    assert violations.ended(110.0 + WINDOW_S) == []  # every violation of b had a line
    assert violations.next_due == 161.0 + WINDOW_S


def test_peers_beyond_the_bound_share_one_count() -> None:
    violations = Violations()
    for n in range(PEERS_MAX + LINES_PER_MINUTE + 7):
        violations.admit(f"peer {n}", 0.0)
    assert violations.ended(WINDOW_S) == [(OTHERS, 7)]
