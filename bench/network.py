"""The installation under test: a hub and its institutions as processes, with the product's defaults.

A sends. B receives, and with several ``partners`` also nodes ``b2``, ``b3`` and so on. The hub has one more
institution, which is never online. A secure network has links by TLS with certificates of the hub's authority.
"""

import asyncio
import secrets
import sys
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bench.errors import NodeDied
from semq.app import Client
from semq.errors import Unavailable
from semq.installation.configuration import HUB, ApplicationLogin, InstallationPlan, Rows
from semq.installation.enrolment import ensure_enrolled
from semq.installation.process import NodeProcess

READY_S_MAX = 120.0
ENDED_S_MAX = 5.0  # time to notice the end of a node after the loss of a connection to the node
LOG_LINES = 20  # lines of a node's log in an error
A, B = "a", "b"
NODE_IDS = {A: "10008", B: "56001"}
ABSENT = "99001"  # an institution that is never online
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """The interpreter of the nodes, and further environment variables."""

    python: str = sys.executable
    variables: Mapping[str, str] = field(default_factory=dict)


class BenchNetwork:
    """The network, as an asynchronous context manager."""

    def __init__(
        self,
        folder: Path,
        *,
        secure: bool = False,
        partners: int = 1,
        instances: int = 1,
        carrier: str = "",
        every: Rows | None = None,
        hub: Rows | None = None,
        program: NodeProgram = NodeProgram(),
    ) -> None:
        """``partners``: number of receiving nodes. ``instances``: number of instances of the hub, connected by the
        broker at the URL ``carrier``; if it is empty, by a node as the broker. ``every``, ``hub``: rows of the
        configuration of all nodes, and of the hub. ``program``: that of the nodes.
        """
        self._program = program
        self._secure = secure
        self._death: asyncio.Future[NodeDied] | None = None  #: set while ``watched`` runs
        self._watches: dict[str, asyncio.Task[None]] = {}
        more_partners = {f"{B}{number}": str(int(NODE_IDS[B]) + number - 1) for number in range(2, partners + 1)}
        login = ApplicationLogin("bench", secrets.token_urlsafe(18))
        plan = InstallationPlan(
            {**NODE_IDS, **more_partners}, login, absent=[ABSENT], secure=secure, instances=instances, carrier=carrier,
            common_rows=every or {}, hub_rows=hub or {},
        )  # fmt: skip
        places = plan.write(folder)
        self.nodes = {name: NodeProcess(place, program.python) for name, place in places.items()}
        self.partners = [B, *more_partners]  #: the nodes that receive

    async def __aenter__(self) -> "BenchNetwork":
        try:
            for name in self.nodes:
                await self.start(name)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*map(self.stop, self.nodes))

    async def watched(self, work: Awaitable[T]) -> T:
        """Return the result of ``work``. Raises NodeDied if a node ends unexpectedly in the meantime."""
        task, self._death = asyncio.ensure_future(work), asyncio.get_running_loop().create_future()
        try:
            both: list[asyncio.Future[Any]] = [task, self._death]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if task.done() and isinstance(task.exception(), Unavailable):  # perhaps because a node ended
                await asyncio.wait([self._death], timeout=ENDED_S_MAX)
            if self._death.done():
                raise self._death.result()
            return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._death = None

    async def start(self, name: str) -> None:
        """Start a node; the hub must be the first. Raises NodeDied; TimeoutError if it is not ready in READY_S_MAX."""
        node = self.nodes[name]
        if self._secure and name != HUB:
            await ensure_enrolled(self.nodes[HUB], node)
        node.launch(**self._program.variables)
        async with asyncio.timeout(READY_S_MAX):
            if not await node.wait_ready():
                raise NodeDied(f"{name}: {node.log_tail(LOG_LINES)}")
        self._watches[name] = asyncio.create_task(self._watch(node))

    async def stop(self, name: str) -> None:
        """Stop a node and its Postgres, also if the node was killed."""
        if watch := self._watches.pop(name, None):
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        await asyncio.to_thread(self.nodes[name].end_with_database)

    async def _watch(self, node: NodeProcess) -> None:
        status = await node.wait_ended()
        if self._death is not None and not self._death.done():
            self._death.set_result(NodeDied(f"{node.name}, with status {status}: {node.log_tail(LOG_LINES)}"))

    async def status(self, name: str) -> Mapping[str, Any]:
        """Return the answer of ``node.status``."""
        async with Client(self.nodes[name].url) as client:
            status: Mapping[str, Any] = await client.request("node.status")
            return status
