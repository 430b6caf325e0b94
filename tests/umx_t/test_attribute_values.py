"""Readers and writers of attribute values, found by the words in the table of ``attributes``.

``test_headers`` has the values that each reader refuses.
"""

from typing import Any

import pytest

from semq.errors import SemqError
from semq.umx_t.attribute_values import READERS, WRITERS, app_key, reader_of
from semq.umx_t.errors import BadAppKey
from semq.umx_t.locator import LK1, Pos


@pytest.mark.parametrize("word", READERS)
def test_a_reader_is_found_by_name_and_refuses_invalid_values(word: str) -> None:
    read = reader_of(word)
    assert read is READERS[word]
    with pytest.raises((SemqError, TypeError, AttributeError)):
        read("@Name", object())


def test_positions_and_locators_are_read_from_their_texts() -> None:
    assert reader_of("pos")("@Prev", "ff.76") == Pos(255, 76)
    assert reader_of("lk1")("@LK1", "1.2.3") == LK1(1, 2, 3)


@pytest.mark.parametrize("word", ["text 3", "repeated 3"])
def test_texts_have_a_maximum_number_of_characters(word: str) -> None:
    read = reader_of(word)
    assert read("@Name", "abc") == read("@Name", b"abc") == "abc"
    with pytest.raises(SemqError, match="at most 3"):
        read("@Name", "abcd")


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(KeyError):
        reader_of("nonsense")


def test_the_parts_of_an_app_key_are_written_with_slashes() -> None:
    assert WRITERS["joined"](("a", "b", "", "d")) == "a/b//d"


@pytest.mark.parametrize("value", [{"a/b/c/d": "e"}, ["a/b", "c/d", "e/f"], 5, True, None])
def test_an_app_key_that_is_neither_text_nor_four_texts_is_refused(value: Any) -> None:
    """A value is refused even if its representation as text has three slashes."""
    with pytest.raises(BadAppKey):
        app_key("@AppKey", value)
