"""Nodes in the event loop of the test, on real databases and sockets."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
import structlog

from local_node.enrolment import HubAddress, enrol
from local_node.link.hub import HubUplink
from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.amqp.content import ContentHeader, Properties
from semq.clock import SystemClock
from semq.config import load
from semq.config.settings import Settings
from semq.pki.tls import client_context
from semq.service.credentials.identity import ring_of
from semq.transport.client import ClientLink
from semq.transport.dialer import DialConfig, dial
from tests.waiting import until

HUB_CONFIG = """
[node]
kind = "platform"
id = "hub"
data_dir = "hub"
[amqp]
port = 0
[nodes."10008"]
password = "pass-10008"
may_send_to = ["56001", "10008"]
[nodes."56001"]
password = "pass-56001"
[nodes."88001"]
password = "pass-88001"
[protocol]
inquiry_s = 0.5
cleanup_s = 0.1
"""
LOCAL_CONFIG = """
[node]
kind = "local"
id = "{name}"
data_dir = "{name}"
[amqp]
port = 0
[hub]
url = "amqp://127.0.0.1:{hub}"
password = "pass-{name}"
reconnect_s_min = 0.1
reconnect_s_max = 0.2
[protocol]
inquiry_s = 0.5
cleanup_s = 0.1
max_document_bytes = 100000
"""


@dataclass
class InProcess:
    """Starts nodes; all of them stop when the fixture ends (``inprocess``, ``shared_inprocess``)."""

    stack: AsyncExitStack
    folder: Path
    new_database: Callable[[], str]

    def settings(self, name: str, text: str) -> Settings:
        """Return the settings of a node, with a new database."""
        file = self.folder / f"{name}.toml"
        file.write_text(f'{text}\n[database]\nurl = "{self.new_database()}"\n')
        return load(file, {})

    async def hub(self, text: str = HUB_CONFIG) -> HubNode:
        return await self.start_hub(self.settings("hub", text))

    async def start_hub(self, settings: Settings) -> HubNode:
        node = HubNode(settings, SystemClock())
        self.stack.push_async_callback(node.stop)
        await node.start()
        return node

    async def secure_hub(self, more: str = "") -> HubNode:
        """Start a hub with TLS and an authority of its own, which accepts no passwords of nodes."""
        text = re.sub("^password = .*\n", "", HUB_CONFIG, flags=re.MULTILINE)
        return await self.hub(text.replace("port = 0\n", "port = 0\ntls = true\n") + more)

    async def local(self, name: str, hub_port: int) -> LocalNode:
        return await self.start_node(self.settings(name, LOCAL_CONFIG.format(name=name, hub=hub_port)))

    async def pair(self) -> tuple[HubNode, LocalNode]:
        """Start a hub and the institution 10008."""
        hub = await self.hub()
        return hub, await self.local("10008", hub.port)

    async def linked_pair(self) -> tuple[HubNode, LocalNode]:
        """Start a hub and the institution 10008, and wait for their link."""
        hub, node = await self.pair()
        await linked(node)
        return hub, node

    async def start_node(self, settings: Settings) -> LocalNode:
        """Start a local node."""
        node = LocalNode(settings, SystemClock())
        self.stack.push_async_callback(node.stop)
        await node.start()
        return node

    def secure_settings(self, name: str, hub: HubNode, more: str = "", port: int = 0) -> Settings:
        """Return the settings of a node that logs in by its certificate, at ``port`` (0: the port of the hub)."""
        text = LOCAL_CONFIG.format(name=name, hub=port or hub.port).replace("amqp://", "amqps://")
        return self.settings(name, re.sub("^password = .*\n", "", text, flags=re.MULTILINE) + more)

    async def enrol(self, settings: Settings, hub: HubNode) -> None:
        """Give a node its first certificate."""
        answer = (await ask(await self.client(hub), "nodes.token", {"node": settings.node.id}))["result"]
        address = HubAddress("127.0.0.1", hub.port)
        await enrol(ring_of(settings), address, answer["fingerprint"], answer["token"], SystemClock())

    async def secure_local(self, name: str, hub: HubNode, more: str = "") -> LocalNode:
        """Enrol and start a node that logs in by its certificate."""
        settings = self.secure_settings(name, hub, more)
        await self.enrol(settings, hub)
        return await self.start_node(settings)

    async def client(self, node: LocalNode | HubNode, **settings: Any) -> ClientLink:
        """Return a connection of an application to a node."""
        defaults: dict[str, Any] = {"user": "guest", "password": "guest"}
        if node.settings.amqp.tls and node.node_identity is not None:
            defaults["tls"] = client_context(node.node_identity.trust)
        config = DialConfig("127.0.0.1", node.port, **(defaults | settings))
        link = await dial(config, node.clock, node.turn)
        self.stack.push_async_callback(link.close)
        return link


@asynccontextmanager
async def in_process(folder: Path, new_database: Callable[[], str]) -> AsyncIterator[InProcess]:
    # Logs go to pytest: standard output belongs to the commands that run in this process.
    with logging_by(structlog.stdlib.LoggerFactory()):
        async with AsyncExitStack() as stack:
            yield InProcess(stack, folder, new_database)


@contextmanager
def logging_by(factory: Any) -> Iterator[None]:
    before = structlog.get_config()["logger_factory"]
    structlog.configure(logger_factory=factory)
    try:
        yield
    finally:
        structlog.configure(logger_factory=before)


async def ask(link: ClientLink, operation: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """Send a request to ``semq.admin``; return the answer: ``ok``, and ``result`` or ``error``."""
    return await ask_at(link, "semq.admin", operation, arguments)


async def ask_at(link: ClientLink, exchange: str, operation: str, arguments: Mapping[str, Any] | None = None) -> Any:
    channel = await link.open_channel()
    queue = (await channel.declare_queue(exclusive=True)).queue
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    await channel.consume(queue, lambda batch: answer.set_result(bytes(batch[0].body)), no_ack=True)
    body = msgspec.json.encode(arguments or {})
    header = ContentHeader.build(len(body), Properties(reply_to=queue, correlation_id="1"))
    channel.publish(exchange, operation, header, body)
    async with asyncio.timeout(20):
        content = msgspec.json.decode(await answer)
    channel.close()
    return content


async def linked_node(nodes: "InProcess") -> LocalNode:
    """Start a hub and the institution 10008, and wait for their link."""
    return (await nodes.linked_pair())[1]


async def linked(*nodes: LocalNode) -> None:
    """Wait until each node has a session with the hub, and the list of its partners."""
    for node in nodes:
        await until(partial(_is_linked, node))


def uplink_of(node: LocalNode) -> HubUplink:
    assert isinstance(node.parts.hub, HubUplink)
    return node.parts.hub


def _is_linked(node: LocalNode) -> bool:
    return node.parts.hub.link is not None and node.engine.partners.complete


def cut_off(node: LocalNode | HubNode) -> None:
    """End the connection of a node's writer from the server's side."""
    with psycopg.connect(node.store.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'semq-writer' AND datname = current_database()"
        )


async def lose_store(node: LocalNode | HubNode, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let a node notice the loss of its store; return the event after which it opens the store again."""
    back = asyncio.Event()

    async def revive_later() -> None:
        await back.wait()

    monkeypatch.setattr(node._database, "revive", revive_later)
    cut_off(node)
    await until(lambda: node.store._writer is None)
    return back
