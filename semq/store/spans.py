"""Spans of record ids whose unsettled own rows are all in custody of the hub. ``postgres.recovery`` finds them when a
process starts.
"""

from collections.abc import Iterable

GROUP_BITS = 10  # a group has 2**10 ids


def in_custody(groups: Iterable[tuple[int, int, bool]]) -> list[tuple[int, int]]:
    """Return spans of record ids (first, last), in ascending order.

    In a span, every own row without an outcome is in custody.

    ``groups`` has one entry for each group of ids with own rows without an outcome, in ascending order: the lowest and
    the highest id of these rows, and whether all these rows are in custody. A span consists of whole groups, so one row
    that is not in custody keeps only its own group out of the spans.
    """
    spans: list[tuple[int, int]] = []
    is_continued = False
    for first, last, all_in_custody in groups:
        if all_in_custody:
            spans.append((spans.pop()[0] if is_continued else first, last))
        is_continued = all_in_custody
    return spans
