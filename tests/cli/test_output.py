"""Sizes and times for people."""

from datetime import UTC, datetime

import pytest

from semq.cli.output import brief, moment, size


@pytest.mark.parametrize(
    ("octets", "words"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 * 2**20, "5.0 MiB"), (3 * 2**30, "3.0 GiB"), (None, "")],
)
def test_sizes(octets: object, words: str) -> None:
    assert size(octets) == words


def test_moments_are_local() -> None:
    now = datetime(2026, 3, 31, 12, 0, 5, tzinfo=UTC)
    assert moment(now.timestamp() * 1000) == now.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    assert moment(None) == moment(0) == moment("x") == ""


def test_in_tables_today_is_a_time_and_else_a_date() -> None:
    now = datetime.now(UTC)
    assert brief(now.timestamp() * 1000) in (
        now.astimezone().strftime("%H:%M:%S"),
        now.astimezone().strftime("%Y-%m-%d"),
    )
    assert brief(1000) in ("1970-01-01", "1969-12-31")
    assert brief(None) == ""
