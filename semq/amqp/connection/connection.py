"""The receiving half of a connection: bytes in, events out, for both roles.

``receive`` never raises for the bytes of a peer: an error becomes an event and a close. Source: AMQP 0-9-1, sections
2.3.7, 4.2, 4.5, 4.8 and 4.10.
"""

from enum import Enum
from typing import Any, ClassVar, Final

from semq.amqp.codec import IDS, decode_method
from semq.amqp.connection.channel import Channel, ContentMethod, event_of
from semq.amqp.connection.lifecycle import BEFORE_START, Lifecycle
from semq.amqp.connection.negotiation import NegotiatedLimits, capabilities_of
from semq.amqp.connection.sender import UNLIMITED
from semq.amqp.connection.states import Cell, ChannelState, ConnectionState, Grid
from semq.amqp.errors import (
    AmqpError,
    Blame,
    ChannelError,
    ChannelException,
    CommandInvalid,
    ConnectionException,
    FrameError,
    LocalMisuse,
    NotAllowed,
    by_code,
)
from semq.amqp.events import (
    ChannelClosed,
    ChannelOpened,
    ChannelReleased,
    ConnectionEvent,
    FlowChanged,
    MethodReceived,
    Tuned,
)
from semq.amqp.fast_path import FastReader
from semq.amqp.frames import BAD_END, OVERSIZE, UNKNOWN_TYPE, FrameReader
from semq.amqp.limits import ConnectionLimits
from semq.amqp.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
)
from semq.amqp.spec import (
    CLASS_IDS,
    CONNECTION,
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    REPLY_SUCCESS,
)
from semq.amqp.wire import Table

ROLE_NAMES: Final = {"C": "client", "S": "server"}
CHANNEL_CLASS: Final = CLASS_IDS["channel"]
CHANNEL_MAX: Final = (1 << 16) - 1
CLOSE_IDS: Final = IDS.pack(*ConnectionClose.ids)
NO_READERS: Final[dict[bytes, FastReader]] = {}
CLOSES: Final = frozenset({CLOSE_IDS})
# State | methods that are processed in it; the other frames are ignored
CONNECTION_ENDS: Final = {
    ConnectionState.FAILED: CLOSES,
    ConnectionState.CLOSE_REQUESTED: CLOSES,
    ConnectionState.CLOSING: CLOSES | {IDS.pack(*ConnectionCloseOk.ids)},
}
CHANNEL_ENDS: Final = {
    ChannelState.FAILED: frozenset({IDS.pack(*ChannelClose.ids)}),
    ChannelState.CLOSE_REQUESTED: frozenset[bytes](),
    ChannelState.CLOSING: frozenset(IDS.pack(*method.ids) for method in (ChannelClose, ChannelCloseOk)),
    ChannelState.CROSSED: frozenset(IDS.pack(*method.ids) for method in (ChannelOpen, ChannelClose, ChannelCloseOk)),
}


