"""Three institutions without a hub: direct links, a kill -9, a partner that is away, targets without configuration."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from semq.app import AlreadyGone, Client
from semq.config import load
from semq.engine.uplink import DIRECTLY
from semq.errors import SemqError
from semq.installation.configuration import ApplicationLogin, NodePlace, Value, free_ports, toml
from semq.installation.empty_database import copy_empty_database
from semq.installation.process import NodeProcess
from semq.service.credentials.identity import ring_of
from semq.store.files import write_safely
from semq.store.rows import Event
from tests.cli.command import semq_aside
from tests.pki.people import add, authority, trust
from tests.waiting import until

pytestmark = pytest.mark.processes
LOGIN = ApplicationLogin("app", "secret")
A, B, C = NAMES = ("10008", "56001", "88001")
DIALS = {A: (B, C), B: (C,), C: ()}
QUICK: dict[str, Value] = {"protocol.inquiry_s": 0.5, "protocol.cleanup_s": 0.1, "protocol.overdue_s": 1}
BATCH = 15


def write_configurations(folder: Path) -> dict[str, NodePlace]:
    """Write configurations and certificates; the port of A has no TLS, so no partner can dial A."""
    ports = free_ports(len(NAMES))
    places = {
        name: NodePlace(name, name, folder, LOGIN, port, tls=name != A) for name, port in zip(NAMES, ports, strict=True)
    }
    common = authority("three institutions")
    for name, place in places.items():
        rows: dict[str, Value] = {"node.kind": "local", "node.id": name, "node.data_dir": name}
        rows |= {"amqp.port": place.port, "amqp.tls": place.tls, f"amqp.users.{LOGIN.user}": LOGIN.password}
        for partner in set(NAMES) - {name}:
            urls = [f"amqps://127.0.0.1:{places[partner].port}"] if partner in DIALS[name] else []
            rows[f"direct.{partner}.urls"] = urls
        place.config.write_text(toml(rows | QUICK), "utf-8")
        place.config.chmod(0o600)
        copy_empty_database(folder / name)
        ring = ring_of(load(place.config, {}))
        add(ring, common)
        write_safely(ring.trust_path, trust(common).pem)
    return places


class HublessProcesses:
    """A, B and C with an application each, which receives and acknowledges all documents."""

    def __init__(self, nodes: dict[str, NodeProcess], clients: dict[str, Client]) -> None:
        self.nodes, self.clients = nodes, clients
        self.sent = 0
        #: By node: the payloads of its received documents, by locator.
        self.received: dict[str, dict[str, bytes]] = {name: {} for name in NAMES}

    async def send(self, target: str, source: str = A) -> None:
        """Submit numbered documents with one order key until all are accepted."""
        for _ in range(BATCH):
            body, token = b"%d" % self.sent, f"t{self.sent}"
            while True:
                with suppress(SemqError):
                    await self.clients[source].send(target, body, order_key="k", token=token, timeout_s=5)
                    break
                await asyncio.sleep(0.1)
            self.sent += 1

    async def receive(self, name: str) -> None:
        async for document in self.clients[name].receive(prefetch=20):
            self.received[name].setdefault(str(document.lk0), bytes(document.payload))
            with suppress(AlreadyGone):  # the document is delivered again
                await document.ack()

    async def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = await self.clients[name].request("node.status")
        return status

    async def is_linked(self, name: str, *partners: str) -> bool:
        status = await self.status(name)
        return all(
            status["direct"][f"1.{partner}"]["link"] == "up" and status["partners"][f"1.{partner}"]["sealable"]
            for partner in partners
        )

    def ledger(self, name: str, event: Event) -> list[str]:
        """Return the details of the ledger lines of an event of messages."""
        with psycopg.connect(self.nodes[name].database) as connection:
            rows = connection.execute(
                "SELECT detail FROM semq_ledger WHERE event = %s AND lk0 <> '' ORDER BY number", (int(event),)
            )
            return [detail or "" for (detail,) in rows]

    def rows(self) -> int:
        """Count the rows left in all queues."""
        total = 0
        for node in self.nodes.values():
            with psycopg.connect(node.database) as connection:
                for table in ("tb_0031", "tb_0030"):
                    total += connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # type: ignore[index]
        return total


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[HublessProcesses]:
    async with AsyncExitStack() as stack:
        nodes = {name: NodeProcess(place) for name, place in write_configurations(tmp_path).items()}
        for node in nodes.values():
            stack.callback(node.end_with_database)
        await asyncio.gather(*(asyncio.to_thread(node.start) for node in nodes.values()))
        clients = {name: await stack.enter_async_context(Client(nodes[name].url)) for name in NAMES}
        scene = HublessProcesses(nodes, clients)
        await until(partial(scene.is_linked, A, B, C), 60)
        await until(partial(scene.is_linked, B, A, C), 60)
        for name in NAMES:
            receiving = asyncio.create_task(scene.receive(name))
            stack.callback(receiving.cancel)
        yield scene


async def test_documents_of_all_pairs_survive_a_kill_of_either_end_and_health_is_ok(scene: HublessProcesses) -> None:
    for node in scene.nodes.values():
        health = await scene.clients[node.name].request("node.health")
        assert [check for check in health["checks"] if check["verdict"] != "ok"] == []
        assert "link" not in {check["check"] for check in health["checks"]}
    for killed in (B, A):
        sending = asyncio.create_task(scene.send(B))
        scene.nodes[killed].end(signal.SIGKILL)
        await asyncio.to_thread(scene.nodes[killed].start)
        await sending
    numbers = [b"%d" % number for number in range(scene.sent)]
    await until(lambda: len(scene.received[B]) >= len(numbers), 120)
    await scene.send(A, source=C)
    await scene.send(C, source=B)
    await until(lambda: len(scene.received[A]) == len(scene.received[C]) == BATCH, 60)
    await until(lambda: not scene.rows(), 120)
    assert list(scene.received[B].values()) == numbers
    assert scene.ledger(B, Event.RECEIVED) == [DIRECTLY] * len(numbers)
    assert len(scene.ledger(A, Event.DELIVERED)) == len(numbers)
    assert all(detail.startswith("receipt ") for detail in scene.ledger(A, Event.DELIVERED))  # signed


async def test_documents_for_a_partner_that_is_away_wait_with_a_cause_and_leave_when_it_returns(
    scene: HublessProcesses,
) -> None:
    scene.nodes[C].end()
    sent = await scene.clients[A].send(C, b"waits")
    await scene.clients[A].send(B, b"goes on")
    await until(lambda: list(scene.received[B].values()) == [b"goes on"])
    outlook = (await scene.clients[A].request("msg.outlook", {"id": str(sent.lk0)}))["sides"][0]
    assert outlook["waits_for"] == "direct"

    async def is_stuck() -> bool:
        stuck = (await scene.clients[A].request("stuck.list"))["rows"]
        return [(row["lk0"], row["stuck"]["cause"]) for row in stuck] == [(str(sent.lk0), "DIRECT_LINK_DOWN")]

    await until(is_stuck)
    explained = await scene.clients[A].request("stuck.explain", {"id": str(sent.lk0)})
    assert explained["link"]["down_since"]
    assert explained["link"]["error"]
    status = await scene.status(A)
    assert (status["hub"], status["partners"]["1.88001"]["online"]) == (None, False)
    shown = await semq_aside("node", "status", "--config", str(scene.nodes[A].place.config))
    assert "this node has no hub" in shown.out
    config = str(scene.nodes[A].place.config)
    findings = {
        finding["check"]: finding
        for finding in (await semq_aside("doctor", "--config", config, "--json")).data["findings"]
    }
    assert not [name for name, finding in findings.items() if finding["verdict"] == "failing"]
    assert findings["way to 1.56001"]["verdict"] == "ok"
    assert findings["way to 1.88001"]["verdict"] == "warning"
    await asyncio.to_thread(scene.nodes[C].start)
    await until(lambda: list(scene.received[C].values()) == [b"waits"], 60)
    await until(lambda: not scene.rows(), 60)


async def test_targets_that_need_a_hub_are_refused_and_a_trace_asks_the_partner(scene: HublessProcesses) -> None:
    for target in ("77001", "3.banks"):
        refused = await semq_aside("msg", "send", "--to", target, "--file=-", "--node", scene.nodes[A].url, stdin=b"x")
        refused.fails(refused.status, "SEMQ-1201", "has no hub" if target == "77001" else "this node has none")
        assert refused.status != 0
    sent = await scene.clients[A].send(B, b"traced")
    await until(lambda: list(scene.received[B].values()) == [b"traced"])
    traced = await scene.clients[A].request("msg.trace", {"id": str(sent.lk0), "parties": True})
    assert traced["unanswered"] == []
    assert ("SENT", DIRECTLY) in [(line["event"], line["detail"]) for line in traced["events"]]
    assert ("1.56001", "RECEIVED", True) in [
        (line["node"], line["event"], line.get("proved")) for line in traced["events"]
    ]
    unanswerable = await scene.clients[B].request("msg.trace", {"id": str(sent.lk0), "parties": True})
    assert [
        (party["node"], "only over a link that this node dials" in party["why"]) for party in unanswerable["unanswered"]
    ] == [("1.10008", True)]
