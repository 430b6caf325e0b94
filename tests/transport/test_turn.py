"""The end of a turn: hooks run before links are flushed, each once, and a failing one does not stop the others."""

import asyncio
import logging

import pytest

from semq.transport.turn import Turn


class NotingLink:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def flush(self) -> None:
        self.log.append(self.name)


async def test_hooks_run_before_links_are_flushed_and_each_runs_once() -> None:
    turn = Turn()
    log: list[str] = []
    link = NotingLink("link", log)

    def first() -> None:
        log.append("first")
        turn.before_flush(second)
        turn.mark(link)

    def second() -> None:
        log.append("second")

    turn.mark(link)
    turn.mark(link)
    turn.before_flush(first)
    turn.before_flush(first)
    assert log == []
    await asyncio.sleep(0)
    assert log == ["first", "second", "link"]
    await asyncio.sleep(0)
    assert log == ["first", "second", "link"]


async def test_a_failing_hook_or_link_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    turn = Turn()
    log: list[str] = []

    def fails() -> None:
        raise ValueError("broken")

    class Bad(NotingLink):
        def flush(self) -> None:
            raise ValueError("broken too")

    turn.before_flush(fails)
    turn.mark(Bad("bad", log))
    turn.mark(NotingLink("good", log))
    with caplog.at_level(logging.ERROR):
        await asyncio.sleep(0)
    assert log == ["good"]
    assert len(caplog.records) == 2


async def test_a_link_marked_during_the_flush_is_flushed_again() -> None:
    turn = Turn()
    log: list[str] = []

    class Again(NotingLink):
        def flush(self) -> None:
            super().flush()
            if len(log) < 3:
                turn.mark(self)

    turn.mark(Again("again", log))
    for expected in (1, 2, 3, 3):
        await asyncio.sleep(0)
        assert len(log) == expected
