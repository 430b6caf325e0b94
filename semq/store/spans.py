"""Spans of record ids of one kind, found in groups of ids. Used by the stores when a process starts."""

from collections.abc import Iterable

GROUP_BITS = 10  # a group has 2**10 ids


def in_custody(groups: Iterable[tuple[int, int, bool]]) -> list[tuple[int, int]]:
    """Return spans (first, last) of own rows without an outcome that are all in custody, in ascending order.

    ``groups``, ascending: the lowest and the highest such row of a group of ids, and whether all of them are in
    custody. Spans begin and end with a group, so that a row that is not in custody excludes few others.
    """
    spans: list[tuple[int, int]] = []
    is_continued = False
    for first, last, all_in_custody in groups:
        if all_in_custody:
            spans.append((spans.pop()[0] if is_continued else first, last))
        is_continued = all_in_custody
    return spans
