"""A node that dies is started again; a node that was stopped is not."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from semq.demo.configuration import HUB, write_configuration
from semq.demo.errors import NodeNotStarted
from semq.demo.process import DemoProcess, lock_holder


@pytest.fixture
async def heard() -> "asyncio.Queue[str]":
    return asyncio.Queue()


async def test_a_killed_node_comes_back_and_a_stopped_one_stays_away(
    tmp_path: Path, heard: "asyncio.Queue[str]"
) -> None:
    node = DemoProcess(write_configuration(tmp_path)[HUB], heard.put_nowait)
    lock = node.place.data_dir / "postgres" / "lock"
    try:
        await node.start()
        first = node.pid
        assert first is not None
        assert lock_holder(lock) == first
        os.kill(first, signal.SIGKILL)
        assert "SIGKILL" in await heard.get()
        assert "is back" in await heard.get()
        assert node.pid not in (first, None)
        assert node.deaths == 1
        await node.stop()
        assert lock_holder(lock) is None
        assert heard.empty()
    finally:
        await node.clear()


async def test_a_node_that_cannot_start_is_an_error_with_its_log(tmp_path: Path, heard: "asyncio.Queue[str]") -> None:
    place = write_configuration(tmp_path)[HUB]
    place.config.write_text("[node]\nkind = 'platform'\nname = 'hub'\n")
    node = DemoProcess(place, heard.put_nowait)
    with pytest.raises(NodeNotStarted) as caught:
        await node.start()
    assert "SEMQ-2011" in caught.value.facts["log"]
    await node.clear()


async def test_a_node_that_a_user_has_started_is_stopped_too(tmp_path: Path, heard: "asyncio.Queue[str]") -> None:
    place = write_configuration(tmp_path)[HUB]
    theirs, ours = DemoProcess(place, heard.put_nowait), DemoProcess(place, heard.put_nowait)
    try:
        await theirs.start()
        stopping = asyncio.create_task(ours.stop())
        assert "exit status 0" in await heard.get()  # asked to stop by ours, and started again by its own supervisor
        await theirs.stop()
        await stopping
    finally:
        await theirs.clear()
