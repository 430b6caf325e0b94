"""Protocols between a connection, its login, and the server."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from semq.amqp.connection.server import ServerConnection
from semq.amqp.errors import AmqpError
from semq.amqp.sasl import Credentials
from semq.broker.channel.ports import SharedByChannels
from semq.broker.durable.journal import Journal
from semq.broker.limits import BrokerLimits
from semq.broker.users import Authenticator, Permissions
from semq.broker.vhost import VirtualHost
from semq.clock import Clock
from semq.transport.link import SocketLink
from semq.transport.peer import PeerInfo


class LoginServer(Protocol):
    """The parts of a server that decide about a login."""

    authenticator: Authenticator

    @property
    def vhosts(self) -> Mapping[str, VirtualHost]: ...

    def authenticate(
        self,
        peer: PeerInfo,
        mechanism: str,
        credentials: Credentials,
        answer: Callable[[str | None], None],
        fail: Callable[[], None],
    ) -> None: ...


class SessionServer(SharedByChannels, LoginServer, Protocol):
    """A server, as its connections use it."""

    clock: Clock
    journal: Journal
    limits: BrokerLimits
    alarm: str | None
    sessions: dict[Any, None]

    def forget(self, session: Any) -> None: ...


class LoginSession(Protocol):
    """A connection, as its login uses it."""

    user: str
    is_ending: bool
    link: SocketLink
    machine: ServerConnection

    @property
    def server(self) -> LoginServer: ...

    def request_write(self) -> None: ...

    def open(self, vhost: VirtualHost, permissions: Permissions) -> None: ...

    def close(self, error: AmqpError) -> None: ...
