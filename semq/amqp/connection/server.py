"""The server's side of a connection: protocol header, login, tune and open.

The owner checks credentials, permissions and virtual hosts. Source: AMQP 0-9-1, 2.2.4, 4.2.2 and 4.10.2.
"""

from collections.abc import Sequence
from typing import ClassVar

from semq.amqp import fast_path
from semq.amqp.connection.channel import Channel
from semq.amqp.connection.connection import AmqpConnection, reason
from semq.amqp.connection.negotiation import SERVER_CAPABILITIES, accept
from semq.amqp.connection.sender import Octets
from semq.amqp.connection.states import SERVER, SERVER_CHANNEL, ChannelState, ConnectionState, Grid
from semq.amqp.content import ContentHeader
from semq.amqp.errors import (
    AccessRefused,
    AmqpError,
    ChannelException,
    CommandInvalid,
    ConnectionException,
    LocalMisuse,
    WrongProtocol,
)
from semq.amqp.events import (
    ChannelClosed,
    CloseRequested,
    ConnectionFailed,
    FlowChanged,
    LoginOffered,
    OpenRequested,
    SecretOffered,
)
from semq.amqp.fast_path import FastReader
from semq.amqp.limits import ConnectionLimits
from semq.amqp.methods import (
    BasicCancel,
    BasicDeliver,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
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

# Net::AMQP (Perl) begins with the header of 0-9 and speaks 0-9-1; RabbitMQ takes it for 0-9-1, too.
ACCEPTED_HEADERS = (PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09")
ANSWERING_STATES = frozenset({ConnectionState.OPEN, ConnectionState.FAILED, ConnectionState.CLOSE_REQUESTED})


class ServerConnection(AmqpConnection):
    """One accepted connection. ``semq.amqp`` describes the interface.

    ``server_properties`` are announced in addition to the capabilities; an entry ``capabilities`` replaces them.
    ``mechanisms`` are offered in this order; the owner may change them until the peer's protocol header has arrived.
    """

    role: ClassVar[str] = "S"
    peer: ClassVar[str] = "C"
    grid: ClassVar[Grid[ConnectionState]] = SERVER
    channel_grid: ClassVar[Grid[ChannelState]] = SERVER_CHANNEL
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
        self._unanswered_closes = 0  # number of connection.close methods that wait for accept_close

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
        if not self._unanswered_secrets or self._state not in ANSWERING_STATES:
            raise LocalMisuse("no update-secret is waiting for an answer, or the connection is not open")
        self._unanswered_secrets -= 1
        self._put_method(self._channel_zero, ConnectionUpdateSecretOk())

    def _expect(self, state: ConnectionState) -> None:
        if self._state is not state:
            raise LocalMisuse(f"not allowed in state: {self._state.value}")

    def accept_channel_close(self, channel: int) -> None:
        """Answer ``ChannelClosed`` by the peer, when everything before it on the channel has been answered."""
        target = self._channels.get(channel)
        if target is not None and target.state is ChannelState.CLOSE_REQUESTED:
            del self._channels[channel]
            # The peer ignores everything except close-ok, so the rest of a body is not sent.
            self._put_now([self._method_frame(channel, ChannelCloseOk())])

    def accept_close(self) -> None:
        """Answer ``CloseRequested``, when everything before it has been answered. ``ConnectionClosed`` follows."""
        if self._state is ConnectionState.CLOSE_REQUESTED:
            self._answer_closes()
            self._terminate(self._reason, by_peer=True)

    def _answer_closes(self) -> None:
        for _ in range(self._unanswered_closes):
            self._put_method(self._channel_zero, ConnectionCloseOk())
        self._unanswered_closes = 0

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

    def fail(self, error: AmqpError) -> None:
        """Ignore further input of an open connection because of ``error``, until ``connection_error``."""
        if self._state is ConnectionState.OPEN:
            self._state, self._reason = ConnectionState.FAILED, error
            self._deadline = self._now + self.limits.close_s

    # Ends. The owner sends the answers, because earlier requests of the peer may have none yet.

    def _close_channel(self, number: int, method: ChannelClose) -> None:
        channel = self._channels.get(number)
        is_requested = channel is not None and channel.state is ChannelState.CLOSE_REQUESTED
        super()._close_channel(number, method)
        if channel is not None and is_requested:
            channel.state = ChannelState.CROSSED
            self._on_channel_crossed(channel, method)

    def _fail_channel(self, channel: Channel, error: ChannelException) -> None:
        channel.drop_content()
        channel.state = ChannelState.FAILED
        self._events.append(ChannelClosed(channel.number, False, error))

    def _fail(self, error: AmqpError) -> None:
        if self._state is ConnectionState.OPEN:
            self.fail(error)
            self._events.append(ConnectionFailed(error, False))
        else:
            super()._fail(error)

    def _on_channel_closed(self, channel: Channel, method: ChannelClose) -> None:
        self._events.append(ChannelClosed(channel.number, True, reason(method, ChannelException)))

    def _on_channel_flow(self, channel: Channel, method: ChannelFlow) -> None:
        channel.flowing = method.active
        self._events.append(FlowChanged(channel.number, method.active))

    def _on_requested(self, method: ConnectionClose) -> None:
        self._unanswered_closes += 1
        self._reason = reason(method, ConnectionException)
        self._events.append(CloseRequested(self._reason))

    def _on_repeated(self, _method: ConnectionClose) -> None:
        self._unanswered_closes += 1

    # Methods received by a server

    def _read(self, data: bytes) -> None:
        if self._state is ConnectionState.NEW:
            data = self._read_protocol_header(data)
        if self._state is not ConnectionState.CLOSED:
            super()._read(data)

    def _read_protocol_header(self, data: bytes) -> bytes:
        missing = len(PROTOCOL_HEADER) - len(self._protocol_header)
        self._protocol_header += data[:missing]
        if self._protocol_header in ACCEPTED_HEADERS:
            mechanisms = " ".join(self.mechanisms).encode()
            start = ConnectionStart(server_properties=self._properties, mechanisms=mechanisms)
            self._put_method(self._channel_zero, start)
            self._state = ConnectionState.START_SENT
        elif not any(header.startswith(self._protocol_header) for header in ACCEPTED_HEADERS):
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
