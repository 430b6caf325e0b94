"""Documents in pieces: each process on their way is killed with SIGKILL in the middle of a document."""

import asyncio
from contextlib import suppress
from hashlib import sha256
from itertools import product
from pathlib import Path
from random import Random

import psycopg

from semq.app import Client
from semq.errors import SemqError
from semq.installation.configuration import HUB
from semq.store.rows import Event
from semq.umx_t.pieces import PIECE_BYTES
from tests.crash.node_requests import ask
from tests.crash.trio import ADDRESS, PIECES_FROM, A, B, ProcessTrio
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
# Tables that are empty when all documents are settled.
CLEAN = (
    "tb_0031", "tb_0031_body", "tb_0031_submit", "tb_0031_piece", "tb_0030", "tb_0030_body", "tb_0030_ledger",
    "tb_0030_done",
)  # fmt: skip
STORED = "SELECT count(*) FROM tb_0030 WHERE target_user = '_pieces'"


def number_from(world: ProcessTrio, node: str, query: str) -> int:
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


async def until_pieces(world: ProcessTrio, node: str, table: str, at_least: int) -> None:
    condition = {"tb_0030": " WHERE target_user = '_pieces'", "tb_0031": " WHERE dest_user = '_pieces'"}.get(table, "")
    await until(lambda: number_from(world, node, f"SELECT count(*) FROM {table}{condition}") >= at_least)


class Received:
    """The documents that the application of B has received, over a connection that a proxy can cut."""

    def __init__(self, world: ProcessTrio) -> None:
        self._world = world
        self.digests: dict[str, str] = {}  #: by LK0

    async def run(self) -> None:
        """Receive until cancelled."""
        while True:
            place, port = self._world.nodes[B].place, self._world.proxies["app-b"].port
            with suppress(SemqError, OSError):
                async with Client(place.url_at(port), patience_s=5.0) as client, client.receive() as documents:
                    async for document in documents:
                        self.digests[document.lk0] = sha256(document.payload).hexdigest()
                        await document.ack()
            await asyncio.sleep(RESTART_S)


async def submit(world: ProcessTrio, number: int) -> None:
    """Submit a document with one token until it is accepted."""
    while True:
        try:
            async with Client(world.nodes[A].url, patience_s=60.0) as client:
                await client.send(ADDRESS[B], body_of(number), token=str(number))
                return
        except (SemqError, OSError):
            await asyncio.sleep(RESTART_S)


def body_of(number: int) -> bytes:
    return number.to_bytes(8, "big") + Random(number).randbytes(SIZE - 8)


async def until_settled(world: ProcessTrio, received: Received, number: int) -> None:
    """Wait until so many documents have arrived and no rows remain."""
    await until(lambda: len(received.digests) >= number)

    async def is_clean() -> bool:
        rows = [number_from(world, node, f"SELECT count(*) FROM {table}") for node, table in product((A, B), CLEAN)]
        if not any(rows) and all(node.is_ready for node in world.nodes.values()):
            return True
        # Repeated at each attempt: the receiver deletes pieces only after a notice of the sender.
        for side in (A, B):
            await ask(world.nodes[side], "job.run", name="remains")
        return False

    await until(is_clean)


async def test_a_document_in_pieces_arrives_whole_and_once_after_each_process_is_killed(tmp_path: Path) -> None:
    world = ProcessTrio(tmp_path, secure=True)
    received = Received(world)
    receiving: list[asyncio.Task[None]] = []
    try:
        await world.start()
        receiving.append(asyncio.create_task(received.run()))
        # During the upload: the application repeats the submission.
        uploading = asyncio.create_task(submit(world, 1))
        await until_pieces(world, A, "tb_0031_piece", 1)
        world.nodes[A].kill(RESTART_S)
        await uploading
        for number, victim in enumerate((A, HUB, B), 2):
            await until_settled(world, received, number - 1)
            await submit(world, number)
            await until_pieces(world, B, "tb_0030", MIDDLE)
            world.nodes[victim].kill(RESTART_S)
        # The hub has pieces in custody, and is killed before B is back.
        await until_settled(world, received, 4)
        await world.nodes[B].down()
        await submit(world, 5)
        await until_pieces(world, HUB, "tb_0031", 1)
        world.nodes[HUB].kill(RESTART_S)
        world.nodes[B].up()
        # All nodes are killed at the same time.
        await until_settled(world, received, 5)
        await submit(world, 6)
        await until_pieces(world, B, "tb_0030", MIDDLE)
        for node in world.nodes.values():
            node.kill(RESTART_S)
        # The connection of the receiver's application ends in the middle of the body.
        await until_settled(world, received, 6)
        world.proxies["app-b"].cut_after(SIZE // 2)
        await submit(world, 7)
        await until_settled(world, received, 7)
        digests = [sha256(body_of(number)).hexdigest() for number in range(1, 8)]
        assert list(received.digests.values()) == digests  # each once: by LK0
        assert world.complaints == []
    finally:
        for task in receiving:
            task.cancel()
        await asyncio.gather(*receiving, return_exceptions=True)
        await world.remove()


async def test_a_notice_is_sent_after_a_kill_between_refusal_and_notice(tmp_path: Path) -> None:
    """B refuses the manifest, and deletes the pieces only after the notice of A."""
    world = ProcessTrio(tmp_path)
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


def _execute_at_a(world: ProcessTrio, statements: str) -> None:
    with psycopg.connect(world.nodes[A].postgres.url, autocommit=True) as connection:
        connection.execute(statements.encode())
