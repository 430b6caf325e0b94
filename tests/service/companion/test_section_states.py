"""Lines in which a companion reports failing sections and counts."""

import json

import pytest

from semq.errors import SemqError
from semq.service.companion import section_states
from semq.service.companion.section_states import SECTIONS_MAX, ReportedStates
from tests.service.companion.reported import ConnectedStates
from tests.waiting import until


def test_failures_are_counted_from_the_first_to_the_next_success() -> None:
    reported = ConnectedStates()
    reported.states.succeeded("erp")
    assert reported.lines == []  # no state has changed
    reported.states.failed("erp", SemqError("no answer"))
    first = reported.failing["erp"]
    assert (first.failures, first.error, first.is_paused) == (1, "SEMQ-1000 no answer", False)
    reported.states.failed("erp", SemqError("status 500"), is_paused=True)
    second = reported.failing["erp"]
    assert (second.failures, second.since, second.is_paused) == (2, first.since, True)
    assert second.error == "SEMQ-1000 status 500"
    reported.states.failed("archive", OSError(28, "No space left on device"))
    reported.states.succeeded("erp")
    assert list(reported.failing) == ["archive"]


async def test_counts_are_reported_together_and_again_with_each_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_states, "COUNTS_S", 0.01)
    reported = ConnectedStates()
    for _ in range(1000):
        reported.states.count("erp", "acknowledged")
    assert reported.lines == []

    async def is_reported() -> bool:
        return bool(reported.counts)

    await until(is_reported)
    assert reported.counts == {"erp": {"acknowledged": 1000}}
    assert (len(reported.lines), reported.failing) == (1, {})
    reported.states.count("erp", "failed")
    reported.states.failed("erp", SemqError("no answer"))
    assert reported.counts == {"erp": {"acknowledged": 1000, "failed": 1}}
    await until(lambda: has_lines(reported, 3))  # the timer of the counts is not cancelled by a report


async def has_lines(reported: ConnectedStates, number: int) -> bool:
    return len(reported.lines) == number


def test_a_report_is_one_short_line_for_any_error() -> None:
    reported = ConnectedStates()
    reported.states.failed("erp", SemqError("\x1b[2J\n" + "\ud800" + "x" * 100_000))
    [line] = reported.lines
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert len(line) < 2000
    assert json.loads(line)["section"] == "erp"


NOT_UTF8, NESTED = b'{"section": "\xff", "failing": null}\n', b'{"section": "erp", "x": ' + b"[" * 20_000


@pytest.mark.parametrize(
    "line",
    [b"", b"Serving HTTP on 127.0.0.1\n", b"{}\n", b"null\n", b"\xff\n", b'{"section": 5}\n', NOT_UTF8, NESTED],
    ids=["empty", "text", "no fields", "null", "no JSON", "wrong type", "section not in UTF-8", "nested too deeply"],
)
def test_output_of_a_companion_that_is_no_report_is_ignored(line: bytes) -> None:
    states = ReportedStates()
    states.update(line)
    assert states.failing == {}


def test_a_node_remembers_a_bounded_number_of_sections() -> None:
    reported = ConnectedStates()
    for number in range(SECTIONS_MAX + 5):
        reported.states.failed(str(number), SemqError("away"))
    assert len(reported.failing) == SECTIONS_MAX
    reported.states.failed("0", SemqError("away"))
    assert reported.failing["0"].failures == 2
