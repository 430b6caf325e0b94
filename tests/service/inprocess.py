"""Nodes inside the test's own event loop, on real Postgres databases and real sockets: quick to start."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from local_node.node import LocalNode
from platform_node.node import PlatformNode
from semq.amqp.content import ContentHeader, Properties
from semq.clock import SystemClock
from semq.config import load
from semq.config.settings import Settings
from semq.transport.client import ClientLink
from semq.transport.dialer import DialConfig, dial

PLATFORM = """
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
LOCAL = """
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
    """Starts nodes; all of them stop when the test ends."""

    stack: AsyncExitStack
    folder: Path
    new_database: Callable[[], str]

    def settings(self, name: str, text: str) -> Settings:
        """The settings of one node, on a database of its own."""
        file = self.folder / f"{name}.toml"
        file.write_text(f'{text}\n[database]\nurl = "{self.new_database()}"\n')
        return load(file, {})

    async def platform(self) -> PlatformNode:
        node = PlatformNode(self.settings("hub", PLATFORM), SystemClock())
        self.stack.push_async_callback(node.stop)
        await node.start()
        return node

    async def local(self, name: str, hub_port: int) -> LocalNode:
        node = LocalNode(self.settings(name, LOCAL.format(name=name, hub=hub_port)), SystemClock())
        self.stack.push_async_callback(node.stop)
        await node.start()
        return node

    async def client(self, node: LocalNode | PlatformNode, **settings: Any) -> ClientLink:
        """A connection of an application to a node."""
        config = DialConfig("127.0.0.1", node.port, **({"user": "guest", "password": "guest"} | settings))
        link = await dial(config, node.clock, node.turn)
        self.stack.push_async_callback(link.close)
        return link


@asynccontextmanager
async def in_process(folder: Path, new_database: Callable[[], str]) -> AsyncIterator[InProcess]:
    async with AsyncExitStack() as stack:
        yield InProcess(stack, folder, new_database)


async def ask(link: ClientLink, operation: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """One request to ``semq.admin``; the whole answer."""
    channel = await link.open_channel()
    queue = (await channel.declare_queue(exclusive=True)).queue
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    await channel.consume(queue, lambda batch: answer.set_result(bytes(batch[0].body)), no_ack=True)
    body = msgspec.json.encode(arguments or {})
    header = ContentHeader.build(len(body), Properties(reply_to=queue, correlation_id="1"))
    channel.publish("semq.admin", operation, header, body)
    async with asyncio.timeout(20):
        told = msgspec.json.decode(await answer)
    await channel.close()
    return told


async def until(look: Callable[[], Any], patience_s: float = 60.0) -> Any:
    """Wait until ``look`` (plain or async) gives something true, and give that; for states that no event announces."""
    async with asyncio.timeout(patience_s):
        while True:
            seen = look()
            seen = await seen if asyncio.iscoroutine(seen) else seen
            if seen:
                return seen
            await asyncio.sleep(0.03)


async def linked(*nodes: LocalNode) -> None:
    """Wait until the nodes have a session with the platform and have heard its directory."""
    for node in nodes:
        await until(partial(_is_linked, node))


def _is_linked(node: LocalNode) -> bool:
    return node.uplink.link is not None and node.engine.partners.complete
