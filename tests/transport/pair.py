"""A server and dialled links to it in one event loop."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from semq.amqp.content import ContentHeader, Properties
from semq.amqp.limits import ConnectionLimits
from semq.broker.limits import BrokerLimits
from semq.broker.server import AmqpServer, ServerConfig
from semq.broker.users import Permissions, User, UserTable, digest_of
from semq.clock import SystemClock
from semq.store.broker.operations import MessageStore
from semq.transport.client import ClientLink
from semq.transport.dialer import DialConfig, dial
from semq.transport.listener import ListenerConfig
from semq.transport.turn import Turn

GUEST = User("guest", digest_of("guest"), {"/": Permissions()})


class ServedLinks:
    """A running server and the links to it; ``dial`` adds a link."""

    def __init__(self, server: AmqpServer, turn: Turn) -> None:
        self.server = server
        self.turn = turn
        self.links: list[ClientLink] = []

    async def dial(self, **settings: Any) -> ClientLink:
        defaults: dict[str, Any] = {"port": self.server.port, "user": "guest", "password": "guest"}
        config = DialConfig("127.0.0.1", **(defaults | settings))
        link = await dial(config, self.server.clock, self.turn)
        self.links.append(link)
        return link


@asynccontextmanager
async def pair(
    store: MessageStore | None = None,
    limits: BrokerLimits | None = None,
    connection: ConnectionLimits | None = None,
    prepare: Callable[[AmqpServer], None] = lambda _: None,
    drain_s: float = 5.0,
    properties: Mapping[str, Any] | None = None,
    **listener: Any,
) -> AsyncIterator[ServedLinks]:
    """Run a server until the block ends, then close all links to it and stop it. ``prepare`` gets the server before its
    start; ``listener`` has settings of the port.
    """
    turn = Turn()
    config = ServerConfig(
        listener=ListenerConfig(**{"port": 0, "pause_s": 0.02, **listener}),
        connection=connection or ConnectionLimits(),
        limits=limits or BrokerLimits(),
        properties=properties or {"product": "SEMQ"},
    )
    server = AmqpServer(config, UserTable([GUEST]), SystemClock(), store, turn)
    prepare(server)
    await server.start()
    served = ServedLinks(server, turn)
    try:
        yield served
    finally:
        for link in served.links:
            await link.close()
        await server.stop(drain_s)


def header(body: bytes, **properties: Any) -> ContentHeader:
    return ContentHeader.build(len(body), Properties(**properties))
