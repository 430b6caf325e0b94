"""The sender's node is killed with SIGKILL at the commit of a document to a group: all members get it, or none."""

import asyncio
from pathlib import Path
from typing import Any

import psycopg
import pytest

from semq.app import Client
from semq.app.errors import NodeUnreachable, RefusedByNode
from semq.errors import SemqError
from semq.installation.configuration import HUB
from tests.crash.trio import A, ProcessTrio
from tests.waiting import until

DEFINITIONS = """
[nodes.77001]
[nodes.77002]
[groups.all]
members = ["56001", "77001", "77002"]
[[agreements]]
from = ["*"]
to = ["*"]
"""
ROWS = "SELECT count(*) FROM tb_0031 WHERE dest IN ('1.77001', '1.77002')"


def rows(world: ProcessTrio) -> int:
    """Return the number of messages to the two members that are never online; 0 if the node does not run."""
    url = world.nodes[A].postgres.running_url()
    if url is None:
        return 0
    with psycopg.connect(url) as connection:
        row = connection.execute(ROWS).fetchone()
    return int(row[0]) if row else 0


async def submit_until_answered(world: ProcessTrio) -> Any:
    """Submit with one token until the node answers."""
    while True:
        node = world.nodes[A]
        await node.wait_until_serving()
        try:
            async with Client(node.place.url_at(node.port), patience_s=60) as client:
                return await client.send("3.all", b"<order/>", token="one")
        except RefusedByNode as error:  # the node does not have the definitions yet
            assert "SEMQ-1201" in str(error)  # noqa: PT017
            await asyncio.sleep(0.1)
        except (NodeUnreachable, SemqError, OSError):
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(("phase", "is_kept"), [("before", False), ("after", True)])
async def test_a_kill_at_the_commit_leaves_a_message_for_each_member_or_none(
    tmp_path: Path, phase: str, is_kept: bool
) -> None:
    world = ProcessTrio(tmp_path)
    try:
        await world.prepare()
        for node in world.nodes.values():
            node.begin()
        await world.wait_until_ready()
        hub, a = world.nodes[HUB], world.nodes[A]
        async with Client(hub.place.url_at(hub.port)) as client:
            await client.request("definitions.import", {"document": DEFINITIONS})
        a.kill(0.1, f"S1:{phase}:1")
        await until(lambda: bool(a.armed))
        sending = asyncio.create_task(submit_until_answered(world))
        await until(lambda: bool(a.fired))
        sent = await sending
        assert (sent.repeated, rows(world)) == (is_kept, 2)
        async with Client(a.place.url_at(a.port)) as client:

            async def is_delivered() -> bool:
                return bool((await client.look(sent.lk0))["summary"].get("DELIVERED") == 1)

            await until(is_delivered)
            assert len((await client.look(sent.lk0))["members"]) == 3
    finally:
        await world.remove()
