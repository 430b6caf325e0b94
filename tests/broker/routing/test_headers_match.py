"""The arguments of a binding and the headers of a message, compared by each value of x-match."""

from typing import Any

import pytest

from semq.broker.routing.headers_match import HeadersPattern

CASES: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    # arguments of the binding, headers of the message, whether they match
    ({"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 0}, True),
    ({"a": 1, "b": "x"}, {"a": 1}, False),
    ({"x-match": "all"}, {}, True),
    ({"x-match": "any"}, {"a": 1}, False),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 1}, False),
    ({"a": None}, {"a": "whatever"}, True),
    ({"a": None}, {"b": "whatever"}, False),
    ({"a": 1}, {"a": True}, False),
    ({"a": 1}, {"a": "1"}, False),
    ({"a": 1}, {"a": 1.0}, True),
    ({"x-colour": "red"}, {}, True),
    ({"x-match": "any", "x-colour": "red"}, {"x-colour": "red"}, False),
    ({"x-match": "all-with-x", "x-colour": "red"}, {}, False),
    ({"x-match": "all-with-x", "x-colour": "red"}, {"x-colour": "red"}, True),
    ({"x-match": "any-with-x", "x-colour": "red", "a": 1}, {"x-colour": "red"}, True),
]


@pytest.mark.parametrize(("arguments", "headers", "matches"), CASES)
def test_arguments_of_a_headers_binding_match_headers(
    arguments: dict[str, Any], headers: dict[str, Any], matches: bool
) -> None:
    assert HeadersPattern(arguments).matches(headers) is matches


@pytest.mark.parametrize("value", ["some", "", 1, None, True])
def test_other_values_of_x_match_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="x-match"):
        HeadersPattern({"x-match": value})
