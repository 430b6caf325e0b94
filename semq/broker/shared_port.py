"""One listening port for several AMQP servers, each known to clients as a virtual host of the port.

| a client opens | it gets                                         |
|----------------|-------------------------------------------------|
| ``NAME``       | virtual host ``/`` of the server of that name   |
| ``NAME/HOST``  | virtual host ``HOST`` of that server            |

A client sends the name of the virtual host only after its login. So the port accepts every login that it can read, and
lets the named server check the credentials at connection.open.
"""

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING

from msgspec.structs import replace

from semq.amqp import events as e
from semq.amqp import sasl
from semq.amqp.connection.server import ServerConnection
from semq.amqp.errors import AmqpError, NotAllowed
from semq.amqp.limits import ANY_SIZE, ConnectionLimits
from semq.amqp.sasl import Credentials
from semq.amqp.wire import Table
from semq.broker import refusals
from semq.broker.limits import BrokerLimits
from semq.broker.session import BrokerSession
from semq.clock import Clock
from semq.transport.link import AmqpMachine, SocketLink
from semq.transport.listener import STOPPING, Drainable, Listener, ListenerConfig
from semq.transport.peer import network_of
from semq.transport.turn import Turn

if TYPE_CHECKING:
    from semq.broker.server import AmqpServer

log = logging.getLogger(__name__)
MECHANISMS = ("PLAIN", "AMQPLAIN")  # not EXTERNAL: the certificates of clients name no institution


class SharedPort:
    """The port; ``doors`` are the servers that share it, keyed by name."""

    def __init__(
        self,
        config: ListenerConfig,
        limits: ConnectionLimits,
        properties: Table,
        clock: Clock,
        turn: Turn,
    ) -> None:
        self.doors: dict[str, ServerDoor] = {}
        spill_from = min(BrokerLimits().spill_from, limits.body_max + 1)
        self._limits = replace(limits, stream_from=spill_from, body_max=ANY_SIZE)
        self._properties = properties
        self.listener = Listener(config, self._accept, clock, turn)

    def door(self, name: str, config: ListenerConfig, server: "AmqpServer") -> "ServerDoor":
        """Return the object that the server of this name uses as its listener; of ``config``, only the limits apply."""
        return ServerDoor(self, name, config, server)

    def _accept(self) -> tuple[AmqpMachine, Drainable]:
        machine = ServerConnection(self._limits, server_properties=self._properties, mechanisms=MECHANISMS)
        return machine, PortSession(self, machine)


class ServerDoor:
    """The listener of one server on a shared port."""

    def __init__(self, port: SharedPort, name: str, config: ListenerConfig, server: "AmqpServer") -> None:
        self.config = config
        self.accepted = 0
        self.refused = 0
        self.server = server
        self._shared = port
        self._name = name
        self._sessions: set[PortSession] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    async def start(self) -> None:
        """Accept clients. Raises OSError if another server has this name."""
        if self._name in self._shared.doors:
            raise OSError(f"the virtual host {self._name} is in use")
        self._shared.doors[self._name] = self

    @property
    def port(self) -> int:
        return self._shared.listener.port

    @property
    def handshakes_failed(self) -> int:
        """0: a handshake fails before the client has named a server."""
        return 0

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """Do nothing: the process configures the TLS of the port."""

    def enter(self, session: "PortSession") -> bool:
        """Count a connection; return False if there are too many."""
        network, config = network_of(session.link.peer.host), self.config
        same_address = sum(network_of(other.link.peer.host) == network for other in self._sessions)
        if len(self._sessions) >= config.connections_max or same_address >= config.connections_per_address_max:
            self.refused += 1
            log.warning("refused a connection to %s: %d are open", self._name, len(self._sessions))
            return False
        self._sessions.add(session)
        self._is_empty.clear()
        self.accepted += 1
        return True

    def leave(self, session: "PortSession") -> None:
        self._sessions.discard(session)
        if not self._sessions:
            self._is_empty.set()

    async def stop(self, drain_s: float) -> None:
        """Refuse new clients, close the connections, and drop those that are still open after ``drain_s`` seconds."""
        if self._shared.doors.get(self._name) is self:
            del self._shared.doors[self._name]
        for session in list(self._sessions):
            session.force_close(STOPPING)
        try:
            async with asyncio.timeout(drain_s):
                await self._is_empty.wait()
        except TimeoutError:
            log.warning("dropping %d connections of %s", len(self._sessions), self._name)
            for session in list(self._sessions):
                session.link.abort()
            await self._is_empty.wait()


class PortSession:
    """One connection to the port. Once connection.open names a server, a ``BrokerSession`` of that server serves it."""

    link: SocketLink

    def __init__(self, port: SharedPort, machine: ServerConnection) -> None:
        self._port = port
        self._machine = machine
        self._offer: e.LoginOffered | None = None
        self._credentials: Credentials | None = None
        self._door: ServerDoor | None = None
        self._session: BrokerSession | None = None
        self._is_ending = False

    def link_made(self, link: SocketLink) -> None:
        self.link = link

    def process(self, events: list[e.ConnectionEvent]) -> None:
        """Process the events up to connection.open; the session processes the following ones."""
        for index, event in enumerate(events):
            if self._session is not None:
                self._session.process(events[index:])
                return
            if self._is_ending:
                return
            if isinstance(event, e.LoginOffered):
                self._offered(event)
            elif isinstance(event, e.OpenRequested):
                self._open(event)
            elif isinstance(event, e.ConnectionFailed | e.ConnectionClosed):
                self._is_ending = True

    def _offered(self, event: e.LoginOffered) -> None:
        try:
            self._credentials = sasl.read(event.mechanism, event.response)
        except AmqpError as error:
            self._refuse(error.at(10, 11))
            return
        self._offer = event
        self._machine.accept_login()
        self.link.request_write()

    def _open(self, event: e.OpenRequested) -> None:
        name, _, host = event.virtual_host.strip("/").partition("/")
        door = self._port.doors.get(name)
        if door is None:
            self._refuse(refusals.no_vhost(event.virtual_host).at(10, 40))
        elif not door.enter(self):
            self._refuse(NotAllowed(f"too many connections to virtual host '{name}'").at(10, 40))
        else:
            assert self._offer is not None
            assert self._credentials is not None
            self._door = door
            self._session = BrokerSession(door.server, self._machine)
            self._session.link_made(self.link)
            self._session.login.resume(self._offer, self._credentials, host or "/")
            self._credentials = None

    def _refuse(self, error: AmqpError) -> None:
        log.warning("refused a connection from %s: %s", self.link.peer, error)
        self._is_ending = True
        self.link.hold_back()
        self._machine.connection_error(error)
        self.link.request_write()

    def force_close(self, text: str) -> None:
        if self._session is not None:
            self._session.force_close(text)
        elif not self._is_ending:
            self.link.abort()

    def writable(self, is_writable: bool) -> None:
        if self._session is not None:
            self._session.writable(is_writable)

    def flushed(self) -> None:
        if self._session is not None:
            self._session.flushed()

    def link_lost(self, error: Exception | None) -> None:
        if self._session is not None:
            self._session.link_lost(error)
        if self._door is not None:
            self._door.leave(self)
