"""Foreign text made safe for a screen, a log, a page or a spreadsheet."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.foreign_text import SHOWN_MAX, in_page, json_text, shortened, shown, shown_lines

# Any code point, including lone surrogates.
TEXTS = st.text(st.characters(codec=None, exclude_categories=()))
WITHOUT_WIDTH = (
    "\u061c\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff\U000e0041"
)
CONTROLS = "\x00\x08\x0b\x0c\x0e\x1b\x1f\x7f\x85\x9b\u2028\u2029"
PLAIN = "上海凌云贸易 → 1.10008/Söhne עברית 🚚"


def is_invisible(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in WITHOUT_WIDTH + CONTROLS


@given(TEXTS)
def test_a_line_has_no_invisible_characters(text: str) -> None:
    line = shown(text)
    assert not any(map(is_invisible, line))
    assert len(line.splitlines()) <= 1
    line.encode()


@given(TEXTS)
def test_json_is_the_same_data_and_safe(text: str) -> None:
    result = json_text({text: [text]})
    assert not any(map(is_invisible, result))
    result.encode()
    pairs = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # as JSON joins surrogate pairs
    assert json.loads(result) == {pairs: [pairs]}


@given(TEXTS)
def test_a_text_in_a_page_keeps_its_length_and_has_no_invisible_characters(text: str) -> None:
    page = in_page(text)
    assert not any(is_invisible(character) for character in page if character not in "\t\r\n")
    assert len(page) == len(text)


def test_ordinary_text_is_unchanged() -> None:
    assert shown(PLAIN) == in_page(PLAIN) == PLAIN
    assert in_page("a\tb\r\n") == "a\tb\r\n"
    assert in_page(WITHOUT_WIDTH + CONTROLS) == "\ufffd" * len(WITHOUT_WIDTH + CONTROLS)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\u202egnp", "\\u202egnp"),
        ("\x9b31m", "\\x9b31m"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_invisible_characters_are_written_as_escapes(text: str, line: str) -> None:
    assert shown(text) == line


def test_a_long_text_is_cut_with_the_number_of_missing_characters() -> None:
    assert shown("x" * (SHOWN_MAX + 7)) == "x" * SHOWN_MAX + "… (7 more characters)"
    assert shown("x" * SHOWN_MAX) == "x" * SHOWN_MAX
    assert shown_lines("a\n\x1bb") == ["a", "\\x1bb"]


def test_a_shortened_text_ends_with_an_ellipsis() -> None:
    assert [shortened("abcdef", length_max) for length_max in (7, 6, 5)] == ["abcdef", "abcdef", "abcd…"]
