"""Sections of a companion, which run independently of each other."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from semq.app import LoginRefused, RefusedByNode
from semq.service.companion import sections as companion_sections
from semq.service.companion.sections import CompanionSection, until
from tests.service.companion.reported import Reported


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companion_sections, "RETRY_S_MIN", 0.001)
    monkeypatch.setattr(companion_sections, "RETRY_S_MAX", 0.001)


async def fails(error: Exception, times: list[int], enough: asyncio.Event, works: Callable[[], None]) -> None:
    """Raise three times, then work."""
    times[0] += 1
    if times[0] <= 3:
        raise error
    works()
    enough.set()
    await asyncio.Event().wait()


async def lasts(works: Callable[[], None]) -> None:
    works()
    await asyncio.Event().wait()


@pytest.mark.parametrize("error", [RefusedByNode({"text": "no such inbox"}), OSError("disk"), ZeroDivisionError()])
async def test_a_section_that_fails_is_tried_again_beside_the_others(error: Exception) -> None:
    reported, times, enough = Reported(), [0], asyncio.Event()
    sections = [CompanionSection("bad", partial(fails, error, times, enough)), CompanionSection("good", lasts)]
    await until(lambda: _set(enough), sections, reported.states)
    assert times == [4]
    assert len(reported.lines) == 4  # three failures and one success
    assert reported.failing == {}


async def _set(event: asyncio.Event) -> None:
    await event.wait()


async def test_an_error_of_all_sections_ends_the_program() -> None:
    sections = [
        CompanionSection("bad", partial(fails, LoginRefused(), [0], asyncio.Event())),
        CompanionSection("good", lasts),
    ]
    with pytest.raises(LoginRefused):
        await until(asyncio.Event().wait, sections, Reported().states, (LoginRefused,))  # type: ignore[arg-type]
