"""Sealed documents in pieces, while each process on their way is killed with SIGKILL in the middle.

Campaigns (``test_campaign``) send documents in pieces, too, but rarely hit them in the middle.
"""

import asyncio
from pathlib import Path

import psycopg

from semq.installation.configuration import HUB
from semq.umx_t.pieces import PIECE_BYTES
from tests.crash import oracle
from tests.crash.documents import PIECES_FROM
from tests.crash.world import A, B, CrashWorld
from tests.waiting import until

PIECES = 60
SIZE = (PIECES - 1) * PIECE_BYTES + 7
BACK_S = 0.3  # until a killed node is started again
MIDDLE = PIECES // 4  # number of pieces at B when a process is killed
assert SIZE > PIECES_FROM


def rows(world: CrashWorld, node: str, query: str) -> int:
    """Return a number from a node's database; 0 while it does not run."""
    url = world.nodes[node].postgres.running_url()
    if url is None:
        return 0
    try:
        with psycopg.connect(url) as connection:
            row = connection.execute(query.encode()).fetchone()
    except psycopg.OperationalError:
        return 0
    return int(row[0]) if row else 0


async def kept_pieces(world: CrashWorld, node: str, table: str, at_least: int) -> None:
    where = {"tb_0030": " WHERE target_user = '_pieces'", "tb_0031": " WHERE dest_user = '_pieces'"}.get(table, "")
    await until(lambda: rows(world, node, f"SELECT count(*) FROM {table}{where}") >= at_least)


async def settled(world: CrashWorld) -> None:
    """Wait until the documents have arrived, and nodes have no rows of them."""
    await until(lambda: oracle.has_all(world))

    async def is_clean() -> bool:
        if not _leftovers(world):
            return True
        await world.sweep()  # again, because the receiver's pieces go after a notice of the sender
        return False

    await until(is_clean)


def _leftovers(world: CrashWorld) -> bool:
    try:
        return bool(oracle.leftovers(world))
    except psycopg.OperationalError:
        return True


async def test_a_document_in_pieces_arrives_whole_and_once_after_each_process_is_killed(tmp_path: Path) -> None:
    world = CrashWorld(tmp_path, 1, secure=True)
    try:
        await world.start()
        submit, stream = world.submitters[A].submit, world.streams[A]
        # During the upload: the application repeats it with its token.
        uploading = asyncio.create_task(submit(stream.large(SIZE)))
        await kept_pieces(world, A, "tb_0031_piece", 1)
        world.nodes[A].kill(BACK_S)
        await uploading
        for victim in (A, HUB, B):
            await settled(world)
            await submit(stream.large(SIZE))
            await kept_pieces(world, B, "tb_0030", MIDDLE)
            world.nodes[victim].kill(BACK_S)
        # The hub has pieces in custody, and is killed before B is back.
        await settled(world)
        await world.nodes[B].down()
        await submit(stream.large(SIZE))
        await kept_pieces(world, HUB, "tb_0031", 1)
        world.nodes[HUB].kill(BACK_S)
        world.nodes[B].up()
        # All nodes are killed at the same time.
        await settled(world)
        await submit(stream.large(SIZE))
        await kept_pieces(world, B, "tb_0030", MIDDLE)
        for node in world.nodes.values():
            node.kill(BACK_S)
        # The receiver's application is killed while it reads: its connection is reset in the middle of the body.
        await settled(world)
        world.proxies["app-b"].cut_after(SIZE // 2)
        await submit(stream.large(SIZE))
        await settled(world)
        found = await asyncio.to_thread(oracle.judge, world)
        assert found.lines() == []
        assert len(stream.accepted) == 7
        assert world.submitters[A].repeated >= 1
    finally:
        await world.remove()
