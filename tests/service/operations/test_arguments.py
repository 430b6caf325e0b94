"""Reading of arguments: errors name the field and its meaning."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from semq.access_rights import AccessRole
from semq.service.errors import BadArguments
from semq.service.operations.arguments import Arguments, Limit, Name, read_arguments


class ExampleArguments(Arguments, frozen=True, kw_only=True, rename={"first": "from"}):
    id: Name
    limit: Limit = 50
    first: Annotated[str, Meta(min_length=1)] | None = None
    code: Annotated[str, Meta(pattern="^[a-z]+$")] | None = None
    parts: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    side: Literal["outbound", "inbound"] | None = None
    marks: Annotated[tuple[Literal["held", "parked", "void"], ...], Meta(min_length=1)] = ("held",)
    role: AccessRole | None = None
    more: dict[str, Any] | None = None


class ExtensibleArguments(msgspec.Struct):
    id: str


def test_absent_arguments_and_null_have_defaults() -> None:
    assert read_arguments("x.y", ExampleArguments, {"id": "7", "limit": None, "from": "a"}) == ExampleArguments(
        id="7", first="a"
    )


def test_texts_of_numbers_are_numbers() -> None:
    assert read_arguments("x.y", ExampleArguments, {"id": "7", "limit": "9", "parts": ["1", 2]}) == ExampleArguments(
        id="7", limit=9, parts=(1, 2)
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "x.y needs the argument id."),
        ({"id": None}, "x.y needs the argument id."),
        ({"id": ""}, "x.y needs the argument id; it is empty."),
        ({"id": "7", "from": ""}, "The argument from of x.y is empty: leave it out, or give it a value."),
        ({"id": 7}, "The argument id of x.y is wrong: Expected str, got int."),
        ({"id": "7", "limit": 1001}, "The argument limit of x.y is wrong: Expected int <= 1000."),
        ({"id": "7", "code": "A1"}, "The argument code of x.y does not have the required form."),
        ({"id": "7", "parts": [1, -1]}, "The argument parts[1] of x.y is wrong: Expected int >= 0."),
        ({"id": "7", "side": "all"}, "The argument side of x.y is wrong: 'all' is none of inbound, outbound."),
        (
            {"id": "7", "marks": ["held", "lost"]},
            "The argument marks[1] of x.y is wrong: 'lost' is none of held, parked, void.",
        ),
        (
            {"id": "7", "role": "root"},
            "The argument role of x.y is wrong: 'root' is none of admin, operator, payload, viewer.",
        ),
        ({"id": "7", "limits": 5}, "x.y has no argument limits; did you mean limit?"),
        ({"id": "7", "first": "a"}, "x.y has no argument first."),
        ({"id": "7", "more": {"deep": ["a\0"]}}, "The argument more of x.y contains a NUL character."),
        ({"id": "7", "more": {"\0": 1}}, "The argument more of x.y contains a NUL character."),
    ],
)
def test_wrong_arguments_are_named(given: dict[str, Any], text: str) -> None:
    with pytest.raises(BadArguments) as caught:
        read_arguments("x.y", ExampleArguments, given)
    assert caught.value.text == text
    assert "`semq call --list OPERATION`" in caught.value.remedy


def test_the_meaning_of_a_field_is_a_fact_of_its_error() -> None:
    with pytest.raises(BadArguments) as caught:
        read_arguments("x.y", ExampleArguments, {"id": "7", "limit": 0})
    assert caught.value.facts == {"meaning": "Number of rows, at most."}


def test_deep_values_are_refused() -> None:
    deep: Any = "a"
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(BadArguments, match="nested too deeply"):
        read_arguments("x.y", ExampleArguments, {"id": "7", "more": {"deep": deep}})


def test_requests_between_versions_may_have_more_arguments() -> None:
    assert read_arguments("trace", ExtensibleArguments, {"id": "7", "newer": 1}) == ExtensibleArguments("7")
