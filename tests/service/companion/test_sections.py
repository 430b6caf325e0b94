"""Sections of a companion: a failed one is started again alone; a fatal error ends all."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from semq.app import LoginRefused, RefusedByNode
from semq.service.companion import sections as companion_sections
from semq.service.companion.sections import CompanionSection, run_until_stop
from tests.service.companion.reported import ConnectedStates


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companion_sections, "RETRY_S_MIN", 0.001)
    monkeypatch.setattr(companion_sections, "RETRY_S_MAX", 0.001)


async def fail_three_times(
    error: Exception, runs: list[int], succeeded: asyncio.Event, on_success: Callable[[], None]
) -> None:
    runs[0] += 1
    if runs[0] <= 3:
        raise error
    on_success()
    succeeded.set()
    await asyncio.Event().wait()


async def run_without_end(on_success: Callable[[], None]) -> None:
    on_success()
    await asyncio.Event().wait()


@pytest.mark.parametrize("error", [RefusedByNode({"text": "no such inbox"}), OSError("disk"), ZeroDivisionError()])
async def test_a_failed_section_is_started_again_while_the_others_continue(error: Exception) -> None:
    reported, runs, succeeded = ConnectedStates(), [0], asyncio.Event()
    sections = [
        CompanionSection("bad", partial(fail_three_times, error, runs, succeeded)),
        CompanionSection("good", run_without_end),
    ]
    await run_until_stop(lambda: _wait(succeeded), sections, reported.states)
    assert runs == [4]
    assert len(reported.lines) == 4
    assert reported.failing == {}


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def test_a_fatal_error_of_one_section_ends_all_sections() -> None:
    sections = [
        CompanionSection("bad", partial(fail_three_times, LoginRefused(), [0], asyncio.Event())),
        CompanionSection("good", run_without_end),
    ]
    with pytest.raises(LoginRefused):
        await run_until_stop(asyncio.Event().wait, sections, ConnectedStates().states, (LoginRefused,))  # type: ignore[arg-type]
