"""Spans of record ids whose unsettled own rows are all in custody of the hub."""

from collections.abc import Iterable

GROUP_BITS = 10  # a group has 2**10 ids


def in_custody(groups: Iterable[tuple[int, int, bool]]) -> list[tuple[int, int]]:
    """Return spans of record ids (first, last), ascending, in which every own row without an outcome is in custody.

    ``groups``, ascending, has the groups of ids with own rows without an outcome: the lowest and the highest id of
    these rows, and whether all of them are in custody. A span consists of whole groups.
    """
    spans: list[tuple[int, int]] = []
    is_continued = False
    for first, last, all_in_custody in groups:
        if all_in_custody:
            spans.append((spans.pop()[0] if is_continued else first, last))
        is_continued = all_in_custody
    return spans
