"""The client's side of a connection: protocol header, login, tune and open.

Source: AMQP 0-9-1, 2.2.4 and 4.2.2.
"""

from typing import ClassVar, Final

from semq.amqp import fast_path
from semq.amqp.connection.channel import Channel
from semq.amqp.connection.connection import CHANNEL_MAX, AmqpConnection
from semq.amqp.connection.negotiation import CLIENT_CAPABILITIES, answer
from semq.amqp.connection.sender import Octets
from semq.amqp.connection.states import CLIENT, CLIENT_CHANNEL, ChannelState, ConnectionState, Grid
from semq.amqp.content import ContentHeader
from semq.amqp.errors import AmqpError, CommandInvalid, LocalMisuse, NotSupported, WrongProtocol
from semq.amqp.events import Blocked, Opened, Started, Unblocked
from semq.amqp.fast_path import FastReader
from semq.amqp.frames import UNKNOWN_TYPE
from semq.amqp.limits import ConnectionLimits
from semq.amqp.methods import (
    BasicPublish,
    ChannelOpen,
    ConnectionBlocked,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
)
from semq.amqp.spec import PROTOCOL_HEADER
from semq.amqp.wire import Table

# A server of another version answers with its protocol header, which begins with this octet.
FIRST_HEADER_OCTET: Final = PROTOCOL_HEADER[0]


class ClientConnection(AmqpConnection):
    """One connection to a server. ``semq.amqp`` describes the interface.

    ``response`` is the initial response of ``mechanism`` (see ``sasl``). ``client_properties`` are announced in
    addition to the capabilities; an entry ``capabilities`` replaces them.
    """

    role: ClassVar[str] = "C"
    peer: ClassVar[str] = "S"
    grid: ClassVar[Grid[ConnectionState]] = CLIENT
    channel_grid: ClassVar[Grid[ChannelState]] = CLIENT_CHANNEL
    fast_readers: ClassVar[dict[bytes, FastReader]] = fast_path.CLIENT_READERS

    def __init__(
        self,
        limits: ConnectionLimits | None = None,
        *,
        mechanism: str = "PLAIN",
        response: bytes = b"",
        virtual_host: str = "/",
        client_properties: Table | None = None,
    ) -> None:
        super().__init__(limits or ConnectionLimits())
        self._mechanism, self._response = mechanism, response
        self._virtual_host = virtual_host
        self._properties: Table = {"capabilities": CLIENT_CAPABILITIES, **(client_properties or {})}

    def start(self, now: float) -> None:
        """Send the protocol header on a connected socket and start the timeout of the negotiation."""
        super().start(now)
        self._put(self._channel_zero, PROTOCOL_HEADER)
        self._state = ConnectionState.HEADER_SENT

    # Commands of a client

    def open_channel(self, channel: int | None = None) -> int:
        """Open a channel and return its number; None selects the lowest free one. ``ChannelOpened`` follows."""
        highest = self.channel_max or CHANNEL_MAX
        if channel is None:
            channel = next((number for number in range(1, highest + 1) if number not in self._channels), 0)
        if not self.is_open or channel in self._channels or not 1 <= channel <= highest:
            raise LocalMisuse(f"channel {channel} cannot be opened now; the highest is {highest}")
        self._channels[channel] = Channel(channel, ChannelState.OPENING, self._budget)
        self._put_method(self._channels[channel], ChannelOpen())
        return channel

    def publish(
        self,
        channel: int,
        exchange: str,
        routing_key: str,
        header: ContentHeader,
        body: Octets,
        mandatory: bool = False,
        immediate: bool = False,
    ) -> None:
        raw, size = header.raw, len(body)
        if not 0 < size <= self._joined_max or size != header.body_size or len(raw) > self._payload_max:
            self.send_content(channel, BasicPublish(exchange, routing_key, mandatory, immediate), header, body)
            return
        self._put(
            self._require_channel(channel),
            fast_path.publish_frames(channel, exchange, routing_key, mandatory | immediate << 1, raw, body),
        )

    def reject(self, channel: int, delivery_tag: int, requeue: bool = True) -> None:
        self._put(self._require_channel(channel), fast_path.reject_frame(channel, delivery_tag, requeue))

    # Methods received by a client

    def _framing_error(self, kind: int, octet: int) -> AmqpError:
        if self._state is ConnectionState.HEADER_SENT and kind == UNKNOWN_TYPE and octet == FIRST_HEADER_OCTET:
            return WrongProtocol("the server answered with the protocol header of another version")
        return super()._framing_error(kind, octet)

    def _on_start(self, method: ConnectionStart) -> None:
        self._record_properties(method.server_properties)
        offered = (method.version_major, method.version_minor)
        if offered != (PROTOCOL_HEADER[5], PROTOCOL_HEADER[6]):
            raise NotSupported(f"the server uses version {offered[0]}-{offered[1]}", *method.ids)
        mechanisms = method.mechanisms.decode("utf-8", "replace").split()
        if self._mechanism not in mechanisms:
            raise CommandInvalid(f"the server does not offer {self._mechanism}, but {mechanisms}", *method.ids)
        self._put_method(self._channel_zero, ConnectionStartOk(self._properties, self._mechanism, self._response))
        locales = method.locales.decode("utf-8", "replace").split()
        self._events.append(Started(method.server_properties, tuple(mechanisms), tuple(locales)))

    def _on_tune(self, method: ConnectionTune) -> None:
        frame_max, channel_max, heartbeat = agreement = answer(self.limits, method)
        self._agree(agreement)
        self._put_method(self._channel_zero, ConnectionTuneOk(channel_max, frame_max, heartbeat))
        self._put_method(self._channel_zero, ConnectionOpen(self._virtual_host))

    def _on_opened(self, _method: ConnectionOpenOk) -> None:
        self._deadline = None
        self._events.append(Opened())

    def _on_blocked(self, method: ConnectionBlocked) -> None:
        self._events.append(Blocked(method.reason))

    def _on_unblocked(self, _method: ConnectionUnblocked) -> None:
        self._events.append(Unblocked())
