"""The encoding of authenticated data, and header values before and after AMQP."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.amqp.wire import decode_table, encode_table
from semq.seal.canonical import canonical, tagged
from semq.seal.errors import HeaderUnfit

NAMES = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=8)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | TEXTS
    | st.binary(max_size=20)
    | st.decimals(-1000, 1000, places=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
TABLES = st.dictionaries(NAMES, PLAIN, max_size=4)


@given(TABLES)
def test_a_table_is_bound_in_the_same_way_before_and_after_the_transport(table: dict[str, Any]) -> None:
    received = decode_table(encode_table(table))[0]
    assert canonical("x", tagged(received)) == canonical("x", tagged(table))


@given(TABLES, TABLES)
def test_different_tables_are_bound_differently(first: dict[str, Any], second: dict[str, Any]) -> None:
    if canonical("x", tagged(first)) == canonical("x", tagged(second)):
        assert first == second


def test_types_labels_and_boundaries_change_the_encoding_and_the_order_of_keys_does_not() -> None:
    values = [1, True, 1.0, "1", b"1", Decimal(1), ["1"], {"1": None}, None]
    assert len({canonical("x", tagged(value)) for value in values}) == len(values)
    assert canonical("x", "a", "b") != canonical("x", "ab", "")
    assert canonical("x", "a") != canonical("y", "a")
    assert canonical("x", tagged({"a": 1, "b": 2})) == canonical("x", tagged({"b": 2, "a": 1}))


def test_values_that_amqp_cannot_carry_are_refused() -> None:
    with pytest.raises(HeaderUnfit) as refused:
        tagged({"when": object()})
    assert refused.value.facts == {"kind": "object"}
