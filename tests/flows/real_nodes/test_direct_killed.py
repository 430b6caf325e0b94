"""Two institutions with a direct link, as processes: the link and the hub fail in turns, and each process is killed."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import psycopg
import pytest

from semq.app import AlreadyGone, Client
from semq.engine.uplink import DIRECTLY
from semq.errors import SemqError
from semq.installation.configuration import DIRECT, HUB, ApplicationLogin, InstallationPlan
from semq.installation.enrolment import ensure_enrolled
from semq.installation.process import NodeProcess
from semq.store.rows import Event
from tests.crash.proxy import Proxy
from tests.waiting import until

pytestmark = pytest.mark.processes
LOGIN = ApplicationLogin("app", "secret")
A, B = "10008", "56001"
QUICK = {"protocol.inquiry_s": 0.5, "protocol.cleanup_s": 0.1}
RECONNECT = {"hub.reconnect_s_min": 0.1, "hub.reconnect_s_max": 0.5}
BATCH = 15


class DirectProcesses:
    """The hub, A and B; A dials B through a proxy, and sends numbered documents with one order key."""

    def __init__(self, nodes: dict[str, NodeProcess], proxy: Proxy, clients: dict[str, Client]) -> None:
        self.nodes, self.proxy, self.clients = nodes, proxy, clients
        self.sent = 0
        #: number of each document by its locator, in the order of first deliveries
        self.received: dict[str, int] = {}

    async def send(self) -> None:
        """Submit ``BATCH`` documents until they are accepted."""
        for _ in range(BATCH):
            while True:
                with suppress(SemqError):
                    body, token = b"%d" % self.sent, f"t{self.sent}"
                    await self.clients[A].send(B, body, order_key="k", token=token, timeout_s=5)
                    break
                await asyncio.sleep(0.1)
            self.sent += 1

    async def receive(self) -> None:
        async for document in self.clients[B].receive(prefetch=20):
            self.received.setdefault(str(document.lk0), int(bytes(document.payload)))
            with suppress(AlreadyGone):  # the document is delivered again
                await document.ack()

    async def kill_and_send_during_restart(self, name: str) -> None:
        self.nodes[name].end(signal.SIGKILL)
        sending = asyncio.create_task(self.send())
        await asyncio.to_thread(self.nodes[name].start)
        await sending

    def ledger_details(self, name: str, event: Event) -> list[str]:
        with psycopg.connect(self.nodes[name].database) as connection:
            return [detail for (detail,) in connection.execute(
                "SELECT detail FROM semq_ledger WHERE event = %s AND lk0 LIKE %s", (int(event), f"1.{A}.%")
            )]  # fmt: skip

    def rows(self) -> int:
        """Return the number of rows in the queues of A and B."""
        total = 0
        for name in (A, B):
            with psycopg.connect(self.nodes[name].database) as connection:
                for table in ("tb_0031", "tb_0030"):
                    total += connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # type: ignore[index]
        return total


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[DirectProcesses]:
    async with AsyncExitStack() as stack:
        plan = InstallationPlan(
            {A: A, B: B}, LOGIN, secure=True, direct=(A, B), common_rows=QUICK, local_rows=RECONNECT
        )
        proxy = Proxy()
        await proxy.start()
        stack.push_async_callback(proxy.stop)
        places = plan.write(tmp_path, {DIRECT: [proxy.port]})
        proxy.target = ("127.0.0.1", places[B].port)
        nodes = {name: NodeProcess(place) for name, place in places.items()}
        for node in nodes.values():
            stack.callback(node.end_with_database)
        await asyncio.to_thread(nodes[HUB].start)
        for name in (A, B):
            await ensure_enrolled(nodes[HUB], nodes[name])
            await asyncio.to_thread(nodes[name].start)
        clients = {name: await stack.enter_async_context(Client(nodes[name].url)) for name in (A, B)}
        scene = DirectProcesses(nodes, proxy, clients)

        async def is_linked() -> bool:
            status = await clients[A].request("node.status")
            partner = status["partners"].get(f"1.{B}", {})
            return status["direct"][f"1.{B}"]["link"] == "up" and bool(partner.get("sealable"))

        await until(is_linked)
        yield scene


async def test_nothing_is_lost_doubled_or_reordered_while_links_are_cut_and_processes_killed(
    scene: DirectProcesses,
) -> None:
    receiving = asyncio.create_task(scene.receive())
    await scene.send()  # directly
    await scene.kill_and_send_during_restart(HUB)
    scene.proxy.change(is_refusing=True)
    scene.proxy.cut()
    await scene.send()  # through the hub
    await scene.kill_and_send_during_restart(B)
    scene.proxy.clear()
    scene.nodes[HUB].end(signal.SIGKILL)
    await scene.kill_and_send_during_restart(A)  # directly again, without a hub
    scene.proxy.cut()
    await scene.send()
    await asyncio.to_thread(scene.nodes[HUB].start)
    await scene.kill_and_send_during_restart(B)
    await until(lambda: len(scene.received) >= scene.sent, 120)
    await until(lambda: not scene.rows(), 120)
    receiving.cancel()
    assert list(scene.received.values()) == list(range(scene.sent))
    ledger_details = scene.ledger_details(B, Event.RECEIVED)
    assert len(ledger_details) == scene.sent
    assert 0 < ledger_details.count(DIRECTLY) < scene.sent
