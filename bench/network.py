"""A hub and its institutions as operating-system processes, each with its own embedded Postgres.

A sends; B, and with ``partners`` also ``B2``, ``B3`` …, receive. The hub has one more institution, which is never
online. One folder has configurations, data directories, and logs (``NAME.log``). The processes are started like an
operator starts them, with the product's defaults except ports and passwords. A secure network has links by TLS with
certificates of the hub's authority at both ends. Used by ``__main__``, ``secrecy`` and ``peers``.
"""

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from bench.errors import NodeDied
from semq.app import Client
from semq.clock import SystemClock
from semq.pki.authority import read_authority
from semq.pki.slots import KeyRing
from semq.pki.trust import TrustStore
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.files import write_safely
from semq.umx_t.address import Address, NodeType

READY_S_MAX = 120.0
STOP_S_MAX = 60.0
APPLICATION = "bench"
A, B, HUB = "a", "b", "hub"
NODE_IDS = {A: "10008", B: "56001"}
ABSENT = "99001"  # an institution that is never online
T = TypeVar("T")
HUB_CONFIG = """\
[node]
kind = "platform"
id = "hub"
data_dir = "data-hub"
[amqp]
port = 0
users = {{ {application} = "{password}" }}
"""
INSTITUTION = """\
[nodes."{node_id}"]
password = "{password}"
"""
LOCAL = """\
[node]
kind = "local"
id = "{node_id}"
data_dir = "data-{name}"
[amqp]
port = 0
users = {{ {application} = "{password}" }}
[hub]
url = "amqp://127.0.0.1:{hub_port}"
password = "{password}"
"""


class BenchProcess:
    """One node as a process."""

    def __init__(self, name: str, node_id: str, folder: Path, password: str, died: Callable[[NodeDied], None]) -> None:
        self.name = name
        self.node_id = node_id
        self.data_dir = folder / f"data-{name}"
        self.port = 0
        self.tls = False  #: on its port
        self._folder = folder
        self._password = password
        self._died = died
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Its process id; 0 while it is not running."""
        return self._process.pid if self._process is not None else 0

    @property
    def url(self) -> str:
        """The URL for applications."""
        login = f"{APPLICATION}:{self._password}@127.0.0.1:{self.port}"
        return f"amqps://{login}?cafile={self.data_dir / 'pki' / 'trust.pem'}" if self.tls else f"amqp://{login}"

    @property
    def database_url(self) -> str:
        """The URL of its database, while it runs."""
        return EmbeddedPostgres(self.data_dir).url

    async def start(self, config: str) -> None:
        """Start it and wait until it serves. Raises NodeDied."""
        file = self._folder / f"{self.name}.toml"
        file.write_text(config)
        kind = "platform" if self.name == HUB else "local"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SEMQ_")}
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", f"{kind}_node", "--config", str(file),
                stdout=asyncio.subprocess.PIPE, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip
        assert self._process.stdout is not None
        async with asyncio.timeout(READY_S_MAX):
            line = (await self._process.stdout.readline()).decode()
        if not line.startswith("ready "):
            raise NodeDied(f"{self.name}: {self.last_words()}")
        self.port = int(line.rpartition(":")[2])
        self._watching = asyncio.create_task(self._watch(self._process))

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """Report an unexpected end."""
        status = await process.wait()
        if self._process is process:
            self._died(NodeDied(f"{self.name}, with status {status}: {self.last_words()}"))

    async def stop(self) -> None:
        """Stop the node and its Postgres, which would outlive a killed node."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            await self._stop(process)
        await asyncio.to_thread(EmbeddedPostgres(self.data_dir).stop)

    @staticmethod
    async def _stop(process: asyncio.subprocess.Process) -> None:
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_S_MAX):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def last_words(self) -> str:
        """The end of its log."""
        return (self._folder / f"{self.name}.log").read_text(errors="replace")[-2000:]


class BenchNetwork:
    """The network; an asynchronous context manager that leaves no process behind."""

    def __init__(self, folder: Path, *, secure: bool = False, partners: int = 1) -> None:
        self._secure = secure
        self._folder = folder
        self._password = secrets.token_urlsafe(18)
        self._death: asyncio.Future[NodeDied] | None = None
        more = {f"{B}{number}": str(int(NODE_IDS[B]) + number - 1) for number in range(2, partners + 1)}
        ids = {HUB: "hub", **NODE_IDS, **more}
        self.nodes = {
            name: BenchProcess(name, node_id, folder, self._password, self._note_death) for name, node_id in ids.items()
        }
        self.partners = [B, *more]  #: the nodes that receive

    async def __aenter__(self) -> "BenchNetwork":
        try:
            for name in self.nodes:
                await self.start(name)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(node.stop() for node in self.nodes.values()))

    async def watched(self, work: Awaitable[T]) -> T:
        """Return the result of ``work``. Raises NodeDied if a node ends unexpectedly in the meantime."""
        doing, self._death = asyncio.ensure_future(work), asyncio.get_running_loop().create_future()
        try:
            either: list[asyncio.Future[Any]] = [doing, self._death]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._death.done():
                raise self._death.result()
            return await doing
        finally:
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)
            self._death = None

    def _note_death(self, error: NodeDied) -> None:
        if self._death is not None and not self._death.done():
            self._death.set_result(error)

    async def start(self, name: str) -> None:
        """Start a node; the hub first."""
        node = self.nodes[name]
        template = HUB_CONFIG if name == HUB else LOCAL
        facts = {"name": name, "node_id": node.node_id, "hub_port": self.nodes[HUB].port, "password": self._password}
        config = template.format(application=APPLICATION, **facts)
        if name == HUB:
            known = [*(other.node_id for other in self.nodes.values() if other is not node), ABSENT]
            config += "".join(INSTITUTION.format(node_id=node_id, password=self._password) for node_id in known)
        if self._secure:
            config = secured(config)
            node.tls = name == HUB
            if name != HUB:
                await asyncio.to_thread(certify, self._folder, node)
        await node.start(config)

    async def stop(self, name: str) -> None:
        """Stop a node."""
        await self.nodes[name].stop()

    async def status(self, name: str) -> Mapping[str, Any]:
        """Return the answer of ``node.status``, over a separate connection."""
        async with Client(self.nodes[name].url) as client:
            status: Mapping[str, Any] = await client.request("node.status")
            return status


def secured(config: str) -> str:
    """Convert a configuration to TLS on the hub's port and links by certificate."""
    without = "".join(line for line in config.splitlines(keepends=True) if not line.startswith("password"))
    if 'kind = "platform"' in config:
        return without.replace("[amqp]\n", "[amqp]\ntls = true\n")
    return without.replace('"amqp://', '"amqps://')


def certify(folder: Path, node: BenchProcess) -> None:
    """Give an institution a certificate of the hub's authority, as an enrolment would, unless it has one."""
    ring = KeyRing(node.data_dir / "pki", Address(NodeType.LOCAL, node.node_id))
    if ring.is_enrolled:
        return
    authority = read_authority(folder / f"data-{HUB}" / "pki", None)
    assert authority is not None
    now = SystemClock().wall()
    issued = authority.issue(ring.begin().public_key(), ring.node, now - timedelta(minutes=1), 30)
    ring.receive(issued.pem, TrustStore([authority.certificate]), now)
    ring.rotate(now)
    write_safely(ring.trust_path, authority.pem)
