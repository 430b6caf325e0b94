"""Short names: encoding and decoding, and typing mistakes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.umx_t.locator import INT64_MAX
from semq.umx_t.short_name import ALPHABET, CHECK_LENGTH, ShortName, read_short_name, short_name

LK0 = "1.10008.1.1.534a226699edc7f7.1099511627777"
NUMBERS = st.integers(0, INT64_MAX)


def test_usual_short_names_have_at_most_16_characters_and_the_longest_has_20() -> None:
    assert short_name(LK0) == "1-1-4KN6M"
    assert len(short_name("1.10008.1.1.534a226699edc7f7.109951162777700")) <= 16
    assert len(short_name(f"1.10008.1.1.534a226699edc7f7.{INT64_MAX}")) == 20


@given(NUMBERS)
def test_a_name_is_read_as_it_was_written(number: int) -> None:
    lk0 = f"1.10008.1.1.ab.{number}"
    name = read_short_name(short_name(lk0))
    assert name is not None
    assert name.object_id == number
    assert name.fits(lk0)
    assert not name.fits(f"1.10008.1.1.ab.{number}0")


def test_case_and_similar_letters_do_not_matter() -> None:
    name = short_name("1.10008.1.1.ab.1099511627777")
    assert name.startswith("1-1-")
    assert read_short_name(name.lower()) == read_short_name(name) == read_short_name(f"I-l-{name[4:]}")
    assert read_short_name("o-O-00000") == ShortName(0, "00000")


@pytest.mark.parametrize("number", range(CHECK_LENGTH))
def test_a_name_with_a_wrong_check_digit_does_not_fit_its_message(number: int) -> None:
    name = short_name(LK0)
    index = len(name) - CHECK_LENGTH + number
    for digit in ALPHABET.replace(name[index], ""):
        misspelt = read_short_name(name[:index] + digit + name[index + 1 :])
        assert misspelt is not None
        assert not misspelt.fits(LK0)


@pytest.mark.parametrize(
    "text",
    ["", "1-1", "1-1-9QX7", "1-1-9QX7MM", "1-1-9QX7U", "1.1.9QX7M", "S1-0001-ABCDEF", "ZZZZZ-1-9QX7M",
     "1-ZZZZZZZZZ-9QX7M", "1-1-9Q7M²", LK0],
)  # fmt: skip
def test_other_texts_are_no_short_names(text: str) -> None:
    assert read_short_name(text) is None


def test_an_invalid_locator_has_no_short_name() -> None:
    assert short_name("") == short_name("u-1.x") == short_name("1.2.٣") == ""
