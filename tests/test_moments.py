"""Times as texts: in UTC from nodes, in the local zone for people, always with an offset."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from semq.moments import in_local, local_text, milliseconds, utc_text

AT = 1774958405123  # 2026-03-31 12:00:05.123 UTC


@pytest.fixture(autouse=True)
def in_vienna(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Vienna")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_times_of_a_node_are_in_utc() -> None:
    assert utc_text(AT) == utc_text(datetime.fromtimestamp(AT / 1000, UTC)) == "2026-03-31T12:00:05+00:00"
    assert utc_text(AT, exact=True) == "2026-03-31T12:00:05.123+00:00"


@pytest.mark.parametrize("text", [utc_text(AT, exact=True), str(AT)])
def test_an_exact_text_can_be_read_again(text: str) -> None:
    assert milliseconds(text) == AT


@pytest.mark.parametrize("moment", [AT, utc_text(AT), datetime.fromtimestamp(AT / 1000, UTC)])
def test_a_person_sees_times_in_the_local_zone(moment: datetime | float | str) -> None:
    assert local_text(moment) == "2026-03-31T14:00:05+02:00"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ended at 2026-03-31T12:00:05+00:00.", "ended at 2026-03-31T14:00:05+02:00."),
        ("until='2026-03-31 12:00:05.123456+00:00')", "until='2026-03-31T14:00:05+02:00')"),
        (f"receipt 7 place 0 sid 3 stated at {AT}", "receipt 7 place 0 sid 3 stated at 2026-03-31T14:00:05+02:00"),
        ("2026-03-31T12:00:05Z", "2026-03-31T14:00:05+02:00"),
        ("2026-03-31T12:00:05", "2026-03-31T12:00:05"),  # a time without a zone is ambiguous
        ("9999-99-99T12:00:05Z, order 1774958405123", "9999-99-99T12:00:05Z, order 1774958405123"),
    ],
)
def test_times_within_a_text_are_shown_in_the_local_zone(text: str, shown: str) -> None:
    assert in_local(text) == shown
