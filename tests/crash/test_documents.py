"""Documents in pieces: each process on their way is killed with SIGKILL in the middle of a document."""

import asyncio
from pathlib import Path

import psycopg

from semq.app import Client
from semq.installation.configuration import HUB
from semq.store.rows import Event
from semq.umx_t.pieces import PIECE_BYTES
from tests.crash import oracle
from tests.crash.documents import PIECES_FROM
from tests.crash.node_requests import ask
from tests.crash.world import ADDRESS, A, B, CrashWorld
from tests.depth import deeper
from tests.waiting import until

PIECES = deeper(32, 60)
SIZE = (PIECES - 1) * PIECE_BYTES + 7
RESTART_S = 0.3  # pause before the start of a killed node
MIDDLE = PIECES // 4  # number of pieces at B when a process is killed
assert SIZE > PIECES_FROM
# Holds the transaction of the notice about a refused manifest.
HOLD_NOTICES = """
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(3600); RETURN NEW; END';
CREATE TRIGGER hold BEFORE INSERT ON tb_0031 FOR EACH ROW
    WHEN (NEW.dest_user = '_pieces' AND NEW.size = 0) EXECUTE FUNCTION hold();
"""
IS_HELD = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
RELEASE_NOTICES = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep';
DROP TRIGGER hold ON tb_0031;
"""
STORED = "SELECT count(*) FROM tb_0030 WHERE target_user = '_pieces'"


def number_from(world: CrashWorld, node: str, query: str) -> int:
    """Return a number from a node's database; 0 if the database does not run."""
    url = world.nodes[node].postgres.running_url()
    if url is None:
        return 0
    try:
        with psycopg.connect(url) as connection:
            row = connection.execute(query.encode()).fetchone()
    except psycopg.OperationalError:
        return 0
    return int(row[0]) if row else 0


async def until_pieces(world: CrashWorld, node: str, table: str, at_least: int) -> None:
    condition = {"tb_0030": " WHERE target_user = '_pieces'", "tb_0031": " WHERE dest_user = '_pieces'"}.get(table, "")
    await until(lambda: number_from(world, node, f"SELECT count(*) FROM {table}{condition}") >= at_least)


async def until_settled(world: CrashWorld) -> None:
    """Wait until all documents have arrived and no rows remain."""
    await until(lambda: oracle.has_all(world))

    async def is_clean() -> bool:
        if not _leftovers(world):
            return True
        # Repeated at each attempt: the receiver deletes pieces only after a notice of the sender.
        await world.remove_interrupted_pieces()
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
        # During the upload: the application repeats the submission.
        uploading = asyncio.create_task(submit(stream.next_of_size(SIZE)))
        await until_pieces(world, A, "tb_0031_piece", 1)
        world.nodes[A].kill(RESTART_S)
        await uploading
        for victim in (A, HUB, B):
            await until_settled(world)
            await submit(stream.next_of_size(SIZE))
            await until_pieces(world, B, "tb_0030", MIDDLE)
            world.nodes[victim].kill(RESTART_S)
        # The hub has pieces in custody, and is killed before B is back.
        await until_settled(world)
        await world.nodes[B].down()
        await submit(stream.next_of_size(SIZE))
        await until_pieces(world, HUB, "tb_0031", 1)
        world.nodes[HUB].kill(RESTART_S)
        world.nodes[B].up()
        # All nodes are killed at the same time.
        await until_settled(world)
        await submit(stream.next_of_size(SIZE))
        await until_pieces(world, B, "tb_0030", MIDDLE)
        for node in world.nodes.values():
            node.kill(RESTART_S)
        # The connection of the receiver's application ends in the middle of the body.
        await until_settled(world)
        world.proxies["app-b"].cut_after(SIZE // 2)
        await submit(stream.next_of_size(SIZE))
        await until_settled(world)
        findings = await asyncio.to_thread(oracle.judge, world)
        assert findings.lines() == []
        assert len(stream.accepted) == 7
        assert world.submitters[A].repeated >= 1
    finally:
        await world.remove()


async def test_a_notice_is_sent_after_a_kill_between_refusal_and_notice(tmp_path: Path) -> None:
    """B refuses the manifest, and deletes the pieces only after the notice of A."""
    world = CrashWorld(tmp_path, 1)
    try:
        await world.prepare()
        config = world.nodes[B].place.config
        text = config.read_text("utf-8")
        assert "[protocol]" in text
        config.write_text(text.replace("[protocol]", f"[protocol]\nmax_large_document_bytes = {SIZE - 1}"), "utf-8")
        for name in (HUB, A, B):
            world.nodes[name].begin()
            await world.nodes[name].wait_until_serving()
        _execute_at_a(world, HOLD_NOTICES)
        async with Client(world.nodes[A].url) as client:
            await client.send(ADDRESS[B], bytes(SIZE))
        await until(lambda: number_from(world, A, IS_HELD))
        assert number_from(world, A, f"SELECT count(*) FROM semq_ledger WHERE event = {Event.REJECTED:d}") == 1
        await world.nodes[A].down()
        _execute_at_a(world, RELEASE_NOTICES)
        assert number_from(world, B, STORED) == PIECES
        world.nodes[A].up()
        await world.nodes[A].wait_until_serving()
        await ask(world.nodes[A], "job.run", name="remains")  # otherwise the job runs only once a minute

        async def is_clean() -> bool:
            await ask(world.nodes[B], "job.run", name="remains")
            return not number_from(world, B, STORED)

        await until(is_clean)
        await until(lambda: not number_from(world, A, "SELECT count(*) FROM tb_0031_piece"))
        assert world.complaints == []
    finally:
        await world.remove()


def _execute_at_a(world: CrashWorld, statements: str) -> None:
    with psycopg.connect(world.nodes[A].postgres.url, autocommit=True) as connection:
        connection.execute(statements.encode())
