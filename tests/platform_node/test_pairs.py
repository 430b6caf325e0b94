"""Pairs of institutions."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_node import pairs
from platform_node.definitions import Agreement, HubDefinitions, Institution, read_definitions
from platform_node.pairs import PartnerIndex, stopped_pairs
from semq.umx_t.address import Address, NodeType
from semq.umx_t.agreement import ANY


@dataclass(frozen=True)
class Allowed:
    """The configuration of an institution; None: it may send to all."""

    may_send_to: list[str] | None = None


ACCOUNTS = {"1": Allowed(), "2": Allowed(["1"]), "3": Allowed()}
FIRST = '[[agreements]]\nfrom = ["1"]\nto = ["2"]\n'


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", FIRST, ["1 -> 3", "2 -> 1", "3 -> 1", "3 -> 2"]),
        (FIRST, "", []),
        (FIRST, FIRST + '[[agreements]]\nfrom = ["*"]\nto = ["3"]\n', []),
        (FIRST, '[[agreements]]\nfrom = ["2"]\nto = ["1"]\n', ["1 -> 2"]),
        ('[nodes."4"]\n', "", ["1 -> 4", "3 -> 4", "4 -> 1", "4 -> 2", "4 -> 3"]),
        ('[nodes."4"]\n' + FIRST, FIRST, []),
        ("", "", []),
        # Types of documents that a pair would lose
        (FIRST, FIRST + 'types = ["order"]\n', ["1 -> 2 (*)"]),
        (FIRST + 'types = ["order"]\n', FIRST + "bytes_max = 9\n", []),
        (FIRST + 'types = ["order", "a/b/c", "pay"]\n', FIRST + 'types = ["a/b", "x/pay"]\n', ["1 -> 2 (order, pay)"]),
        (FIRST + 'types = ["a/b"]\n', FIRST + 'types = ["a/b/", "a/b/c", "a/b/c/d"]\n', ["1 -> 2 (a/b)"]),
        (FIRST + 'types = ["a", "a/b/c/d"]\n', FIRST + 'types = ["*/a", "a/b/c/d"]\n', []),
        (FIRST + 'types = ["a/b/c", "x/*/y"]\n', FIRST + 'types = ["a/b"]\n' + FIRST + 'types = ["x/*"]\n', []),
    ],
)
def test_pairs_that_a_change_would_stop_are_listed(before: str, after: str, expected: list[str]) -> None:
    assert stopped_pairs(ACCOUNTS, read_definitions(before), read_definitions(after)) == (expected, True)


def test_the_number_of_pairs_and_comparisons_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {str(number): Allowed() for number in range(100)}
    after = read_definitions(FIRST)
    stopped = stopped_pairs(many, HubDefinitions(), after)
    assert (len(stopped.pairs), stopped.is_complete) == (pairs.NAMED_MAX, False)
    monkeypatch.setattr(pairs, "COMPARED_MAX", 5)
    assert stopped_pairs(many, HubDefinitions(), after) == (["0 -> 1", "0 -> 2", "0 -> 3", "0 -> 4"], False)


def test_pairs_with_the_same_agreements_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    includes = pairs._includes

    def counted(patterns: Sequence[str], pattern: str) -> bool:
        compared.append(pattern)
        return includes(patterns, pattern)

    monkeypatch.setattr(pairs, "_includes", counted)
    many = {str(number): Allowed() for number in range(20)}
    for_all = '[[agreements]]\nfrom = ["*"]\nto = ["*"]\ntypes = ["a", "b"]\n'
    assert stopped_pairs(many, read_definitions(for_all), read_definitions(for_all)) == ([], True)
    assert compared == ["a", "b"]


IDS = ["1", "2", "3", "4"]
NODES = [Address(NodeType.LOCAL, node_id) for node_id in IDS]
STRANGER = Address(NodeType.LOCAL, "9")


names = st.lists(st.sampled_from([*IDS, "9", ANY]), min_size=1, max_size=3).map(tuple)
agreements = st.lists(
    st.builds(Agreement, from_=names, to=names, per_minute=st.integers(0, 3)),
    max_size=4,
).map(tuple)
accounts = st.dictionaries(
    st.sampled_from(IDS[:3]), st.builds(Allowed, st.none() | st.lists(st.sampled_from([*IDS, "9"]), max_size=3))
)


@given(accounts, agreements)
def test_the_index_equals_a_search_of_all_agreements(limits: dict[str, Allowed], agreed: tuple[Agreement, ...]) -> None:
    definitions = HubDefinitions(dict.fromkeys(IDS[1:], Institution()), agreed)
    index = PartnerIndex(limits, definitions)
    served = {*limits, *IDS[1:]}
    assert {node.id for node in index.nodes} == served
    for source, target in product([*NODES, STRANGER], repeat=2):
        between = [agreement for agreement in agreed if agreement.is_between(source.id, target.id)]
        if agreed:
            assert index.terms(source, target) == tuple(agreement.terms for agreement in between)
            allowed = bool(between)
        else:
            assert index.terms(source, target) is None
            limit = limits[source.id].may_send_to if source.id in limits else None
            allowed = limit is None or target.id in limit
        assert index.may_send(source, target) is (allowed and {source.id, target.id} <= served)
    for node in index.nodes:
        partners = {partner for partner in index.partners(node) if partner != node}
        allowed_either_way = {
            partner for partner in index.nodes if index.may_send(node, partner) or index.may_send(partner, node)
        }  # fmt: skip
        assert partners == allowed_either_way - {node}


def test_institutions_with_all_as_partners_share_one_list() -> None:
    index = PartnerIndex({node_id: Allowed(None) for node_id in IDS}, HubDefinitions())
    assert all(index.partners(node) is index.nodes for node in index.nodes)