class AmqpConnection(Lifecycle):
    """The code that both roles share."""

    peer: ClassVar[str]  # the role of the other side, as in ROLE_NAMES
    grid: ClassVar[Grid[ConnectionState]]
    channel_grid: ClassVar[Grid[ChannelState]]
    fast_readers: ClassVar[dict[bytes, FastReader]]

    def __init__(self, limits: ConnectionLimits) -> None:
        super().__init__(limits)
        self._reader = FrameReader(limits.initial_frame_max)
        self._one_piece_max = limits.one_piece_max

    # Input

    def receive(self, data: bytes | bytearray | memoryview, now: float) -> list[ConnectionEvent]:
        """Process received bytes and return the events."""
        if not self._started:
            raise LocalMisuse("start() comes first")
        if type(data) is not bytes:
            data = bytes(data)  # slices of it are kept
        self._now = self._heart.received_at = now
        if self._state is not ConnectionState.CLOSED and not self._is_unreadable:
            self._read(data)
        return self._take_events()

    def _read(self, data: bytes) -> None:
        reader, channels, events = self._reader, self._channels, self._events
        fast_readers = self.fast_readers if self._state is ConnectionState.OPEN else NO_READERS
        body_max, depth = self._one_piece_max, self.limits.table_depth
        for kind, number, start, stop in reader.frames(data):
            if kind == FRAME_METHOD:
                fast_reader = fast_readers.get(reader.buffer[start : start + 4])
                if (
                    fast_reader is not None
                    and (channel := channels.get(number)) is not None
                    and channel.state is ChannelState.OPEN
                    and channel.arriving is None
                    and (event := fast_reader(reader, start, stop, number, body_max, depth)) is not None
                ):
                    events.append(event)
                    continue
            self._process_frame(kind, number, start, stop)
            if self._state is ConnectionState.CLOSED or self._is_unreadable:
                return
            if self._state is not ConnectionState.OPEN:
                fast_readers = NO_READERS

    def _process_frame(self, kind: int, number: int, start: int, stop: int) -> None:
        """Process one frame on the general path; its errors become events."""
        try:
            if self._state is ConnectionState.CLOSE_RECEIVED:
                self._answer_repeated_close(kind, number, start)
            elif kind == FRAME_METHOD:
                self._process_method(number, self._reader.buffer[start:stop])
            elif kind in {FRAME_HEADER, FRAME_BODY}:
                self._process_content(kind, number, start, stop)
            elif kind == FRAME_HEARTBEAT:
                if number or stop > start:
                    raise FrameError("a heartbeat must be empty and on channel 0")
            # For the following kinds, ``start`` is not a position (``FrameReader.frames``).
            elif kind == OVERSIZE:
                self._refuse_oversize(start)
            else:
                # Send nothing more to a peer whose frames cannot be separated (4.2.3).
                self._out, self._out_size = [], 0
                self._terminate(self._framing_error(kind, start))
        except ChannelException as error:
            self._fail_channel(self._channels[number], error)
        except AmqpError as error:
            self._fail(error)

    def _answer_repeated_close(self, kind: int, number: int, start: int) -> None:
        """Answer a repeated connection.close: several threads of the peer may close at the same time."""
        if kind == FRAME_METHOD and not number and self._reader.buffer[start : start + IDS.size] == CLOSE_IDS:
            self._put_method(self._channel_zero, ConnectionCloseOk())

    def _refuse_oversize(self, payload_bytes: int) -> None:
        """End with the reason: close-ok may never arrive after the oversized frame."""
        if self._state is ConnectionState.CLOSING:
            self._terminate(self._reason)
            return
        self._is_unreadable = True
        if self._state in CONNECTION_ENDS:
            return
        error = FrameError(f"a frame with a payload of {payload_bytes} bytes exceeds the frame-max of {self.frame_max}")
        if self.role == "S" and self._state is ConnectionState.OPEN:
            self._fail(error)
            return
        if self._state not in BEFORE_START:
            self._put_method(self._channel_zero, ConnectionClose(error.reply_code, error.reply_text))
        self._terminate(error)

    def _framing_error(self, kind: int, octet: int) -> AmqpError:
        names = {UNKNOWN_TYPE: f"a frame of the unknown type {octet}", BAD_END: "a frame without its end byte"}
        return FrameError(names[kind])

    def _process_method(self, number: int, payload: bytes) -> None:
        if self._is_ignored(number, payload[: IDS.size]):
            return
        method = decode_method(payload, self.limits.table_depth)
        row = method.row
        ids = row.class_id, row.method_id
        if self.peer not in row.senders:
            raise CommandInvalid(f"{row.name} may not be sent by a {ROLE_NAMES[self.peer]}", *ids)
        if row.class_id != CONNECTION:
            self._process_channel_method(number, method)
        elif number:
            raise CommandInvalid(f"{row.name} arrived on channel {number}", *ids)
        else:
            cell = self.grid[self._state][row.name.partition(".")[2]]
            self._check(cell, row.name, self._state, ids)
            self._state = cell.state or self._state
            getattr(self, f"_on_{cell.action}")(method)  # _is_ignored has filtered out the cells that name no action

    def _is_ignored(self, number: int, ids: bytes) -> bool:
        """Return whether a frame is ignored (2.3.7): after this side's close, only close and close-ok are processed;
        before it, after the peer's close or error, only close.
        """
        if self._state in CONNECTION_ENDS:
            return number != 0 or ids not in CONNECTION_ENDS[self._state]
        channel = self._channels.get(number)
        return channel is not None and channel.state in CHANNEL_ENDS and ids not in CHANNEL_ENDS[channel.state]

    def _check(self, cell: Cell[Any], subject: str, state: Enum, ids: tuple[int, int] = (0, 0)) -> None:
        if cell.error is not None:
            raise cell.error(f"{subject} is not allowed in state: {state.value}", *ids)

    def _process_channel_method(self, number: int, method: Method) -> None:
        row = method.row
        ids = row.class_id, row.method_id
        channel = self._channel_of(number, row.name, ids)
        channel.check_idle()
        column = row.name.partition(".")[2] if row.class_id == CHANNEL_CLASS else "other"
        row_of_state = self.channel_grid[channel.state]
        cell = row_of_state.get(column) or row_of_state["other"]
        self._check(cell, row.name, channel.state, ids)
        if cell.state is ChannelState.NONE:
            del self._channels[number]
        channel.state = cell.state or channel.state
        getattr(self, f"_on_channel_{cell.action}")(channel, method)

    def _channel_of(self, number: int, subject: str, ids: tuple[int, int] = (0, 0)) -> Channel:
        """Return the channel of a frame, in any state; check that the connection is ready for frames of channels."""
        self._check(self.grid[self._state]["channel"], subject, self._state, ids)
        if not number:
            raise ChannelError(f"{subject} arrived on channel 0", *ids)
        return self._channels.get(number) or Channel(number, ChannelState.NONE, self._budget)

    def _process_content(self, kind: int, number: int, start: int, stop: int) -> None:
        if self._is_ignored(number, b""):
            return
        channel = self._channel_of(number, "a content frame")
        self._check(self.channel_grid[channel.state]["other"], "a content frame", channel.state)
        buffer = self._reader.buffer
        if kind == FRAME_HEADER:
            if stop - start > self._reader.header_max:
                raise FrameError(f"a content header of {stop - start} bytes cannot be forwarded in one frame")
            self._events += channel.add_header(buffer[start:stop], self.limits)
        else:
            self._events += channel.add_body(buffer, start, stop)

    # Negotiation, both roles

    def _agree(self, agreement: NegotiatedLimits) -> None:
        self.frame_max, self.channel_max, heartbeat = agreement
        self._limit_payload(self.frame_max)
        # In received frames, the payload alone may have frame-max bytes, as in RabbitMQ: existing clients send payloads
        # of that size.
        self._reader.payload_max, self._reader.header_max = self.frame_max or UNLIMITED, self._payload_max
        self._heart.begin(heartbeat, self._now)
        self._events.append(Tuned(*agreement))

    def _record_properties(self, properties: Table) -> None:
        self.peer_properties = properties
        self.peer_capabilities = capabilities_of(properties)

    # Actions of the channel grid

    def _on_channel_opened(self, channel: Channel, method: Method) -> None:
        self._channels.pop(channel.number, None)  # one whose close has crossed ours
        # Count the open channels, whatever their numbers, as RabbitMQ does: existing clients count upwards and never
        # reuse a number.
        opened, opened_max = len(self._channels), self.channel_max or CHANNEL_MAX
        if opened >= opened_max:
            raise NotAllowed(
                f"number of channels opened ({opened}) has reached the negotiated channel_max ({opened_max})"
            )
        self._channels[channel.number] = channel = Channel(channel.number, ChannelState.OPEN, self._budget)
        self._put_method(channel, ChannelOpenOk())
        self._events.append(ChannelOpened(channel.number))

    def _on_channel_confirmed(self, channel: Channel, _method: ChannelOpenOk) -> None:
        self._events.append(ChannelOpened(channel.number))

    def _on_channel_flow(self, channel: Channel, method: ChannelFlow) -> None:
        channel.flowing = method.active
        self._put_method(channel, ChannelFlowOk(method.active))
        self._events.append(FlowChanged(channel.number, method.active))

    def _on_channel_closed(self, channel: Channel, method: ChannelClose) -> None:
        """Close the channel. The peer ignores everything except close-ok, so the rest of a body is not sent."""
        self._put_now([self._method_frame(channel.number, ChannelCloseOk())])
        self._events.append(ChannelClosed(channel.number, True, reason(method, ChannelException)))

    def _on_channel_crossed(self, channel: Channel, _method: ChannelClose) -> None:
        self._put_now([self._method_frame(channel.number, ChannelCloseOk())])
        if channel.held_output:  # our close was queued after the rest of a body, and will never be sent
            del self._channels[channel.number]
            self._events.append(ChannelReleased(channel.number))

    def _on_channel_released(self, channel: Channel, _method: ChannelCloseOk) -> None:
        self._events.append(ChannelReleased(channel.number))

    def _on_channel_other(self, channel: Channel, method: Method) -> None:
        channel.match_reply(method)
        if isinstance(method, ContentMethod):
            channel.begin(method)
        else:
            self._events.append(event_of(channel.number, method))

    # Actions of the connection grids that both roles share

    def _on_closed(self, method: ConnectionClose) -> None:
        self._put_method(self._channel_zero, ConnectionCloseOk())
        self._terminate(reason(method, ConnectionException), by_peer=True)

    def _on_crossed(self, _method: ConnectionClose) -> None:
        self._put_method(self._channel_zero, ConnectionCloseOk())

    def _on_ended(self, _method: ConnectionCloseOk) -> None:
        self._terminate(self._reason)

    def _on_reply(self, method: Method) -> None:
        self._channel_zero.match_reply(method)
        self._events.append(MethodReceived(0, method))


def reason(method: ConnectionClose | ChannelClose, level: type[AmqpError]) -> AmqpError | None:
    """Return the error of a received close; None for an orderly one."""
    if method.reply_code == REPLY_SUCCESS:
        return None
    return by_code(
        method.reply_code, method.reply_text, method.class_id, method.method_id, blame=Blame.LOCAL, level=level
    )
