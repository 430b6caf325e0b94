"""Listening port: accepts connections within limits, and closes them when the node stops.

``Listener`` makes a ``SocketLink`` for each socket. Sockets of a TLS port first pass ``handshakes``.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, field

from semq.clock import Clock
from semq.transport.handshakes import Handshakes
from semq.transport.link import AmqpMachine, LinkOwner, SocketLink
from semq.transport.places import PlaceLimits, Places
from semq.transport.tls_files import TlsFiles
from semq.transport.turn import Turn

log = logging.getLogger(__name__)

PAUSE_S = 2.0  # pause before the answer to a failed negotiation, which makes guessing passwords slow
STOPPING = "the node is stopping"  # text of connection.close when a listener stops


class ListenerConfig(Struct, frozen=True):
    """Address and limits of a listening port; port 0 selects a free one. ``pause_s``: see ``SocketLink``."""

    host: str = "127.0.0.1"
    port: int = 5672
    connections_max: int = 4096
    connections_per_address_max: int = 1024
    pause_s: float = field(default_factory=lambda: PAUSE_S)
    backlog: int = 512
    tls: ssl.SSLContext | TlsFiles | None = None
    handshake_s: float = 10.0  #: time limit of a TLS handshake


class Drainable(LinkOwner, Protocol):
    """A ``LinkOwner`` that can close the connection."""

    def force_close(self, text: str) -> None:
        """Send connection.close 320 with this text. The link ends when the peer answers."""


class ConnectionAcceptor(Protocol):
    """A ``Listener``, or a part of a shared port."""

    config: ListenerConfig
    accepted: int

    @property
    def refused(self) -> int:
        """The number of connections that found no room."""

    async def start(self) -> None:
        """Accept connections. Raises OSError, for example if the port is in use."""

    async def stop(self, drain_s: float) -> None:
        """Accept no more, close the connections, and drop those that are still open after ``drain_s`` seconds."""

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """Use this context for new handshakes."""

    @property
    def port(self) -> int:
        """The listening port."""

    @property
    def handshakes_failed(self) -> int:
        """The number of failed TLS handshakes."""


class _CountedLink(SocketLink):
    def __init__(self, listener: "Listener", machine: AmqpMachine, owner: Drainable) -> None:
        super().__init__(machine, owner, listener.clock, listener.turn, listener.config.pause_s)
        self._listener = listener
        self._accepted_at = asyncio.get_running_loop().time()
        self.drainable = owner

    @property
    def waits_since(self) -> float | None:
        return None if self.machine.is_negotiated else self._accepted_at  # until the login has succeeded

    def displace(self) -> None:
        self.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._listener.admit(self, transport):
            self.is_lost = True
            transport.abort()  # type: ignore[attr-defined]  # TCP and TLS transports both have ``abort``
            return
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._listener.forget(self):
            super().connection_lost(exc)


class Listener:
    """One listening port. ``make`` returns a new state machine and its owner for each connection."""

    def __init__(
        self, config: ListenerConfig, make: Callable[[], tuple[AmqpMachine, Drainable]], clock: Clock, turn: Turn
    ) -> None:
        self.config = config
        self.clock = clock
        self.turn = turn
        self.links: set[SocketLink] = set()
        self.accepted = 0
        self.places = Places(lambda: PlaceLimits(self.config.connections_max, self.config.connections_per_address_max))
        self._make = make
        self._server: asyncio.Server | None = None
        self._handshakes: Handshakes | None = None
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        config = self.config
        if config.tls is not None:
            self._handshakes = Handshakes(self.places, config.tls, config.handshake_s, self.new_link)
            await self._handshakes.start(config.host, config.port, config.backlog)
            return
        self._server = await loop.create_server(
            self.new_link, config.host, config.port, backlog=config.backlog, reuse_address=True
        )

    def use_tls(self, tls: ssl.SSLContext) -> None:
        if self._handshakes is not None:
            self._handshakes.tls = tls

    @property
    def port(self) -> int:
        """The listening port; the configured one while no socket listens."""
        if self._handshakes is not None:
            return self._handshakes.port or self.config.port
        if self._server is None or not self._server.sockets:
            return self.config.port
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, drain_s: float) -> None:
        if self._server is not None:
            self._server.close()
        if self._handshakes is not None:
            self._handshakes.stop()
        for link in list(self.links):
            if isinstance(link, _CountedLink):
                link.drainable.force_close(STOPPING)
        try:
            async with asyncio.timeout(drain_s):
                await self._is_empty.wait()
        except TimeoutError:
            log.warning("dropping %d connections that did not answer the close", len(self.links))
            for link in list(self.links):
                link.abort()
            await self._is_empty.wait()

    def new_link(self) -> SocketLink:
        """Return a link for a socket."""
        machine, owner = self._make()
        return _CountedLink(self, machine, owner)

    @property
    def refused(self) -> int:
        return self.places.refused

    @property
    def handshakes_failed(self) -> int:
        return self._handshakes.failed if self._handshakes is not None else 0

    def admit(self, link: _CountedLink, transport: asyncio.BaseTransport) -> bool:
        """Give a link a place. Return False if there is none."""
        name = transport.get_extra_info("peername")
        address = str(name[0]) if isinstance(name, tuple) else ""
        if self._handshakes is None and not self.places.have_room(address):
            return False  # with TLS, the handshake had a place
        self.places.take(link, address)
        self.links.add(link)
        self.accepted += 1
        self._is_empty.clear()
        return True

    def forget(self, link: _CountedLink) -> bool:
        """Free the place of a link. Return False if it was not admitted."""
        if link not in self.links:
            return False
        self.links.discard(link)
        self.places.leave(link)
        if not self.links:
            self._is_empty.set()
        return True
