"""Combined answers of several stores."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_node.all_stores import combination
from platform_node.all_stores.combination import StorePlace, number_for, place_of
from semq.service.errors import BadArguments

FIRST_STORE, SECOND_STORE = (1, 1), (2, 2)


@given(st.integers(0, 126), st.integers(0, (1 << 56) - 1))
def test_a_place_is_read_back_from_its_number(store: int, number: int) -> None:
    assert place_of(number_for(StorePlace(store, number))) == StorePlace(store, number)


def test_a_place_in_the_first_store_is_its_own_number() -> None:
    assert number_for(StorePlace(0, 17)) == 17


@pytest.mark.parametrize("place", [StorePlace(1, 1 << 56), StorePlace(128, 0)])
def test_a_place_beyond_the_bounds_is_refused(place: StorePlace) -> None:
    with pytest.raises(BadArguments):
        number_for(place)


def test_figures_are_added_at_any_depth() -> None:
    rest: dict[str, Any] = {"received": {}, "submitted": {}, "pieces": {}, "stuck": 0}
    rest |= {"pairs": [], "inboxes": [], "oldest": None}
    answers = [
        (FIRST_STORE, {"as_of": 9, "sent": {"x": 1}, "failed": 2, **rest}),
        (SECOND_STORE, {"as_of": 8, "sent": {"x": 3, "y": 4}, "failed": 5, **rest}),
    ]
    assert combination.census(answers, {}) == {"as_of": 8, "sent": {"x": 4, "y": 4}, "failed": 7, **rest}


def test_the_answer_of_a_store_with_the_row_has_priority() -> None:
    answers = [(FIRST_STORE, {"lk0": "a", "cleaned": True}), (SECOND_STORE, {"lk0": "a"})]
    assert combination.prefer_row(answers, {}) == {"lk0": "a", "store": "2.2", "other_stores": ["1.1"]}


def test_an_institution_is_online_if_it_is_online_at_any_instance() -> None:
    row = {"node": "1.7", "online": False, "held": 2}
    answers = [(FIRST_STORE, [row]), (SECOND_STORE, [row | {"online": True, "held": 0, "boot": 4}])]
    assert combination.institutions(answers, {}) == [
        {"node": "1.7", "online": True, "held": 2, "stores": {"1.1": 2}, "boot": 4}
    ]


def test_histories_are_in_the_order_of_time() -> None:
    first = {"lk0": "a", "events": [{"at": 3}], "others": ["b"], "before": []}
    second = {"lk0": "a", "events": [{"at": 2}], "others": ["b"], "before": []}
    traced = combination.histories([(FIRST_STORE, first), (SECOND_STORE, second)], {})
    assert traced["events"] == [{"at": 2, "store": "2.2"}, {"at": 3, "store": "1.1"}]
    assert traced["others"] == ["b"]
