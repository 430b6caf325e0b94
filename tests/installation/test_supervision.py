"""Supervision: a node that dies is restarted; a node that was stopped is not."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from semq.installation.configuration import HUB, ApplicationLogin, InstallationPlan, NodePlace
from semq.installation.errors import NodeNotStarted
from semq.installation.supervision import RESTART_S_MAX, RESTART_S_MIN, SupervisedNode, pause_s


def place_of_hub(folder: Path) -> NodePlace:
    return InstallationPlan({}, ApplicationLogin("app", "secret")).write(folder)[HUB]


@pytest.fixture
async def reports() -> "asyncio.Queue[str]":
    return asyncio.Queue()


async def test_a_killed_node_comes_back_and_a_stopped_one_stays_away(
    tmp_path: Path, reports: "asyncio.Queue[str]"
) -> None:
    node = SupervisedNode(place_of_hub(tmp_path), reports.put_nowait)
    try:
        await node.run()
        first = node.pid
        assert first is not None
        assert node.lock_holder() == first
        os.kill(first, signal.SIGKILL)
        assert "SIGKILL" in await reports.get()
        assert "is back" in await reports.get()
        assert node.pid not in (first, None)
        assert node.deaths == 1
        await node.stop()
        assert node.lock_holder() is None
        assert reports.empty()
    finally:
        await node.remove()


def test_pauses_between_failed_starts_grow_from_the_smallest_to_the_largest() -> None:
    assert [pause_s(failures) for failures in (1, 2, 5, 5_000)] == [
        RESTART_S_MIN,
        2 * RESTART_S_MIN,
        *[RESTART_S_MAX] * 2,
    ]


async def test_a_node_that_cannot_start_is_an_error_with_its_log(tmp_path: Path, reports: "asyncio.Queue[str]") -> None:
    place = place_of_hub(tmp_path)
    place.config.write_text("[node]\nkind = 'platform'\nname = 'hub'\n")
    node = SupervisedNode(place, reports.put_nowait)
    with pytest.raises(NodeNotStarted) as caught:
        await node.run()
    assert "SEMQ-2011" in caught.value.facts["log"]
    await node.remove()


async def test_a_node_that_a_user_has_started_is_stopped_too(tmp_path: Path, reports: "asyncio.Queue[str]") -> None:
    place = place_of_hub(tmp_path)
    theirs, ours = SupervisedNode(place, reports.put_nowait), SupervisedNode(place, reports.put_nowait)
    try:
        await theirs.run()
        stopping = asyncio.create_task(ours.stop())
        assert "exit status 0" in await reports.get()  # stopped by ``ours``, started again by ``theirs``
        await theirs.stop()
        await stopping
    finally:
        await theirs.remove()
