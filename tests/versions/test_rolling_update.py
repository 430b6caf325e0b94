"""A hub and two institutions of the released version are updated one by one while documents flow."""

import asyncio
import json
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import psycopg
import pytest

from bench.network import NodeProgram
from bench.versions.checkout import checkout
from semq.app import AlreadyGone, Client
from semq.errors import SemqError
from semq.installation.configuration import HUB, ApplicationLogin, InstallationPlan
from semq.installation.enrolment import ensure_enrolled
from semq.installation.process import NodeProcess
from semq.store.postgres import schema_version
from tests.versions.released import COMMIT
from tests.waiting import until

pytestmark = pytest.mark.processes
A, B = "10008", "56001"
QUICK = {"protocol.inquiry_s": 0.5, "protocol.cleanup_s": 0.1}
RECONNECT = {"hub.reconnect_s_min": 0.1, "hub.reconnect_s_max": 0.5}
AT_LEAST = 20  # documents that arrive in each state of the installation
PATIENCE_S = 180.0


class VersionedNode(NodeProcess):
    """A node as a process of its own, not forked: its version can change."""

    popen = subprocess.Popen

    async def start_as(self, program: NodeProgram) -> None:
        self._python = program.python
        self.launch(**program.variables)
        await asyncio.to_thread(self.ensure_ready)

    async def update(self, program: NodeProgram) -> None:
        await asyncio.to_thread(self.end, signal.SIGTERM)
        await self.start_as(program)


class LoadedInstallation:
    """The nodes; an application of A that sends numbered documents all the time, and one of B that takes them."""

    def __init__(self, nodes: dict[str, VersionedNode]) -> None:
        self.nodes = nodes
        self.sent = 0  #: accepted documents; every second one is sealed
        self.received: dict[str, int] = {}  #: number of each document, by its locator
        self._is_sending = True

    async def send(self) -> None:
        async with Client(self.nodes[A].url) as client:
            while self._is_sending:
                with suppress(SemqError):
                    body, token = b"%d" % self.sent, f"t{self.sent}"
                    await client.send(B, body, encrypt=self.sent % 2 == 1, order_key="k", token=token, timeout_s=5)
                    self.sent += 1
                await asyncio.sleep(0.02)

    async def receive(self) -> None:
        async with Client(self.nodes[B].url) as client:
            async for document in client.receive(prefetch=20):
                self.received.setdefault(str(document.lk0), int(bytes(document.payload)))
                with suppress(AlreadyGone):  # the document is delivered again
                    await document.ack()

    async def more_arrive(self) -> None:
        """Wait until documents that were accepted from now on have arrived."""
        wanted = self.sent + AT_LEAST
        await until(lambda: len(self.received) >= wanted, PATIENCE_S)

    async def settle(self) -> None:
        self._is_sending = False
        await until(lambda: len(self.received) >= self.sent, PATIENCE_S)
        await until(lambda: not self.rows(), PATIENCE_S)

    def rows(self) -> int:
        """Return the number of rows in the queues of all nodes."""
        total = 0
        for node in self.nodes.values():
            with psycopg.connect(node.database) as connection:
                for table in ("tb_0031", "tb_0030"):
                    total += connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # type: ignore[index]
        return total


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProgram]:
    with checkout(COMMIT, tmp_path_factory.mktemp("released") / "semq") as older:
        yield older.program


@pytest.fixture
async def installation(tmp_path: Path, released: NodeProgram) -> AsyncIterator[LoadedInstallation]:
    """Start all nodes in the released version."""
    async with AsyncExitStack() as stack:
        plan = InstallationPlan(
            {A: A, B: B}, ApplicationLogin("app", "secret"), secure=True, common_rows=QUICK, local_rows=RECONNECT
        )
        nodes = {name: VersionedNode(place) for name, place in plan.write(tmp_path).items()}
        for node in nodes.values():
            shutil.rmtree(node.place.data_dir, ignore_errors=True)  # an empty database is of this version
            stack.callback(node.end_with_database)
        await nodes[HUB].start_as(released)
        for name in (A, B):
            await ensure_enrolled(nodes[HUB], nodes[name])
            await nodes[name].start_as(released)
        installation = LoadedInstallation(nodes)
        tasks = [asyncio.create_task(installation.send()), asyncio.create_task(installation.receive())]
        yield installation
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# The order in which institutions and hub are updated: between the updates, an old node works with a new hub, a new
# one with an old hub, and old and new institutions exchange documents in both directions of receipts.
@pytest.mark.parametrize("order", [(HUB, A, B), (B, A, HUB)], ids=["hub first", "institutions first"])
async def test_nothing_is_lost_doubled_or_reordered_while_nodes_are_updated_one_by_one(
    installation: LoadedInstallation, order: tuple[str, ...]
) -> None:
    await installation.more_arrive()
    for name in order:
        await installation.nodes[name].update(NodeProgram())
        await installation.more_arrive()
    await installation.settle()
    assert list(installation.received.values()) == list(range(installation.sent))
    for node in installation.nodes.values():
        schema_version.check(node.database)


def test_the_released_version_refuses_a_newer_database_and_names_the_way_back(
    released: NodeProgram, tmp_path: Path, database: str
) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(f'[node]\nkind = "platform"\nid = "hub"\n[amqp]\nport = 0\n[database]\nurl = "{database}"\n')
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE semq_version SET version_num = '9999'")
    for words in (["node", "run"], ["db", "upgrade"], ["db", "check"]):
        command = [released.python, "-P", "-m", "semq.cli", *words, "--config", str(file)]
        done = subprocess.run(
            command, env={"PATH": "/usr/bin:/bin", **released.variables}, cwd=tmp_path, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 78, done.stderr
        line = next(line for line in done.stderr.splitlines() if "SEMQ-3011" in line)
        text = json.loads(line).get("error", line) if line.startswith("{") else line
        assert re.search(r"Install the version that made them.*semq db restore BACKUP --config FILE", text)
