"""Values as texts: times with their offset, sizes, statuses."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from semq.cli.output.values import age_of, as_text, brief_time, fact_texts, local_time, moment


@pytest.fixture
def in_shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_shanghai")
def test_times_have_an_offset() -> None:
    noon = datetime(2026, 3, 31, 12, 0, 5, tzinfo=UTC)
    assert moment(noon.timestamp() * 1000) == "2026-03-31T20:00:05+08:00"
    assert brief_time(noon.timestamp() * 1000) == "2026-03-31T20:00+08:00"
    assert local_time("2026-03-31T12:00:05+00:00") == "2026-03-31T20:00:05+08:00"
    now = datetime.now(UTC)
    assert brief_time(now.timestamp() * 1000) in (
        now.astimezone().strftime("%H:%M:%S+08:00"), now.astimezone().strftime("%Y-%m-%dT%H:%M+08:00")
    )  # fmt: skip
    assert age_of((now - timedelta(hours=26, minutes=5)).isoformat()) == "1 d 2 h"


@pytest.mark.parametrize("nonsense", [None, 0, "x", True, 1e300, -1e300, float("nan"), [1]])
def test_an_invalid_time_is_empty(nonsense: object) -> None:
    assert moment(nonsense) == brief_time(nonsense) == ""


def test_a_text_that_is_not_a_time_is_returned_unchanged_and_has_no_age() -> None:
    assert local_time("soon") == "soon"
    assert age_of("soon") == ""


def test_facts_of_a_tree_have_dotted_names() -> None:
    result = dict(
        fact_texts({"a": {"b": True, "c": None, "accepted_at": 0}, "size": 2048, "none": [], "s": 0.5, "n": 0})
    )
    assert result == {"a.b": "yes", "a.accepted_at": "", "size": "2.0 KiB (2048 bytes)", "s": "0.5", "n": "0"}
    assert as_text("SS_ACK") == "SS_ACK (stored at the hub)"
    assert as_text(["SEMQ-1", "why"], "reason") == "SEMQ-1 why"
    assert as_text([{"x": 1}, 2]) == "x 1, 2"
