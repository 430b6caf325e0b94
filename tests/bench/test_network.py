"""Work at a measured installation fails when one of its nodes ends."""

import asyncio
from pathlib import Path

import pytest

from bench.errors import NodeDied
from bench.network import A, BenchNetwork
from semq.transport.errors import LinkLost


async def test_a_lost_connection_is_reported_as_the_end_of_its_node(tmp_path: Path) -> None:
    """The application notices the lost connection before the watch notices the end of the process."""
    network = BenchNetwork(tmp_path)
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    class EndedNode:
        name = A

        async def wait_ended(self) -> int:
            return await ended

        def log_tail(self, lines: int) -> str:
            return "killed"

    async def lose_connection() -> None:
        asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, ended.set_result, -9)
        raise LinkLost

    watch = asyncio.create_task(network._watch(EndedNode()))  # type: ignore[arg-type]
    with pytest.raises(NodeDied, match="a, with status -9: killed"):
        await network.watched(lose_connection())
    await watch
