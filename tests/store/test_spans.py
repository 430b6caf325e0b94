"""Spans of rows in custody: whole groups only; ids without open rows do not divide a span."""

from semq.store.spans import in_custody


def test_groups_that_follow_each_other_are_one_span() -> None:
    assert in_custody([(3, 9, True), (20, 29, True), (30, 39, True)]) == [(3, 39)]


def test_a_group_with_a_row_that_is_not_in_custody_divides_spans() -> None:
    groups = [(0, 9, False), (10, 19, True), (20, 29, False), (30, 39, True), (70, 79, True)]
    assert in_custody(groups) == [(10, 19), (30, 79)]


def test_without_rows_no_span_is_in_custody() -> None:
    assert in_custody([]) == []
