"""Topic patterns compared with a recursive matcher, and large numbers of patterns."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.broker.routing import topic
from semq.broker.routing.topic import TopicIndex

WORDS = st.sampled_from(["a", "b", "", "stock"])
KEYS = st.lists(WORDS, min_size=1, max_size=5).map(".".join)
PATTERNS = st.lists(st.one_of(WORDS, st.sampled_from(["*", "#"])), min_size=1, max_size=5).map(".".join)


def matches_by_rule(pattern: list[str], words: list[str]) -> bool:
    """Return whether a pattern matches by the rule of AMQP 0-9-1, 3.1.3.3, word by word."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return matches_by_rule(pattern[1:], words) or (bool(words) and matches_by_rule(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and matches_by_rule(pattern[1:], words[1:])


def words(text: str) -> list[str]:
    return text.split(".") if text else []


@given(st.lists(PATTERNS, max_size=12), st.lists(PATTERNS, max_size=4), KEYS)
def test_matches_agree_with_the_rule_after_adding_and_removing(added: list[str], removed: list[str], key: str) -> None:
    index: TopicIndex[str] = TopicIndex()
    for pattern in added:
        index.add(pattern, pattern)
    for pattern in removed:
        index.remove(pattern, pattern)
    remaining = set(added) - set(removed)
    assert set(index.match(key)) == {pattern for pattern in remaining if matches_by_rule(words(pattern), words(key))}


@given(st.lists(PATTERNS, max_size=12))
def test_the_tree_is_empty_after_all_bindings_are_removed(patterns: list[str]) -> None:
    index: TopicIndex[int] = TopicIndex()
    for number, pattern in enumerate(patterns):
        index.add(pattern, number)
    for number, pattern in enumerate(patterns):
        index.remove(pattern, number)
    assert index._root.is_empty()


def test_patterns_match_as_in_the_example_of_the_specification() -> None:
    index: TopicIndex[str] = TopicIndex()
    index.add("*.stock.#", "q")
    assert [list(index.match(key)) for key in ("usd.stock", "eur.stock.db", "stock.nasdaq")] == [["q"], ["q"], []]


@pytest.mark.parametrize(("pattern", "is_match"), [("*", False), ("#", True), ("", True)])
def test_an_empty_key_has_no_words(pattern: str, is_match: bool) -> None:
    index: TopicIndex[str] = TopicIndex()
    index.add(pattern, "q")
    assert list(index.match("")) == (["q"] if is_match else [])


class CountingIndex(TopicIndex[int]):
    """An index that counts visited nodes: a visit reads ``words`` of the node once, except at the end of the key."""

    visits = 0

    def match(self, key: str) -> Iterator[int]:
        nodes: Any = topic._Node
        original = nodes.words

        def words(node: Any) -> Any:
            self.visits += 1
            return original.__get__(node)

        nodes.words = property(words)
        try:
            yield from list(super().match(key))
        finally:
            nodes.words = original


def test_a_look_up_among_100_000_patterns_visits_few_of_them() -> None:
    index = CountingIndex()
    for number in range(100_000):
        index.add(f"orders.{number % 1000}.{number}.*", number)
    index.add("orders.#", -1)
    assert set(index.match("orders.7.5007.new")) == {5007, -1}
    assert index.visits < 20


def test_the_cost_of_a_pattern_with_many_hashes_is_at_most_quadratic() -> None:
    index = CountingIndex()
    index.add(".".join(["#", "a"] * 60), 1)
    assert list(index.match(".".join(["a"] * 127))) == [1]
    assert index.visits < 127 * 127 * 2
