"""Each type of exchange: matches while bindings are added and removed."""

from typing import Any

import pytest

from semq.broker.routing.exchanges import EXCHANGE_TYPES, Binding, Exchange, TopicExchange
from tests.broker.pure import Model

NOTHING: dict[str, Any] = {}

# type, (key, arguments) of bindings a and b, then rows of routing key, headers, matching bindings
ROWS: list[tuple[str, list[tuple[str, dict[str, Any]]], list[tuple[str, dict[str, Any], str]]]] = [
    ("direct", [("x", {}), ("y", {})], [("x", {}, "a"), ("y", {}, "b"), ("z", {}, "")]),
    ("direct", [("x", {}), ("x", {})], [("x", {}, "ab")]),
    ("fanout", [("x", {}), ("y", {})], [("z", {}, "ab")]),
    ("topic", [("x.*", {}), ("#", {})], [("x.1", {}, "ab"), ("x.1.2", {}, "b")]),
    ("headers", [("", {"n": 1}), ("", {"n": 2})], [("", {"n": 1}, "a"), ("", {"n": 3}, "")]),
]


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic"])
def test_a_binding_applies_to_keys_that_were_routed_before(kind: str) -> None:
    model, exchange = Model(), EXCHANGE_TYPES[kind]("e")
    late = Binding(exchange, model.queue("a"), "x", b"")
    assert matching_names(exchange, "x", {}) == ""
    exchange.bind(late, NOTHING)
    assert matching_names(exchange, "x", {}) == "a"
    exchange.unbind(late)
    assert matching_names(exchange, "x", {}) == ""


@pytest.mark.parametrize(("kind", "bindings", "cases"), ROWS)
def test_each_type_of_exchange_routes_by_its_rule(
    kind: str, bindings: list[tuple[str, dict[str, Any]]], cases: list[tuple[str, dict[str, Any], str]]
) -> None:
    model = Model()
    exchange = EXCHANGE_TYPES[kind]("e")
    queues = [model.queue("a"), model.queue("b")]
    bound = [
        Binding(exchange, queue, key, repr(arguments).encode())
        for queue, (key, arguments) in zip(queues, bindings, strict=True)
    ]
    for binding, (_, arguments) in zip(bound, bindings, strict=True):
        assert exchange.bind(binding, arguments)
        assert not exchange.bind(binding, arguments)
    for key, headers, names in cases:
        assert matching_names(exchange, key, headers) == names
    assert exchange.unbind(bound[0])
    assert not exchange.unbind(bound[0])
    for key, headers, names in cases:
        assert matching_names(exchange, key, headers) == names.replace("a", "")


def matching_names(exchange: Exchange, key: str, headers: dict[str, Any]) -> str:
    return "".join(sorted({destination.name for destination in exchange.match(key, lambda: headers)}))


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic"])
def test_bindings_that_differ_only_in_arguments_are_separate(kind: str) -> None:
    exchange, queue = EXCHANGE_TYPES[kind]("e"), Model().queue()
    first, second = (Binding(exchange, queue, "k", arguments) for arguments in (b"1", b"2"))
    exchange.bind(first, NOTHING)
    exchange.bind(second, NOTHING)
    exchange.unbind(first)
    assert matching_names(exchange, "k", NOTHING) == "q"
    exchange.unbind(second)
    assert matching_names(exchange, "k", NOTHING) == ""
    assert queue.incoming == {}


def test_the_cache_of_a_topic_exchange_holds_at_most_4096_keys_that_match_one_queue_each() -> None:
    exchange, queue = EXCHANGE_TYPES["topic"]("e"), Model().queue()
    exchange.bind(Binding(exchange, queue, "#", b""), NOTHING)
    for number in range(10_000):
        assert matching_names(exchange, f"key.{number}", NOTHING) == "q"
    assert len(exchange._cache) <= 4096  # type: ignore[attr-defined]


def test_the_cache_of_a_topic_exchange_counts_each_queue_of_a_key() -> None:
    exchange, model = EXCHANGE_TYPES["topic"]("e"), Model()
    for number in range(1000):
        exchange.bind(Binding(exchange, model.queue(f"q{number}"), "#", b""), NOTHING)
    for number in range(100):
        assert len(list(exchange.match(f"key.{number}", dict))) == 1000
    assert isinstance(exchange, TopicExchange)
    assert sum(len(destinations) for destinations in exchange._cache.values()) <= 10_000
    exchange.unbind(next(iter(exchange.bindings)))
    assert len(list(exchange.match("key.1", dict))) == 999
