"""The floor of a stream, with positions settled in any order."""

from hypothesis import given
from hypothesis import strategies as st

from semq.umx_t.floor import Floor


@given(st.lists(st.integers(0, 30)), st.integers(0, 5), st.sets(st.integers(0, 30)))
def test_the_floor_is_the_lowest_unsettled_position_and_never_falls(
    settled: list[int], start: int, settled_above: set[int]
) -> None:
    floor = Floor(start, settled_above)
    all_settled = set(range(start)) | settled_above
    for sid in (None, *settled):
        value_before = floor.value
        if sid is not None:
            floor.settle(sid)
            all_settled.add(sid)
        lowest = next(n for n in range(100) if n not in all_settled)
        assert floor.value == lowest >= value_before


def test_a_position_settled_before_the_floor_reaches_it_is_remembered() -> None:
    floor = Floor()
    for sid in (1, 3, 2):
        floor.settle(sid)
    assert floor.value == 0
    floor.settle(0)
    assert floor.value == 4


def test_a_position_below_the_floor_changes_nothing() -> None:
    floor = Floor(5, {1, 2, 7})
    floor.settle(3)
    assert floor.value == 5
