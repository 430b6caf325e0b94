"""The life of a connection: start, deadlines, heartbeats, negotiated limits, and every way in which it ends.

Source: AMQP 0-9-1, sections 2.3.7, 4.2.7, 4.8 and 4.10.
"""

from typing import Final

from semq.amqp.connection.channel import Channel
from semq.amqp.connection.sender import CommandSender, Octets
from semq.amqp.connection.states import ChannelState, ConnectionState
from semq.amqp.errors import (
    AmqpError,
    Broken,
    ChannelException,
    ConnectionException,
    LocalMisuse,
    PeerGone,
    PeerSilent,
    TooSlow,
    clipped,
)
from semq.amqp.events import ChannelClosed, ConnectionClosed, ConnectionEvent, ConnectionFailed
from semq.amqp.frames import HEARTBEAT_FRAME
from semq.amqp.limits import ConnectionLimits
from semq.amqp.methods import ChannelClose, ConnectionClose
from semq.amqp.spec import REPLY_SUCCESS
from semq.amqp.wire import Table


class Heartbeat:
    """The deadlines for sending a heartbeat and for giving up a silent peer. Pure.

    A heartbeat is sent after half an interval without other output, so that it is in time even if a timer is late.
    ``interval``: in seconds, 0 for none or not negotiated yet.
    """

    __slots__ = ("interval", "received_at", "sent_at")

    def __init__(self) -> None:
        self.interval = 0
        self.sent_at = 0.0
        self.received_at = 0.0

    def begin(self, interval: int, now: float) -> None:
        self.interval = interval
        self.sent_at = self.received_at = now

    @property
    def next_at(self) -> float | None:
        """The earlier of ``send_at`` and ``dead_at``."""
        interval = self.interval
        return min(self.sent_at + interval / 2, self.received_at + interval * 2) if interval else None

    @property
    def send_at(self) -> float | None:
        """Time at which the next heartbeat is due if nothing else is sent; None for never."""
        return self.sent_at + self.interval / 2 if self.interval else None

    @property
    def dead_at(self) -> float | None:
        """Time at which the peer is given up if nothing arrives; None for never."""
        return self.received_at + self.interval * 2 if self.interval else None


# No method may be sent in these states, so the connection ends without a connection.close.
BEFORE_START: Final = frozenset({ConnectionState.NEW, ConnectionState.HEADER_SENT})
NEGOTIATED: Final = frozenset(
    {ConnectionState.OPEN, ConnectionState.FAILED, ConnectionState.CLOSE_REQUESTED, ConnectionState.CLOSING}
)


