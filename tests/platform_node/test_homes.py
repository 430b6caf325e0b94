"""Homes of institutions."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_node import homes as module
from platform_node.homes import HubHomes, home_by_weight
from semq.store.control.cluster import KnownStore
from semq.umx_t.address import Address, NodeType

NODES = [Address(NodeType.LOCAL, str(10_000 + number)) for number in range(3000)]


def test_homes_are_assigned_in_proportion_to_the_weights() -> None:
    stores = {(1, 1): 1.0, (2, 2): 2.0, (3, 3): 3.0}
    counts = Counter(home_by_weight(str(node), stores) for node in NODES)
    assert abs(counts[1, 1] - 500) < 90
    assert abs(counts[2, 2] - 1000) < 120
    assert abs(counts[3, 3] - 1500) < 140


@given(st.dictionaries(st.tuples(st.integers(1, 99), st.integers(1, 99)), st.floats(0.1, 10), min_size=2, max_size=6))
def test_a_removed_store_moves_its_own_nodes_only(stores: dict[tuple[int, int], float]) -> None:
    removed = next(iter(stores))
    remaining = {store: weight for store, weight in stores.items() if store != removed}
    for node in NODES[:20]:
        before = home_by_weight(str(node), stores)
        assert before == removed or home_by_weight(str(node), remaining) == before


def test_the_highest_digest_has_a_finite_score(monkeypatch: pytest.MonkeyPatch) -> None:
    class HighestDigest:
        def digest(self) -> bytes:
            return b"\xff" * 8

    monkeypatch.setattr(module, "blake2b", lambda *_, **__: HighestDigest())
    assert home_by_weight("1.10008", {(1, 1): 1.0, (2, 2): 2.0}) == (2, 2)


def test_nodes_without_a_home_or_with_a_retired_one_get_one_in_a_store_in_use() -> None:
    homes = HubHomes()
    assert homes.missing_homes(NODES) == {}
    homes.stores = {
        (1, 1): KnownStore(1.0, True), (2, 2): KnownStore(0.0, True), (3, 3): KnownStore(1.0, True),
        (4, 4): KnownStore(9.0, False),
    }  # fmt: skip
    homes.retired = {(3, 3)}
    homes.homes = {str(NODES[0]): (2, 2)}
    assert homes.missing_homes(NODES[:3]) == {str(NODES[1]): (1, 1), str(NODES[2]): (1, 1)}
    assert homes.of(NODES[0]) == (2, 2)
    assert [homes.is_in_use(store) for store in ((1, 1), (2, 2), (3, 3), (4, 4))] == [True, True, False, False]
    homes.homes[str(NODES[1])] = (3, 3)
    assert homes.missing_homes(NODES[:2]) == {str(NODES[1]): (1, 1)}  # its store was retired
