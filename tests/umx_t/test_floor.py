"""The floor is the lowest unsettled position, in whatever order positions are settled."""

from hypothesis import given
from hypothesis import strategies as st

from semq.umx_t.floor import Floor


@given(st.lists(st.integers(0, 30)), st.integers(0, 5), st.sets(st.integers(0, 30)))
def test_the_floor_is_the_lowest_number_not_settled(settled: list[int], start: int, above: set[int]) -> None:
    floor = Floor(start, above)
    known = set(range(start)) | above
    for sid in (None, *settled):
        before = floor.value
        if sid is not None:
            floor.settle(sid)
            known.add(sid)
        lowest = next(n for n in range(100) if n not in known)
        assert floor.value == lowest >= before


def test_numbers_below_the_start_are_old_news() -> None:
    floor = Floor(5, {1, 2, 7})
    floor.settle(3)
    assert floor.value == 5
