"""Times in options: ages, dates, and times from now on."""

from datetime import UTC, datetime

import pytest

from semq.cli.errors import BadTime
from semq.cli.options.times import milliseconds_ago, milliseconds_ahead


def test_an_age_lies_in_the_past() -> None:
    before = datetime.now(UTC).timestamp() * 1000
    for text, seconds in (("30s", 30), ("2m", 120), ("3h", 10_800), ("1d", 86_400)):
        after = datetime.now(UTC).timestamp() * 1000
        assert before - seconds * 1000 - 1 <= milliseconds_ago(text) <= after - seconds * 1000 + 60_000


def test_a_date_is_converted_to_milliseconds() -> None:
    assert milliseconds_ago("1970-01-01T00:00:01+00:00") == 1000


@pytest.mark.parametrize("text", ["", "soon", "7w", "-3h", "2026-13-01"])
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(BadTime):
        milliseconds_ago(text)


def test_a_future_time_may_be_a_duration_a_date_or_milliseconds() -> None:
    now = datetime.now(UTC).timestamp() * 1000
    assert now + 7_200_000 - 1 <= milliseconds_ahead("2h") <= now + 7_200_000 + 60_000
    assert milliseconds_ahead("1795334242114") == 1795334242114
    assert milliseconds_ahead("1970-01-01T00:00:01+00:00") == 1000
    with pytest.raises(BadTime):
        milliseconds_ahead("-1")
