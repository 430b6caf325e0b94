"""Locators: encoding, decoding, and hostile text."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.umx_t.address import Address
from semq.umx_t.errors import BadLocator
from semq.umx_t.locator import INT64_MAX, LK0, LK1, Pos, Store, parse_lk0, parse_lk1, parse_pos
from tests.umx_t.samples.strategies import lk0s, lk1s, positions, table_values


@given(lk0s)
def test_lk0_is_read_back_from_its_text(lk0: LK0) -> None:
    assert parse_lk0(str(lk0)) == lk0


@given(lk1s)
def test_lk1_is_read_back_from_its_text(lk1: LK1) -> None:
    assert parse_lk1(str(lk1)) == lk1


@given(positions)
def test_a_position_is_read_back_from_its_text(pos: Pos) -> None:
    assert parse_pos(str(pos)) == pos


def test_a_locator_has_the_parts_of_its_text() -> None:
    lk0 = LK0(1, "10008", 2, 3, 0xFF, 9)
    assert str(lk0) == "1.10008.2.3.ff.9"
    assert lk0.node == lk0.store.node == Address(1, "10008")
    assert lk0.store == Store(1, "10008", 2, 3)
    assert str(lk0.store) == "1.10008.2.3"


TOO_BIG = INT64_MAX + 1


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (parse_lk0, ""),
        (parse_lk0, "1.a.1.1.ff"),
        (parse_lk0, "1.a.1.1.FF.1"),
        (parse_lk0, "1.a.1.1.ff.-1"),
        (parse_lk0, "1.a.1.1.ff.1\n"),
        (parse_lk0, f"1.a.1.1.{TOO_BIG:x}.1"),
        (parse_lk0, f"1.a.1.1.1.{TOO_BIG}"),
        (parse_lk0, f"1.{'a' * 65}.1.1.1.1"),
        (parse_lk1, "1.1"),
        (parse_lk1, "1.1.x"),
        (parse_lk1, "1.1.²"),
        (parse_lk1, "1..1"),
        (parse_lk1, f"1.1.{TOO_BIG}"),
        (parse_lk1, "1.1." + "9" * 20),
        (parse_pos, "1"),
        (parse_pos, "g.1"),
        (parse_pos, f"{TOO_BIG:x}.1"),
        (parse_pos, f"1.{TOO_BIG}"),
    ],
)
def test_invalid_locators_are_refused(read: Callable[[object], Any], text: str) -> None:
    with pytest.raises(BadLocator):
        read(text)


@given(st.sampled_from([parse_lk0, parse_lk1, parse_pos]), table_values | st.text("0123456789abcf.", max_size=60))
def test_any_value_is_read_or_refused(read: Callable[[object], Any], value: object) -> None:
    try:
        assert read(str(read(value))) == read(value)
    except BadLocator:
        pass
