"""The receiving half of a connection and its life: frames in, events out; close handshakes, heartbeats, deadlines.

``ServerConnection`` and ``ClientConnection`` add their negotiation. All that a peer says enters by ``receive``,
which never raises for it: an error becomes an event and a close. The grids in ``states`` say what may be heard
when; the deeds that they name are the methods ``_on_…``. Source: seed AMQP 0-9-1, sections 2.3.7, 4.2, 4.5, 4.8 and
4.10.
"""

from enum import Enum
from typing import Any, ClassVar, Final

from semq.amqp.channel import Channel, ContentMethod, heard
from semq.amqp.codec import IDS, decode_method
from semq.amqp.errors import (
    AmqpError,
    Blame,
    Broken,
    ChannelError,
    ChannelException,
    CommandInvalid,
    ConnectionException,
    FrameError,
    LocalMisuse,
    PeerGone,
    PeerSilent,
    TooSlow,
    by_code,
    clipped,
)
from semq.amqp.events import (
    ChannelClosed,
    ChannelOpened,
    ChannelReleased,
    ConnectionClosed,
    ConnectionFailed,
    Event,
    FlowChanged,
    MethodReceived,
    Tuned,
)
from semq.amqp.frames import BAD_END, HEARTBEAT_FRAME, OVERSIZE, UNKNOWN_TYPE, FrameReader
from semq.amqp.heartbeat import Heartbeat
from semq.amqp.hot import Lane
from semq.amqp.limits import Limits
from semq.amqp.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
)
from semq.amqp.negotiation import Agreement, capabilities_of
from semq.amqp.sender import Octets, Sender
from semq.amqp.spec import (
    CLASS_IDS,
    CONNECTION,
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    REPLY_SUCCESS,
)
from semq.amqp.states import CHANNEL, Cell, ChannelState, ConnectionState, Grid
from semq.amqp.wire import Table

CHANNEL_CLASS: Final = CLASS_IDS["channel"]
CHANNEL_MAX: Final = (1 << 16) - 1
CLOSE_IDS: Final = frozenset(
    IDS.pack(*method.ids) for method in (ConnectionClose, ConnectionCloseOk, ChannelClose, ChannelCloseOk)
)
# Before connection.start there is no method that could say why.
MUTE: Final = frozenset({ConnectionState.NEW, ConnectionState.HEADER_SENT})


