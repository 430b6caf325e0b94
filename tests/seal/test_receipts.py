"""Many statements under one signature, of which each can be proved alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.seal.errors import ReceiptForged
from semq.seal.keys import verify
from semq.seal.receipts import (
    Statement,
    climb,
    leaf,
    packet_message,
    path,
    read_signature,
    root,
    tree_message,
    write_signature,
)
from tests.seal.parties import A, B, SealingPair

STATEMENT = Statement(B, "1.10008.1.1.a.7", "RECV", "00" * 32, 1_800_000_000_000, "", A, 6)


@given(st.integers(1, 70), st.data())
def test_every_leaf_leads_to_the_root_by_its_path_and_no_other_does(count: int, data: st.DataObject) -> None:
    leaves = [leaf(STATEMENT._replace(lk0=str(n))) for n in range(count)]
    place = data.draw(st.integers(0, count - 1))
    way = path(leaves, place)
    assert climb(leaves[place], place, way) == root(leaves)
    assert climb(leaf(STATEMENT), place, way) != root(leaves)


def test_the_hash_depends_on_the_order_the_number_and_every_field() -> None:
    one, two = leaf(STATEMENT), leaf(STATEMENT._replace(lk0="other"))
    assert root([one, two]) != root([two, one])
    fields = [name for name in Statement._fields if name != "at"]
    changed = {leaf(Statement(**(STATEMENT._asdict() | {name: "other"}))) for name in fields}
    assert len(changed | {one, leaf(STATEMENT._replace(at=1))}) == len(Statement._fields) + 1
    assert len({one, leaf(STATEMENT._replace(sender="")), leaf(STATEMENT._replace(sender="", sid=-1))}) == 2
    messages = {tree_message(B, A, 2, one), tree_message(A, B, 2, one), tree_message(B, A, 3, one)}
    messages |= {packet_message(B, A, "809", one), packet_message(B, A, "810", one), packet_message(B, A, "809", two)}
    assert len(messages) == 6


def test_a_signature_travels_with_the_name_of_its_key() -> None:
    key = SealingPair().b
    name, signature = read_signature(write_signature(key, b"message"))
    verify(key.public_key(), signature, b"message")
    assert len(name) == 32
    for text in ("", "abc", "abc.*"):
        with pytest.raises(ReceiptForged):
            read_signature(text)
