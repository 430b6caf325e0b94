"""A node's process that dies is started again; one that is not wanted any more is not."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from semq.demo.actor import Actor, holder
from semq.demo.errors import WillNotStart
from semq.demo.stage import HUB, build


@pytest.fixture
async def heard() -> "asyncio.Queue[str]":
    return asyncio.Queue()


async def test_a_killed_node_comes_back_and_a_stopped_one_stays_away(
    tmp_path: Path, heard: "asyncio.Queue[str]"
) -> None:
    actor = Actor(build(tmp_path)[HUB], heard.put_nowait)
    lock = actor.place.data_dir / "postgres" / "lock"
    try:
        await actor.start()
        first = actor.pid
        assert first is not None
        assert holder(lock) == first
        os.kill(first, signal.SIGKILL)
        assert "SIGKILL" in await heard.get()
        assert "is back" in await heard.get()
        assert actor.pid not in (first, None)
        assert actor.deaths == 1
        await actor.stop()
        assert holder(lock) is None
        assert heard.empty()
    finally:
        await actor.clear()


async def test_a_node_that_cannot_start_is_an_error_with_its_log(tmp_path: Path, heard: "asyncio.Queue[str]") -> None:
    place = build(tmp_path)[HUB]
    place.config.write_text("[node]\nkind = 'platform'\nname = 'hub'\n")
    actor = Actor(place, heard.put_nowait)
    with pytest.raises(WillNotStart) as caught:
        await actor.start()
    assert "SEMQ-2011" in caught.value.facts["log"]
    await actor.clear()


async def test_a_node_that_somebody_else_has_started_is_stopped_too(
    tmp_path: Path, heard: "asyncio.Queue[str]"
) -> None:
    place = build(tmp_path)[HUB]
    theirs, ours = Actor(place, heard.put_nowait), Actor(place, heard.put_nowait)
    try:
        await theirs.start()
        stopping = asyncio.create_task(ours.stop())
        assert "exit status 0" in await heard.get()  # asked to stop by ours, and started again by its own guard
        await theirs.stop()
        await stopping
    finally:
        await theirs.clear()