class Connection(Sender):
    """What both roles have in common. ``semq.amqp`` describes the interface."""

    peer: ClassVar[str]  # the role of the other side
    grid: ClassVar[Grid[ConnectionState]]
    lanes: ClassVar[dict[bytes, Lane]]

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits.initial_frame_max)
        self.limits = limits
        self.frame_max = limits.initial_frame_max
        self.channel_max = 0
        self.peer_properties: Table = {}
        self.peer_capabilities: frozenset[str] = frozenset()
        self._reader = FrameReader(limits.initial_frame_max - FRAME_OVERHEAD)
        self._whole_max = limits.body_max  # bodies up to here come out in one piece
        if limits.stream_from is not None:
            self._whole_max = min(limits.body_max, limits.stream_from - 1)
        self._events: list[Event] = []
        self._now = 0.0
        self._started = False
        self._deadline: float | None = None  # of the negotiation, or of the close
        self._heart = Heartbeat()
        self._reason: AmqpError | None = None  # why this side closes

    # What the owner may ask

    @property
    def is_open(self) -> bool:
        """Negotiated, and nobody has begun to close."""
        return self._state is ConnectionState.OPEN

    @property
    def is_closed(self) -> bool:
        """Nothing will be heard or said any more; the socket may be closed when the output is written."""
        return self._state is ConnectionState.CLOSED

    @property
    def heartbeat(self) -> int:
        """The agreed interval in seconds, 0 for none."""
        return self._heart.interval

    @property
    def open_channels(self) -> list[int]:
        """The numbers of the channels that are open."""
        return sorted(number for number, channel in self._channels.items() if channel.state is ChannelState.OPEN)

    @property
    def next_deadline(self) -> float | None:
        """When ``tick`` is due; at once if an event waits for it. None: never."""
        if self._events:
            return self._now
        if self.is_closed:
            return None
        return min(
            (when for when in (self._deadline, self._heart.send_at, self._heart.dead_at) if when is not None),
            default=None,
        )

    # Time

    def start(self, now: float) -> None:
        """The socket is connected; the time for the negotiation runs."""
        if self._started:
            raise LocalMisuse("the connection was started before")
        self._started = True
        self._now = now
        self._deadline = now + self.limits.handshake_s

    def tick(self, now: float) -> list[Event]:
        """Time has passed: send a heartbeat, give up a peer that is silent or too slow, if it is due."""
        self._now = now
        if self.is_closed:
            return self._take_events()
        heart = self._heart
        if heart.dead_at is not None and now >= heart.dead_at:
            self._terminate(PeerSilent(f"nothing was heard for {2 * heart.interval} s"))
        elif self._deadline is not None and now >= self._deadline:
            doing = "close" if self._state is ConnectionState.CLOSING else "negotiation"
            self._terminate(TooSlow(f"the {doing} was not finished in time"))
        elif heart.send_at is not None and now >= heart.send_at:
            self._put(self._zero, HEARTBEAT_FRAME)
            heart.sent_at = now
        return self._take_events()

    def take_output(self) -> list[Octets]:
        """What is to be written to the socket, in order."""
        out, self._out, self._out_size = self._out, [], 0
        if out:
            self._heart.sent_at = self._now
        return out

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    # What comes in

    def receive(self, data: bytes, now: float) -> list[Event]:
        """Octets have come. Never raises for what they say."""
        if not self._started:
            raise LocalMisuse("start() comes first")
        self._now = self._heart.heard_at = now
        if self._state is ConnectionState.NEW:
            data = self._greet(data)
        if self._state is not ConnectionState.CLOSED:
            self._read(data)
        return self._take_events()

    def receive_eof(self, now: float) -> list[Event]:
        """The peer has closed the socket."""
        self._now = now
        if self._state is ConnectionState.CLOSING:
            self._terminate(None)
        elif not self.is_closed:
            self._terminate(PeerGone("the peer closed the socket without closing the connection"))
        return self._take_events()

    def _greet(self, data: bytes) -> bytes:
        """Take the protocol header, if this role waits for one; gives what is behind it."""
        raise NotImplementedError

    def _read(self, data: bytes) -> None:
        reader, lanes, channels, events = self._reader, self.lanes, self._channels, self._events
        body_max, depth = self._whole_max, self.limits.table_depth
        for kind, number, start, stop in reader.frames(data):
            if kind == FRAME_METHOD:
                lane = lanes.get(reader.buffer[start : start + 4])
                if (
                    lane is not None
                    and (channel := channels.get(number)) is not None
                    and channel.state is ChannelState.OPEN
                    and channel.arriving is None
                    and (event := lane(reader, start, stop, number, body_max, depth)) is not None
                ):
                    events.append(event)
                    continue
            self._take_frame(kind, number, start, stop)
            if self._state is ConnectionState.CLOSED:
                return

    def _take_frame(self, kind: int, number: int, start: int, stop: int) -> None:
        """The general road: one frame, and what is wrong with it."""
        try:
            if kind == FRAME_METHOD:
                self._take_method(number, self._reader.buffer[start:stop])
            elif kind in {FRAME_HEADER, FRAME_BODY}:
                self._take_content(kind, number, start, stop)
            elif kind == FRAME_HEARTBEAT:
                if number or stop > start:
                    raise FrameError("a heartbeat is empty and on channel 0")
            elif kind == OVERSIZE:
                size = start + FRAME_OVERHEAD
                raise FrameError(f"a frame of {size} octets is above the frame-max of {self.frame_max}")
            else:
                # Nothing more is sent to a peer whose frames cannot be told apart (4.2.3).
                self._out, self._out_size = [], 0
                self._terminate(self._garbage(kind, start))
        except ChannelException as error:
            self._fail_channel(self._channels[number], error)
        except AmqpError as error:
            self._fail(error)

    def _garbage(self, kind: int, octet: int) -> AmqpError:
        """What is wrong with octets that are no frame."""
        names = {UNKNOWN_TYPE: f"a frame of the unknown type {octet}", BAD_END: "a frame without its end octet"}
        return FrameError(names[kind])

    def _take_method(self, number: int, payload: bytes) -> None:
        if self._deaf(number) and payload[: IDS.size] not in CLOSE_IDS:
            return
        method = decode_method(payload, self.limits.table_depth)
        row = method.row
        ids = row.class_id, row.method_id
        if self.peer not in row.senders:
            raise CommandInvalid(f"{row.name} is for the other side to send", *ids)
        if row.class_id != CONNECTION:
            self._take_channel_method(number, method)
        elif number:
            raise CommandInvalid(f"{row.name} came on channel {number}", *ids)
        else:
            cell = self.grid[self._state][row.name.partition(".")[2]]
            self._check(cell, row.name, self._state, ids)
            self._state = cell.state or self._state
            if cell.deed:
                getattr(self, f"_on_{cell.deed}")(method)

    def _deaf(self, number: int) -> bool:
        """Whether only close and close-ok are heard: the connection or this channel is closing (2.3.7)."""
        if self._state is ConnectionState.CLOSING:
            return True
        channel = self._channels.get(number)
        return channel is not None and channel.state is ChannelState.CLOSING

    def _check(self, cell: Cell[Any], what: str, state: Enum, ids: tuple[int, int] = (0, 0)) -> None:
        if cell.error is not None:
            raise cell.error(f"{what} has no place here, state: {state.value}", *ids)

    def _take_channel_method(self, number: int, method: Method) -> None:
        row = method.row
        ids = row.class_id, row.method_id
        channel = self._channel_of(number, row.name, ids)
        channel.check_idle()
        word = row.name.partition(".")[2] if row.class_id == CHANNEL_CLASS else "other"
        cell = CHANNEL[channel.state].get(word) or CHANNEL[channel.state]["other"]
        self._check(cell, row.name, channel.state, ids)
        if cell.state is ChannelState.NONE:
            del self._channels[number]
        channel.state = cell.state or channel.state
        if cell.deed:
            getattr(self, f"_on_channel_{cell.deed}")(channel, method)

    def _channel_of(self, number: int, what: str, ids: tuple[int, int] = (0, 0)) -> Channel:
        """The channel that a frame is for, in whatever state; checks that the connection is ready for it."""
        self._check(self.grid[self._state]["channel"], what, self._state, ids)
        if not number:
            raise ChannelError(f"{what} came on channel 0", *ids)
        return self._channels.get(number) or Channel(number, ChannelState.NONE)

    def _take_content(self, kind: int, number: int, start: int, stop: int) -> None:
        if self._deaf(number):
            return
        channel = self._channel_of(number, "a content frame")
        self._check(CHANNEL[channel.state]["other"], "a content frame", channel.state)
        buffer = self._reader.buffer
        if kind == FRAME_HEADER:
            self._events += channel.take_header(buffer[start:stop], self.limits)
        else:
            self._events += channel.take_body(buffer, start, stop)

    # Deeds of the channel grid

    def _on_channel_opened(self, channel: Channel, method: Method) -> None:
        if channel.number > (self.channel_max or CHANNEL_MAX):
            raise ChannelError(f"channel {channel.number} is above the channel-max of {self.channel_max}", *method.ids)
        self._channels[channel.number] = channel
        self._put_method(channel, ChannelOpenOk())
        self._events.append(ChannelOpened(channel.number))

    def _on_channel_confirmed(self, channel: Channel, _method: ChannelOpenOk) -> None:
        self._events.append(ChannelOpened(channel.number))

    def _on_channel_flow(self, channel: Channel, method: ChannelFlow) -> None:
        channel.flowing = method.active
        self._put_method(channel, ChannelFlowOk(method.active))
        self._events.append(FlowChanged(channel.number, method.active))

    def _on_channel_closed(self, channel: Channel, method: ChannelClose) -> None:
        """The peer hears nothing but close-ok now, so a body that is on its way to it ends here."""
        self._put_now([self._method_frame(channel.number, ChannelCloseOk())])
        self._events.append(ChannelClosed(channel.number, True, _reason(method, ChannelException)))

    def _on_channel_both(self, channel: Channel, _method: ChannelClose) -> None:
        self._put_now([self._method_frame(channel.number, ChannelCloseOk())])
        if channel.held:  # our close waits behind a body that the peer does not want any more: it will never hear of it
            del self._channels[channel.number]
            self._events.append(ChannelReleased(channel.number))

    def _on_channel_released(self, channel: Channel, _method: ChannelCloseOk) -> None:
        self._events.append(ChannelReleased(channel.number))

    def _on_channel_other(self, channel: Channel, method: Method) -> None:
        channel.reply(method)
        if isinstance(method, ContentMethod):
            channel.begin(method)
        else:
            self._events.append(heard(channel.number, method))

    # Deeds of the connection grids that both roles share

    def _on_closed(self, method: ConnectionClose) -> None:
        self._put_method(self._zero, ConnectionCloseOk())
        self._terminate(_reason(method, ConnectionException), by_peer=True)

    def _on_both(self, _method: ConnectionClose) -> None:
        self._put_method(self._zero, ConnectionCloseOk())

    def _on_done(self, _method: ConnectionCloseOk) -> None:
        self._terminate(self._reason)

    def _on_reply(self, method: Method) -> None:
        self._zero.reply(method)
        self._events.append(MethodReceived(0, method))

    # Closing, by this side

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
        channel.state, channel.arriving = ChannelState.CLOSING, None
        octets = self._method_frame(number, method)
        self._put(channel, octets)

    def close(self, reply_code: int = REPLY_SUCCESS, text: str = "") -> None:
        """Close the connection. ``ConnectionClosed`` follows."""
        self._close(ConnectionClose(reply_code, clipped(text)), None)

    def connection_error(self, error: AmqpError) -> None:
        """Close the connection because of ``error``. ``ConnectionClosed`` follows."""
        self._close(ConnectionClose(error.reply_code, error.reply_text, *error.ids), error)

    def _close(self, method: ConnectionClose, reason: AmqpError | None) -> None:
        if self._state in {ConnectionState.CLOSING, ConnectionState.CLOSED}:
            return
        if self._state in MUTE:
            self._terminate(reason)
            return
        self._put_method(self._zero, method)
        self._state, self._reason = ConnectionState.CLOSING, reason
        self._deadline = self._now + self.limits.close_s
        self._channels.clear()

    # Errors of the peer

    def _fail_channel(self, channel: Channel, error: ChannelException) -> None:
        self.channel_error(channel.number, error)
        self._events.append(ChannelClosed(channel.number, False, error))

    def _fail(self, error: AmqpError) -> None:
        if self._state in MUTE or self._state is ConnectionState.CLOSING:
            self._terminate(error)
        else:
            self._events.append(ConnectionFailed(error, self._pause))
            self.connection_error(error)

    @property
    def _pause(self) -> bool:
        return self.role == "S" and self._state not in {ConnectionState.OPEN, ConnectionState.CLOSING}

    def _terminate(self, error: AmqpError | None, by_peer: bool = False) -> None:
        """The end: nothing more is heard or said."""
        pause = self._pause and not by_peer and error is not None and not isinstance(error, Broken)
        self._state, self._deadline = ConnectionState.CLOSED, None
        self._channels.clear()
        self._events.append(ConnectionClosed(error, by_peer, pause))

    def _agree(self, agreement: Agreement) -> None:
        """The limits hold from here on, both ways."""
        self.frame_max, self.channel_max, heartbeat = agreement
        self._limit_payload(self.frame_max)
        self._reader.payload_max = self._body_max
        self._heart.begin(heartbeat, self._now)
        self._events.append(Tuned(*agreement))

    def _meet(self, properties: Table) -> None:
        """The peer has introduced itself."""
        self.peer_properties = properties
        self.peer_capabilities = capabilities_of(properties)


def _reason(method: ConnectionClose | ChannelClose, level: type[AmqpError]) -> AmqpError | None:
    """Why the peer closes; None if all is well."""
    if method.reply_code == REPLY_SUCCESS:
        return None
    return by_code(
        method.reply_code, method.reply_text, method.class_id, method.method_id, blame=Blame.LOCAL, level=level
    )
