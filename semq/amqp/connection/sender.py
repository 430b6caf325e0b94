"""The sending half of a connection: queued output, and the commands that put methods and contents into it.

A command that is forbidden in the present state raises ``LocalMisuse`` and sends nothing. Source: AMQP 0-9-1, 4.2.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from semq.amqp import fast_path
from semq.amqp.codec import encode_method
from semq.amqp.connection.channel import Budget, Channel, ContentMethod
from semq.amqp.connection.states import ANSWERING, ChannelState, ConnectionState
from semq.amqp.content import ContentHeader
from semq.amqp.errors import LocalMisuse
from semq.amqp.frames import END, FRAME_HEAD, frame
from semq.amqp.methods import ConnectionUpdateSecret, Method
from semq.amqp.spec import CLASS_IDS, FRAME_BODY, FRAME_HEADER, FRAME_METHOD, FRAME_OVERHEAD

JOINED_MAX: Final = 16_384  # largest body that is copied into one piece with the frame; larger ones are not copied
UNLIMITED: Final = (1 << 32) - 1  # largest payload of a frame if there is no frame-max
# Classes whose methods ``send`` refuses, except SENDABLE_METHODS and connection.update-secret.
LIFECYCLE_CLASSES: Final = frozenset({CLASS_IDS["connection"], CLASS_IDS["channel"]})
SENDABLE_METHODS: Final = frozenset({"channel.flow", "channel.flow-ok"})

Octets = bytes | memoryview


class CommandSender:
    """The commands for sending, and the output that waits for ``take_output``."""

    role: ClassVar[str]  # "C" or "S", as in ``spec``

    def __init__(self, initial_frame_max: int) -> None:
        self._state = ConnectionState.NEW
        self._channels: dict[int, Channel] = {}
        self._budget = Budget()
        self._channel_zero = Channel(0, ChannelState.OPEN, self._budget)  # represents the connection itself
        self._out: list[Octets] = []
        self._out_size = 0
        self._payload_max = initial_frame_max - FRAME_OVERHEAD
        self._joined_max = min(self._payload_max, JOINED_MAX)

    # Output

    @property
    def output_size(self) -> int:
        return self._out_size

    @property
    def payload_max(self) -> int:
        """The largest payload of a sent frame, in bytes."""
        return self._payload_max

    def _limit_payload(self, frame_max: int) -> None:
        """Apply the negotiated frame-max; 0: no limit."""
        self._payload_max = frame_max - FRAME_OVERHEAD if frame_max else UNLIMITED
        self._joined_max = min(self._payload_max, JOINED_MAX)

    def _put(self, channel: Channel, octets: Octets) -> None:
        """Queue output of a channel, behind a body that is being sent in chunks."""
        if channel.body_size_due:
            channel.held_output.append(octets)
        else:
            self._out.append(octets)
            self._out_size += len(octets)

    def _put_now(self, pieces: Sequence[Octets]) -> None:
        self._out += pieces
        self._out_size += sum(map(len, pieces))

    def _put_method(self, channel: Channel, method: Method) -> None:
        self._put(channel, self._method_frame(channel.number, method))

    def _method_frame(self, number: int, method: Method) -> bytes:
        payload = encode_method(method)
        if len(payload) > self._payload_max:
            raise LocalMisuse(f"{method.row.name} needs {len(payload)} bytes, a frame holds {self._payload_max}")
        return frame(FRAME_METHOD, number, payload)

    # Channels

    def _require_channel(self, number: int) -> Channel:
        channel = self._channels.get(number)
        if channel is None or channel.state not in ANSWERING:
            raise LocalMisuse(f"channel {number} is not open")
        return channel

    def may_send_content(self, channel: int) -> bool:
        """Return False while the peer has stopped contents by channel.flow, or while a body is sent in chunks.

        Raises ``LocalMisuse`` if the channel is not open.
        """
        target = self._require_channel(channel)
        return target.flowing and not target.body_size_due

    # Methods

    def send(self, channel: int, method: Method) -> None:
        """Send a method without content. Refuse methods that open, close or negotiate."""
        row = method.row
        if self.role not in row.senders:
            raise LocalMisuse(f"{row.name} cannot be sent by this side")
        if isinstance(method, ConnectionUpdateSecret):
            target = self._require_connection(channel)
        elif row.content or (row.class_id in LIFECYCLE_CLASSES and row.name not in SENDABLE_METHODS):
            raise LocalMisuse(f"{row.name} cannot be sent by send()")
        else:
            target = self._require_channel(channel)
        octets = self._method_frame(channel, method)
        target.await_reply(method)
        self._put(target, octets)

    def _require_connection(self, number: int) -> Channel:
        if number or self._state is not ConnectionState.OPEN:
            raise LocalMisuse("this method is for channel 0 of an open connection")
        return self._channel_zero

    def ack(self, channel: int, delivery_tag: int, multiple: bool = False) -> None:
        """Send basic.ack: a client acknowledges deliveries, a server confirms publishes."""
        self._put(self._require_channel(channel), fast_path.ack_frame(channel, delivery_tag, multiple))

    def nack(self, channel: int, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None:
        """Send basic.nack: a client rejects deliveries; a server refuses publishes, and ``requeue`` has no effect."""
        self._put(self._require_channel(channel), fast_path.nack_frame(channel, delivery_tag, multiple, requeue))

    # Contents

    def send_content(self, channel: int, method: ContentMethod, header: ContentHeader, body: Octets) -> None:
        target = self._require_channel(channel)
        front = self._content_front(target, method, header)
        if len(body) != header.body_size:
            raise LocalMisuse(f"the header declares {header.body_size} bytes, the body has {len(body)}")
        for octets in (front, *self._body_frames(channel, body)):
            self._put(target, octets)

    def start_content(self, channel: int, method: ContentMethod, header: ContentHeader) -> None:
        """Send a method with its content header; ``header.body_size`` bytes must follow by ``send_chunk``."""
        target = self._require_channel(channel)
        if target.body_size_due:
            raise LocalMisuse(
                f"channel {channel} is still sending a body of which {target.body_size_due} bytes are missing"
            )
        self._put(target, self._content_front(target, method, header))
        target.body_size_due = header.body_size

    def send_chunk(self, channel: int, data: Octets) -> None:
        """Send the next bytes of a body; the held output of the channel follows the last byte."""
        target = self._channels.get(channel)
        if target is None or len(data) > target.body_size_due:
            due = target.body_size_due if target is not None else 0
            raise LocalMisuse(f"channel {channel}: {len(data)} bytes were given, but {due} bytes of a body remain")
        self._put_now(self._body_frames(channel, data))
        target.body_size_due -= len(data)
        if not target.body_size_due:
            held_output, target.held_output = target.held_output, []
            self._put_now(held_output)

    def _content_front(self, channel: Channel, method: Method, header: ContentHeader) -> bytes:
        if self.role not in method.row.senders or not method.row.content:
            raise LocalMisuse(f"{method.row.name} cannot be sent by this side with a content")
        if len(header.raw) > self._payload_max:
            raise LocalMisuse(f"the content header needs {len(header.raw)} bytes, a frame holds {self._payload_max}")
        return self._method_frame(channel.number, method) + frame(FRAME_HEADER, channel.number, header.raw)

    def _body_frames(self, number: int, body: Octets) -> Sequence[Octets]:
        """Return the frames of a body: one piece if the body is small, otherwise slices without copying."""
        size, limit = len(body), self._payload_max
        if size <= self._joined_max:
            return (b"".join((FRAME_HEAD.pack(FRAME_BODY, number, size), body, END)),) if size else ()
        pieces: list[Octets] = []
        view = memoryview(body)
        for start in range(0, size, limit):
            part = view[start : start + limit]
            pieces += (FRAME_HEAD.pack(FRAME_BODY, number, len(part)), part, END)
        return pieces
