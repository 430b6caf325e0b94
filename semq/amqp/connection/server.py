"""The server's side of a connection: protocol header, login, tune and open.

The owner checks credentials, permissions and virtual hosts. Source: AMQP 0-9-1, 2.2.4, 4.2.2 and 4.10.2.
"""

from collections.abc import Sequence
from typing import ClassVar

from semq.amqp import fast_path
from semq.amqp.connection.connection import AmqpConnection
from semq.amqp.connection.negotiation import SERVER_CAPABILITIES, accept
from semq.amqp.connection.sender import Octets
from semq.amqp.connection.states import SERVER, ConnectionState, Grid
from semq.amqp.content import ContentHeader
from semq.amqp.errors import AccessRefused, CommandInvalid, LocalMisuse, WrongProtocol
from semq.amqp.events import LoginOffered, OpenRequested, SecretOffered
from semq.amqp.fast_path import FastReader
from semq.amqp.limits import ConnectionLimits
from semq.amqp.methods import (
    BasicCancel,
    BasicDeliver,
    ConnectionBlocked,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from semq.amqp.spec import PROTOCOL_HEADER
from semq.amqp.wire import Table


class ServerConnection(AmqpConnection):
    """One accepted connection. ``semq.amqp`` describes the interface.

    ``server_properties`` are announced in addition to the capabilities; an entry ``capabilities`` replaces them.
    ``mechanisms`` are offered in this order; the owner may change them until the peer's protocol header has arrived.
    """

    role: ClassVar[str] = "S"
    peer: ClassVar[str] = "C"
    grid: ClassVar[Grid[ConnectionState]] = SERVER
    fast_readers: ClassVar[dict[bytes, FastReader]] = fast_path.SERVER_READERS

    def __init__(
        self,
        limits: ConnectionLimits | None = None,
        *,
        server_properties: Table | None = None,
        mechanisms: Sequence[str] = ("PLAIN", "AMQPLAIN"),
    ) -> None:
        super().__init__(limits or ConnectionLimits())
        self._properties: Table = {"capabilities": SERVER_CAPABILITIES, **(server_properties or {})}
        self.mechanisms = tuple(mechanisms)
        self._protocol_header = b""
        self._unanswered_secrets = 0  # number of update-secret methods that wait for accept_secret

    # Answers of the owner

    def accept_login(self) -> None:
        self._expect(ConnectionState.LOGIN_RECEIVED)
        limits = self.limits
        self._put_method(self._channel_zero, ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat))
        self._state = ConnectionState.TUNE_SENT

    def refuse_login(self, text: str) -> None:
        """Refuse the login. A client without authentication_failure_close gets no reason: its socket is closed."""
        self._expect(ConnectionState.LOGIN_RECEIVED)
        error = AccessRefused(text)
        if "authentication_failure_close" in self.peer_capabilities:
            self.connection_error(error)
        else:
            self._terminate(error)

    def accept_open(self) -> None:
        self._expect(ConnectionState.OPEN_RECEIVED)
        self._put_method(self._channel_zero, ConnectionOpenOk())
        self._state, self._deadline = ConnectionState.OPEN, None

    def accept_secret(self) -> None:
        """Accept the new secret of the oldest ``SecretOffered`` that has not been answered."""
        if not self._unanswered_secrets or not self.is_open:
            raise LocalMisuse("no update-secret is waiting for an answer, or the connection is not open")
        self._unanswered_secrets -= 1
        self._put_method(self._channel_zero, ConnectionUpdateSecretOk())

    def _expect(self, state: ConnectionState) -> None:
        if self._state is not state:
            raise LocalMisuse(f"not allowed in state: {self._state.value}")

    # Commands of a server

    def deliver(
        self,
        channel: int,
        consumer_tag: str,
        delivery_tag: int,
        redelivered: bool,
        exchange: str,
        routing_key: str,
        header: ContentHeader,
        body: Octets,
    ) -> None:
        raw, size = header.raw, len(body)
        if not 0 < size <= self._joined_max or size != header.body_size or len(raw) > self._payload_max:
            method = BasicDeliver(consumer_tag, delivery_tag, redelivered, exchange, routing_key)
            self.send_content(channel, method, header, body)
            return
        self._put(
            self._require_channel(channel),
            fast_path.deliver_frames(
                channel, consumer_tag, delivery_tag, redelivered, exchange, routing_key, raw, body
            ),
        )

    def block(self, reason: str) -> bool:
        """Notify the client that publishes are not read for now.

        Return False, with nothing sent, if the connection is not open or the client does not support the notice.
        """
        return self._notify("connection.blocked", ConnectionBlocked(reason))

    def unblock(self) -> bool:
        """Notify the client that publishes are read again; return False as ``block`` does."""
        return self._notify("connection.blocked", ConnectionUnblocked())

    def _notify(self, capability: str, method: ConnectionBlocked | ConnectionUnblocked) -> bool:
        is_supported = self.is_open and capability in self.peer_capabilities
        if is_supported:
            self._put_method(self._channel_zero, method)
        return is_supported

    def cancel_consumer(self, channel: int, consumer_tag: str) -> bool:
        """Notify the client that a consumer has ended; return False if the client does not support this notice."""
        is_supported = "consumer_cancel_notify" in self.peer_capabilities
        if is_supported:
            self.send(channel, BasicCancel(consumer_tag, True))
        return is_supported

    # Methods received by a server

    def _read(self, data: bytes) -> None:
        if self._state is ConnectionState.NEW:
            data = self._read_protocol_header(data)
        if self._state is not ConnectionState.CLOSED:
            super()._read(data)

    def _read_protocol_header(self, data: bytes) -> bytes:
        missing = len(PROTOCOL_HEADER) - len(self._protocol_header)
        self._protocol_header += data[:missing]
        if self._protocol_header == PROTOCOL_HEADER:
            mechanisms = " ".join(self.mechanisms).encode()
            start = ConnectionStart(server_properties=self._properties, mechanisms=mechanisms)
            self._put_method(self._channel_zero, start)
            self._state = ConnectionState.START_SENT
        elif not PROTOCOL_HEADER.startswith(self._protocol_header):
            self._put(self._channel_zero, PROTOCOL_HEADER)
            self._terminate(WrongProtocol(f"the peer began with {self._protocol_header!r}"))
        return data[missing:]

    def _on_login(self, method: ConnectionStartOk) -> None:
        self._record_properties(method.client_properties)
        if method.mechanism not in self.mechanisms:
            raise CommandInvalid(f"the mechanism {method.mechanism!r:.60} is not offered", *method.ids)
        self._events.append(LoginOffered(method.mechanism, method.response, method.client_properties, method.locale))

    def _on_tuned(self, method: ConnectionTuneOk) -> None:
        self._agree(accept(self.limits, method))

    def _on_open(self, method: ConnectionOpen) -> None:
        self._events.append(OpenRequested(method.virtual_host))

    def _on_secret(self, method: ConnectionUpdateSecret) -> None:
        self._unanswered_secrets += 1
        self._events.append(SecretOffered(method.new_secret, method.reason))
