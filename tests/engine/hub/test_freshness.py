"""Numbers of the carrier's batches: each number of an incarnation is new once, in any order, and only after a proof."""

from hypothesis import given
from hypothesis import strategies as st

from semq.engine.hub.freshness import ASK_S, LIVES_MAX, WINDOW, Freshness, Novelty


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, WINDOW), st.booleans()), max_size=200))
def test_each_number_is_new_once_in_any_order_after_a_batch_to_this_incarnation(
    batches: list[tuple[int, int, bool]],
) -> None:
    freshness, known, since = Freshness(), set[tuple[int, int]](), dict[int, int]()
    for life, number, proves in batches:
        if life not in since and not proves:
            expected = Novelty.UNPROVED
        elif (life, number) in known or (not proves and number < since[life]):
            expected = Novelty.REPEATED
        else:
            expected = Novelty.NEW
            since.setdefault(life, number)
            known.add((life, number))
        assert freshness.note(life, number, proves=proves) is expected


def test_a_number_before_the_window_counts_as_repeated_and_memory_is_bounded() -> None:
    freshness = Freshness()
    for number in range(1, 5 * WINDOW, 2):
        assert freshness.note(7, number, proves=True) is Novelty.NEW
    assert freshness.note(7, 2, proves=True) is Novelty.REPEATED
    assert freshness.note(7, 5 * WINDOW - 4, proves=True) is Novelty.NEW
    _, highest, recent = freshness._numbers[7]
    assert highest == 5 * WINDOW - 1
    assert len(recent) <= 2 * WINDOW
    for life in range(100, LIVES_MAX + 101):
        assert freshness.note(life, 1, proves=True) is Novelty.NEW
        assert freshness.must_ask(life, 0.0)
    assert len(freshness._numbers) == len(freshness._asked_at) == LIVES_MAX
    assert freshness.note(7, 5 * WINDOW + 1, proves=False) is Novelty.UNPROVED


def test_an_unproved_incarnation_is_asked_at_most_once_in_an_interval() -> None:
    freshness = Freshness()
    asked = [freshness.must_ask(7, at / 10) for at in range(25)]
    assert sum(asked) == int(2.4 / ASK_S) + 1
