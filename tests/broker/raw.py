"""A client on a plain socket: it sends methods through the client's state machine; a test may also write any bytes."""

import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from semq.amqp import sasl
from semq.amqp.connection.client import ClientConnection
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import ChannelOpened, ConnectionClosed, ConnectionEvent, MethodReceived, Opened
from semq.amqp.limits import ConnectionLimits
from semq.amqp.methods import Method

E = TypeVar("E", bound=ConnectionEvent)
M = TypeVar("M", bound=Method)


class RawClient:
    """A blocking client; received events wait in ``events``; ``until`` takes them out.

    ``settings``: arguments of ClientConnection, and ``password`` (default: the name of the user).
    """

    def __init__(self, port: int, user: str = "guest", limits: ConnectionLimits | None = None, **settings: Any) -> None:
        response = sasl.plain(user, settings.pop("password", user))
        self.machine = ClientConnection(limits or ConnectionLimits(), **{"response": response, **settings})
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.events: list[ConnectionEvent] = []
        self.machine.start(time.monotonic())
        self.flush()

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.socket.close()

    def flush(self) -> None:
        for piece in self.machine.take_output():
            self.socket.sendall(piece)

    def read(self) -> None:
        data = self.socket.recv(1 << 20)
        now = time.monotonic()
        self.events += self.machine.receive(data, now) if data else self.machine.receive_eof(now)
        self.flush()

    def until(self, kind: type[E], matches: Callable[[E], bool] = lambda _: True) -> E:
        """Wait for an event of a kind and return it. Fails if the connection ends."""
        checked = 0
        while True:
            for index in range(checked, len(self.events)):
                event = self.events[index]
                if isinstance(event, kind) and matches(event):
                    return self.events.pop(index)  # type: ignore[return-value]
                assert not isinstance(event, ConnectionClosed), event
            checked = len(self.events)
            self.read()

    def wait_closed(self) -> ConnectionClosed:
        return self.until(ConnectionClosed)

    def log_in(self, channels: int = 1) -> "RawClient":
        """Log in and open channels 1 to ``channels``."""
        self.until(Opened)
        for number in range(1, channels + 1):
            self.machine.open_channel(number)
            self.flush()
            self.until(ChannelOpened)
        return self

    def send(self, method: Method, channel: int = 1) -> None:
        self.machine.send(channel, method)
        self.flush()

    def request(self, method: Method, reply: type[M], channel: int = 1) -> M:
        self.send(method, channel)
        result = self.until(MethodReceived, lambda event: isinstance(event.method, reply))
        return result.method  # type: ignore[return-value]

    def publish(self, exchange: str, routing_key: str, body: bytes, channel: int = 1, **settings: Any) -> None:
        flags = {name: settings.pop(name) for name in ("mandatory", "immediate") if name in settings}
        header = ContentHeader.build(len(body), Properties(**settings))
        self.machine.publish(channel, exchange, routing_key, header, body, **flags)
        self.flush()