class Lifecycle(CommandSender):
    """A connection without its receiving half."""

    def __init__(self, limits: ConnectionLimits) -> None:
        super().__init__(limits.initial_frame_max)
        self.limits = limits
        self.frame_max = limits.initial_frame_max
        self.channel_max = 0
        self.peer_properties: Table = {}
        self.peer_capabilities: frozenset[str] = frozenset()
        self._events: list[ConnectionEvent] = []
        self._now = 0.0
        self._started = False
        self._deadline: float | None = None  # end of the time allowed for the negotiation or the close
        self._heart = Heartbeat()
        self._reason: AmqpError | None = None  # the error for which this side, or the peer, closes the connection
        self._is_unreadable = False  # an oversized frame has arrived: nothing after it can be read

    # Interface of the owner

    @property
    def is_open(self) -> bool:
        """Whether the connection is negotiated and neither side has begun to close it."""
        return self._state is ConnectionState.OPEN

    @property
    def is_negotiated(self) -> bool:
        """Whether the connection is or was open, and has not ended."""
        return self._state in NEGOTIATED

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended; the socket may be closed when the output is written."""
        return self._state in {ConnectionState.CLOSED, ConnectionState.CLOSE_RECEIVED}

    @property
    def heartbeat(self) -> int:
        """The negotiated interval in seconds, 0 for none."""
        return self._heart.interval

    @property
    def next_deadline(self) -> float | None:
        """Time at which ``tick`` is due; None for never. While events wait to be reported, ``tick`` is due at once."""
        if self._events:
            return self._now
        if self.is_closed:
            return None
        deadline, beat = self._deadline, self._heart.next_at
        return beat if deadline is None or (beat is not None and beat < deadline) else deadline

    # Time

    def start(self, now: float) -> None:
        """Start the timeout of the negotiation, on a connected socket."""
        if self._started:
            raise LocalMisuse("the connection has already been started")
        self._started = True
        self._now = now
        self._deadline = now + self.limits.handshake_s

    def tick(self, now: float) -> list[ConnectionEvent]:
        """Send a heartbeat if it is due; end the connection if the peer is silent or too slow. Return the events."""
        self._now = now
        if self.is_closed:
            return self._take_events()
        heart = self._heart
        if heart.dead_at is not None and now >= heart.dead_at:
            self._terminate(PeerSilent(f"nothing was received for {2 * heart.interval} s"))
        elif self._deadline is not None and now >= self._deadline:
            is_ending = self._state in {ConnectionState.CLOSING, ConnectionState.FAILED}
            phase = "close" if is_ending else "negotiation"
            self._terminate(TooSlow(f"the {phase} was not completed in time"))
        elif heart.send_at is not None and now >= heart.send_at:
            self._put(self._channel_zero, HEARTBEAT_FRAME)
            heart.sent_at = now
        return self._take_events()

    def take_output(self) -> list[Octets]:
        out, self._out, self._out_size = self._out, [], 0
        if out:
            self._heart.sent_at = self._now
        return out

    def _take_events(self) -> list[ConnectionEvent]:
        events, self._events = self._events, []
        return events

    def receive_eof(self, now: float) -> list[ConnectionEvent]:
        """Process the end of input; return the events."""
        self._now = now
        if self._state in {ConnectionState.CLOSING, ConnectionState.FAILED}:
            self._terminate(self._reason)
        elif self._state is ConnectionState.CLOSE_REQUESTED:
            self._terminate(self._reason, by_peer=True)
        elif not self.is_closed:
            self._terminate(PeerGone("the peer closed the socket without closing the connection"))
        return self._take_events()

    # Close by this side

    def close_channel(self, channel: int, reply_code: int = REPLY_SUCCESS, text: str = "") -> None:
        """Close a channel. ``ChannelReleased`` follows."""
        self._close_channel(channel, ChannelClose(reply_code, clipped(text)))

    def channel_error(self, channel: int, error: AmqpError) -> None:
        """Close a channel because of ``error``; a hard error closes the connection."""
        if isinstance(error, ConnectionException):
            self.connection_error(error)
        else:
            self._close_channel(channel, ChannelClose(error.reply_code, error.reply_text, *error.ids))

    def _close_channel(self, number: int, method: ChannelClose) -> None:
        channel = self._channels.get(number)
        if channel is None or channel.state is ChannelState.CLOSING:
            return
        octets = self._method_frame(number, method)
        channel.drop_content()
        channel.state = ChannelState.CLOSING
        self._put(channel, octets)

    def close(self, reply_code: int = REPLY_SUCCESS, text: str = "") -> None:
        """Close the connection. ``ConnectionClosed`` follows."""
        self._close(ConnectionClose(reply_code, clipped(text)), None)

    def connection_error(self, error: AmqpError) -> None:
        """Close the connection because of ``error``. ``ConnectionClosed`` follows."""
        self._close(ConnectionClose(error.reply_code, error.reply_text, *error.ids), error)

    def _close(self, method: ConnectionClose, reason: AmqpError | None) -> None:
        if self._state is ConnectionState.CLOSING or self.is_closed:
            return
        if self._state in BEFORE_START:
            self._terminate(reason)
            return
        self._put_method(self._channel_zero, method)
        self._answer_closes()
        if self._is_unreadable:
            self._terminate(reason)
            return
        self._state, self._reason = ConnectionState.CLOSING, reason
        self._deadline = self._now + self.limits.close_s
        self._channels.clear()

    def _answer_closes(self) -> None:
        """Send close-ok for each connection.close of the peer that waits for it."""

    # Errors of the peer

    def _fail_channel(self, channel: Channel, error: ChannelException) -> None:
        self.channel_error(channel.number, error)
        self._events.append(ChannelClosed(channel.number, False, error))

    def _fail(self, error: AmqpError) -> None:
        if self._state in BEFORE_START:
            self._terminate(error)
        elif self._state is not ConnectionState.CLOSING:
            self._events.append(ConnectionFailed(error, self._must_pause))
            self.connection_error(error)

    @property
    def _must_pause(self) -> bool:
        """Whether a server must delay its last output, because the negotiation was not finished (4.10.2)."""
        return self.role == "S" and not self.is_negotiated

    def _terminate(self, error: AmqpError | None, by_peer: bool = False) -> None:
        pause = self._must_pause and not by_peer and error is not None and not isinstance(error, Broken)
        self._state = ConnectionState.CLOSE_RECEIVED if by_peer else ConnectionState.CLOSED
        self._deadline = None
        self._channels.clear()
        self._events.append(ConnectionClosed(error, by_peer, pause))
