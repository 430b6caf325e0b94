"""The language of pages: that of the cookie, or the first of those that the browser prefers."""

import pytest
from starlette.requests import Request

from semq.web.pages.languages import language_of


def requested(accepted: str, cookie: str = "") -> str:
    headers = [(b"accept-language", accepted.encode()), (b"cookie", f"semq_language={cookie}".encode())]
    return language_of(Request({"type": "http", "headers": headers}))


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("en-GB,zh;q=0.5", "en"),
        ("de,zh;q=0.5", "zh"),
        ("en,zh", "en"),  # of equal weights the first
        ("zh,en", "zh"),
        ("zh;q=0", "en"),  # not acceptable
        ("zh; q=0.2, en ; q=0.7", "en"),
        ("zh;q=many,en;q=0.1", "en"),
        ("zho,*;q=0.1", "en"),  # another tag that begins with the same letters
    ],
)
def test_the_first_of_the_preferred_languages_is_used(accepted: str, language: str) -> None:
    assert requested(accepted) == language


def test_a_known_language_in_the_cookie_is_used_before_that_of_the_browser() -> None:
    assert requested("en", "zh") == "zh"
    assert requested("zh", "fr") == "zh"
