"""An operator's refusal of stored copies: a real process is killed with SIGKILL at each durable step of the refusal.

Each document ends once, REJECTED with the operator's reason.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from semq.installation.configuration import HUB
from semq.store.rows import Event, Side
from semq.umx_t.status import Direction
from tests.crash.node_requests import ask
from tests.crash.trio import A, B, ProcessTrio
from tests.waiting import PATIENCE_S, until

# node | failpoint, reached during the refusal of a document
POINTS = (
    (HUB, "H16:before:1"),
    (HUB, "H16:amid:1"),
    (HUB, "H16:after:1"),
    (HUB, "Refusal:after:1"),
    (A, "S8:before:1"),
    (A, "S8:amid:1"),
    (A, "ReAck:before:1"),
    (HUB, "H6:amid:1"),
    (HUB, "H6:after:1"),
)
RECEIVER = "56001"  # the institution of node B
REASON = "SEMQ-1214 refused at the hub by app: it has closed (this store of the hub had not sent it yet)"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ProcessTrio]:
    world = ProcessTrio(tmp_path)
    await world.prepare()
    yield world
    await world.remove()


async def test_a_refusal_survives_every_kill(world: ProcessTrio) -> None:
    for name in (HUB, A):
        world.nodes[name].begin()
        await world.nodes[name].wait_until_serving()
    lk0s = [await _refuse_during_kill(world, name, point) for name, point in POINTS]
    assert world.nodes[HUB].fired == [point for name, point in POINTS if name == HUB]
    assert world.nodes[A].fired == [point for name, point in POINTS if name == A]
    world.nodes[B].begin()  # the receiver is asked about copies that may have been sent
    await _until(world, HUB, f"SELECT count(*) = 0 FROM tb_0031 WHERE direction = {Direction.RELAYED:d}")
    ended = f"side = {Side.SENDER:d} AND event = {Event.REJECTED:d}"
    await _until(world, A, f"SELECT count(DISTINCT lk0) = {len(lk0s)} FROM semq_ledger WHERE {ended}")
    with psycopg.connect(_url(world, A)) as connection:
        query = "SELECT lk0, detail FROM semq_ledger WHERE side = %s AND event = %s ORDER BY number"
        rejected = connection.execute(query, (Side.SENDER, Event.REJECTED)).fetchall()
        assert sorted(lk0 for lk0, _ in rejected) == sorted(lk0s)  # each document once
        assert {detail for _, detail in rejected} == {REASON}
        payloads = connection.execute("SELECT count(*) FROM tb_0031_body WHERE payload = 'x'").fetchone()
        assert payloads == (len(lk0s),)
    with psycopg.connect(_url(world, B)) as connection:
        query = "SELECT count(*) FROM semq_ledger WHERE event = %s"
        assert connection.execute(query, (Event.RECEIVED,)).fetchone() == (0,)
    assert world.complaints == []


async def _refuse_during_kill(world: ProcessTrio, name: str, point: str) -> str:
    """Store and refuse a document while a node ends at the failpoint; return its LK0."""
    node = world.nodes[name]
    node.kill(0.0, point)
    await world.nodes[HUB].wait_until_serving()
    await node.wait_until_serving()
    arguments = {"target": RECEIVER, "body_base64": "eA==", "token": point.replace(":", "-")}
    lk0 = str((await ask(world.nodes[A], "msg.submit", **arguments))["lk0"])
    await _until(world, HUB, f"SELECT count(*) = 1 FROM tb_0031 WHERE lk0 = '{lk0}'")
    kills_expected = len(node.fired) + 1
    async with asyncio.timeout(PATIENCE_S):
        while len(node.fired) < kills_expected or not await _has_refusal(world, lk0):
            await ask(world.nodes[HUB], "held.refuse", target=RECEIVER, why="it has closed")
            await asyncio.sleep(0.1)
    await node.wait_until_serving()
    return lk0


async def _has_refusal(world: ProcessTrio, lk0: str) -> bool:
    """Return whether the sender has received the refusal."""
    url = world.nodes[A].postgres.running_url()
    if url is None:
        return False
    try:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            cursor = await connection.execute("SELECT outcome IS NOT NULL OR void FROM tb_0031 WHERE lk0 = %s", (lk0,))
            row = await cursor.fetchone()
    except psycopg.OperationalError:
        return False
    return row is not None and bool(row[0])


async def _until(world: ProcessTrio, name: str, query: str) -> None:
    async def holds() -> bool:
        url = world.nodes[name].postgres.running_url()
        if url is None:
            return False
        try:
            async with await psycopg.AsyncConnection.connect(url) as connection:
                row = await (await connection.execute(query.encode())).fetchone()
        except psycopg.OperationalError:
            return False
        return row is not None and bool(row[0])

    await until(holds, PATIENCE_S)


def _url(world: ProcessTrio, name: str) -> str:
    url = world.nodes[name].postgres.running_url()
    assert url is not None
    return url
