"""Tokens of files."""

from pathlib import Path

import pytest

from semq.folders.layout import Offered
from semq.folders.token import day_of_token, mark_of, token_of

FILE = Offered(Path("/partner/out/56001/a.xml"), 1, 1_763_812_800 * 10**9, 5)


def test_a_token_has_the_day_of_the_file_and_depends_on_content_and_times() -> None:
    token = token_of(FILE, "digest")
    assert day_of_token(token) == "2025-11-22"
    assert token.endswith(mark_of(token))
    assert token_of(FILE, "digest") == token
    others = (token_of(FILE._replace(changed_ns=6), "digest"), token_of(FILE, "other"))
    assert token not in others
    assert mark_of(token) not in [mark_of(other) for other in others]


@pytest.mark.parametrize("modified_ns", [-(10**18), 10**30, 0])
def test_every_time_has_a_day(modified_ns: int) -> None:
    assert day_of_token(token_of(FILE._replace(modified_ns=modified_ns), ""))


@pytest.mark.parametrize("token", ["", "T1", "2026-11-22", "../../../../-" + "a" * 40])
def test_tokens_of_other_applications_have_no_day(token: str) -> None:
    assert day_of_token(token) == ""
