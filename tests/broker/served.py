"""A broker for tests: an ``AmqpServer`` on a free port, in its own thread, for blocking clients."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pika

from semq.amqp.limits import ConnectionLimits
from semq.broker.limits import BrokerLimits
from semq.broker.server import AmqpServer, ServerConfig
from semq.broker.users import Permissions, User, UserTable, digest_of
from semq.clock import SystemClock
from semq.store.broker.operations import MessageStore
from semq.transport.listener import ListenerConfig
from tests.broker.raw import RawClient

T = TypeVar("T")
# The password of each user is its name.
GUEST = User("guest", digest_of("guest"), {"/": Permissions()})
NARROW = User("narrow", digest_of("narrow"), {"/": Permissions("^my\\.", "^my\\.", "^my\\.|^amq\\.topic$")})
STRANGER = User("stranger", digest_of("stranger"), {})  # may enter no virtual host


class RunningBroker:
    """A running server; ``call`` runs a function in its event loop."""

    def __init__(self, server: AmqpServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.loop = loop
        self.connections: list[pika.BlockingConnection] = []

    @property
    def port(self) -> int:
        return self.server.port

    def call(self, function: Callable[[], T]) -> T:
        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(10)

    def connect(self, user: str = "guest", vhost: str = "/", **settings: Any) -> pika.BlockingConnection:
        parameters = pika.ConnectionParameters(
            "127.0.0.1", self.port, vhost, pika.PlainCredentials(user, user), **settings
        )
        self.connections.append(pika.BlockingConnection(parameters))
        return self.connections[-1]

    def raw(self, user: str = "guest", **settings: Any) -> RawClient:
        return RawClient(self.port, user, **settings)

    def hang_up(self) -> None:
        for connection in self.connections:
            if connection.is_open:
                connection.close()
        self.connections.clear()


@contextmanager
def run_broker(
    store: MessageStore | None = None,
    limits: BrokerLimits | None = None,
    connection: ConnectionLimits | None = None,
) -> Iterator[RunningBroker]:
    config = ServerConfig(
        listener=ListenerConfig(port=0, pause_s=0.02),
        connection=connection or ConnectionLimits(),
        limits=limits or BrokerLimits(),
        vhosts=("/", "other"),
    )
    ready, stop_requested = threading.Event(), threading.Event()
    started: list[RunningBroker] = []

    async def serve() -> None:
        server = AmqpServer(config, UserTable([GUEST, NARROW, STRANGER]), SystemClock(), store)
        await server.start()
        started.append(RunningBroker(server, asyncio.get_running_loop()))
        ready.set()
        await asyncio.to_thread(stop_requested.wait)
        await server.stop(5.0)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(10), "the server did not start"
    try:
        yield started[0]
    finally:
        started[0].hang_up()
        stop_requested.set()
        thread.join(20)
        assert not thread.is_alive(), "the server did not stop"
