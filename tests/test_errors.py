"""The text of an error."""

from typing import Any

import pytest

from semq.errors import BadInput
from semq.service.admin import describe
from semq.umx_t.address import Address


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        ("two words", "'two words'"),
        (7, "7"),
        (True, "True"),
        (None, "none"),
        (["7-4F2K-9QX7M", "7-4F2L-1QX7M"], "'7-4F2K-9QX7M, 7-4F2L-1QX7M'"),
        ((1, 2), "'1, 2'"),
        ([], "''"),
        ({"rows": 3, "limit": 2}, "'rows=3, limit=2'"),
        (Address(1, "10008"), "'1.10008'"),
    ],
)
def test_the_text_of_an_error_shows_its_facts_as_people_read_them(fact: Any, text: str) -> None:
    error = BadInput("It is wrong.", fact=fact)
    assert str(error) == f"SEMQ-1001 It is wrong. (fact={text})"
    assert error.facts == {"fact": fact}


@pytest.mark.parametrize(("fact", "text"), [(["a", "b"], "a, b"), (None, "none"), ("a b", "a b"), (7, "7")])
def test_programs_get_facts_as_texts_without_quotes(fact: Any, text: str) -> None:
    assert describe(BadInput(fact=fact))["facts"] == {"fact": text}


def test_control_characters_of_facts_are_escaped() -> None:
    assert "\\x1b" in str(BadInput("It is wrong.", found=["\x1b[2J"]))
