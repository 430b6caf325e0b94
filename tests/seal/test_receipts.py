"""Statements under one signature."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.seal.errors import ReceiptForged
from semq.seal.keys import verify
from semq.seal.receipts import (
    Statement,
    leaf,
    packet_message,
    path,
    read_signature,
    root,
    root_of_path,
    tree_message,
    write_signature,
)
from tests.seal.parties import A, B, SealingPair

STATEMENT = Statement(B, "1.10008.1.1.a.7", "RECV", "00" * 32, 1_800_000_000_000, "", A, 6)


@given(st.integers(1, 70), st.data())
def test_only_the_leaf_of_a_path_gives_the_root(count: int, data: st.DataObject) -> None:
    leaves = [leaf(STATEMENT._replace(lk0=str(n))) for n in range(count)]
    place = data.draw(st.integers(0, count - 1))
    neighbours = path(leaves, place)
    assert root_of_path(leaves[place], place, neighbours) == root(leaves)
    assert root_of_path(leaf(STATEMENT), place, neighbours) != root(leaves)


def test_the_signed_data_depend_on_order_number_parties_and_every_field() -> None:
    first, second = leaf(STATEMENT), leaf(STATEMENT._replace(lk0="other"))
    assert root([first, second]) != root([second, first])
    fields = [name for name in Statement._fields if name != "at"]
    changed = {leaf(Statement(**(STATEMENT._asdict() | {name: "other"}))) for name in fields}
    assert len(changed | {first, leaf(STATEMENT._replace(at=1))}) == len(Statement._fields) + 1
    assert len({first, leaf(STATEMENT._replace(sender="")), leaf(STATEMENT._replace(sender="", sid=-1))}) == 2
    messages = {tree_message(B, A, 2, first), tree_message(A, B, 2, first), tree_message(B, A, 3, first)}
    messages |= {
        packet_message(B, A, "809", first),
        packet_message(B, A, "810", first),
        packet_message(B, A, "809", second),
    }
    assert len(messages) == 6


def test_a_signature_travels_with_the_name_of_its_key() -> None:
    key = SealingPair().b
    name, signature = read_signature(write_signature(key, b"message"))
    verify(key.public_key(), signature, b"message")
    assert len(name) == 32
    for text in ("", "abc", "abc.*"):
        with pytest.raises(ReceiptForged):
            read_signature(text)
