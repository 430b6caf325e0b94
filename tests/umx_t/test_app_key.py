"""AppKeys: encoding and decoding, and invalid parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.umx_t.app_key import NO_KEY, PART_MAX, AppKey, check_app_key, parse_app_key
from semq.umx_t.errors import BadAppKey
from tests.umx_t.samples.strategies import app_keys


@given(app_keys)
def test_every_app_key_is_read_back_from_its_text(app_key: AppKey) -> None:
    assert parse_app_key(str(app_key)) == app_key


def test_the_key_is_the_text_after_the_third_slash() -> None:
    assert parse_app_key("trade/order/standard/S/1/2") == AppKey("trade", "order", "standard", "S/1/2")


def test_an_empty_text_is_no_key() -> None:
    assert parse_app_key("") == NO_KEY
    assert str(NO_KEY) == ""


@pytest.mark.parametrize(
    "text", ["trade", "a/b/c", "a/b/c/" + "x" * (PART_MAX + 1), "a/b/\x00/d", "a/b/c/\n", "a/b/c/\ud800"]
)
def test_invalid_app_keys_are_refused(text: str) -> None:
    with pytest.raises(BadAppKey):
        parse_app_key(text)


@pytest.mark.parametrize(
    ("text", "part", "fault"),
    [
        ("a/b/c/" + "x" * 129, "key", "has 129 characters, and 128 are allowed"),
        ("a" * 200 + "/b/c/d", "domain", "has 200 characters"),
        ("a/b/c/x\x1b[2J", "key", "cannot be shown"),
        ("a/b/\n/d", "subtype", "cannot be shown"),
    ],
)
def test_a_refusal_names_the_part_and_shows_it_short_and_safe(text: str, part: str, fault: str) -> None:
    with pytest.raises(BadAppKey) as refused:
        parse_app_key(text)
    advice = refused.value.advice()
    assert f"The {part} of the AppKey (@AppKey) " in advice
    assert fault in advice
    assert advice.isprintable()
    assert len(advice) < 330


@pytest.mark.parametrize("index", [0, 1, 2])
def test_only_the_key_may_contain_a_slash(index: int) -> None:
    parts = ["a", "b", "c", "d/d"]
    check_app_key(AppKey(*parts))
    parts[index] = "x/y"
    with pytest.raises(BadAppKey):
        check_app_key(AppKey(*parts))


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert parse_app_key(text) == parse_app_key(str(parse_app_key(text)))
    except BadAppKey:
        pass
