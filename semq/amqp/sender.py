"""The sending half of a connection: queued output, and the commands that put methods and contents into it.

``Connection`` builds on it. Commands raise ``LocalMisuse``, with nothing sent, for what the protocol forbids now.
Bodies are copied once if they are small, else not at all; a body beyond one frame is cut without copying. Source:
seed AMQP 0-9-1, 4.2.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from semq.amqp import hot
from semq.amqp.channel import Budget, Channel, ContentMethod
from semq.amqp.codec import encode_method
from semq.amqp.content import ContentHeader
from semq.amqp.errors import LocalMisuse
from semq.amqp.frames import END, FRAME_HEAD, frame
from semq.amqp.methods import ConnectionUpdateSecret, Method
from semq.amqp.spec import CLASS_IDS, FRAME_BODY, FRAME_HEADER, FRAME_METHOD, FRAME_OVERHEAD
from semq.amqp.states import ChannelState, ConnectionState

JOINED_MAX: Final = 16_384  # bodies up to here are copied into one piece with their frames
UNLIMITED: Final = (1 << 32) - 1  # payload of a frame if there is no frame-max
LIFECYCLE: Final = frozenset({CLASS_IDS["connection"], CLASS_IDS["channel"]})
SENDABLE: Final = frozenset({"channel.flow"})  # of the classes above, on a channel

Octets = bytes | memoryview


class Sender:
    """What may be sent, and the output that waits to be taken."""

    role: ClassVar[str]  # "C" or "S", as in the table of the specification

    def __init__(self, initial_frame_max: int) -> None:
        self._state = ConnectionState.NEW
        self._channels: dict[int, Channel] = {}
        self._budget = Budget()
        self._zero = Channel(0, ChannelState.OPEN, self._budget)  # the connection itself
        self._out: list[Octets] = []
        self._out_size = 0
        self._body_max = initial_frame_max - FRAME_OVERHEAD  # octets of a payload we may send
        self._joined_max = min(self._body_max, JOINED_MAX)

    # Output

    @property
    def output_size(self) -> int:
        """Octets that wait for ``take_output``."""
        return self._out_size

    @property
    def body_frame_max(self) -> int:
        """Octets of body that fit one frame."""
        return self._body_max

    def _limit_payload(self, frame_max: int) -> None:
        """The frame-max is agreed, 0 meaning none: what is sent keeps it with the overhead of the frame."""
        self._body_max = frame_max - FRAME_OVERHEAD if frame_max else UNLIMITED
        self._joined_max = min(self._body_max, JOINED_MAX)

    def _put(self, channel: Channel, octets: Octets) -> None:
        """Queue output of a channel, behind the body that it is streaming if there is one."""
        if channel.streaming:
            channel.held.append(octets)
        else:
            self._out.append(octets)
            self._out_size += len(octets)

    def _put_now(self, pieces: Sequence[Octets]) -> None:
        """Queue output in front of whatever a channel holds back."""
        self._out += pieces
        self._out_size += sum(map(len, pieces))

    def _put_method(self, channel: Channel, method: Method) -> None:
        self._put(channel, self._method_frame(channel.number, method))

    def _method_frame(self, number: int, method: Method) -> bytes:
        payload = encode_method(method)
        if len(payload) > self._body_max:
            raise LocalMisuse(f"{method.row.name} needs {len(payload)} octets, a frame holds {self._body_max}")
        return frame(FRAME_METHOD, number, payload)

    # Which channel

    def _open_channel(self, number: int) -> Channel:
        channel = self._channels.get(number)
        if channel is None or channel.state is not ChannelState.OPEN:
            raise LocalMisuse(f"channel {number} is not open")
        return channel

    def may_send_content(self, channel: int) -> bool:
        """False while the peer has stopped content by channel.flow, or while another body is being sent in chunks."""
        state = self._open_channel(channel)
        return state.flowing and not state.streaming

    # Methods

    def send(self, channel: int, method: Method) -> None:
        """Send a method without content; what opens and closes has commands of its own."""
        row = method.row
        if self.role not in row.senders:
            raise LocalMisuse(f"{row.name} is not sent by this side")
        if isinstance(method, ConnectionUpdateSecret):
            target = self._open_connection(channel)
        elif row.content or (row.class_id in LIFECYCLE and row.name not in SENDABLE):
            raise LocalMisuse(f"{row.name} is not sent by send()")
        else:
            target = self._open_channel(channel)
        octets = self._method_frame(channel, method)
        target.request(method)
        self._put(target, octets)

    def _open_connection(self, number: int) -> Channel:
        if number or self._state is not ConnectionState.OPEN:
            raise LocalMisuse("this method is for channel 0 of an open connection")
        return self._zero

    def ack(self, channel: int, delivery_tag: int, multiple: bool = False) -> None:
        """basic.ack: of deliveries (client), of publishes (server)."""
        self._put(self._open_channel(channel), hot.ack_frame(channel, delivery_tag, multiple))

    def nack(self, channel: int, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None:
        """basic.nack: of deliveries (client), of publishes (server, where ``requeue`` has no meaning)."""
        self._put(self._open_channel(channel), hot.nack_frame(channel, delivery_tag, multiple, requeue))

    # Contents

    def send_content(self, channel: int, method: ContentMethod, header: ContentHeader, body: Octets) -> None:
        """Send a method with its content, whole."""
        target = self._open_channel(channel)
        front = self._content_front(target, method, header)
        if len(body) != header.body_size:
            raise LocalMisuse(f"the header says {header.body_size} octets, the body has {len(body)}")
        for octets in (front, *self._body_frames(channel, body)):
            self._put(target, octets)

    def start_content(self, channel: int, method: ContentMethod, header: ContentHeader) -> None:
        """Send a method with its content header; ``header.body_size`` octets must follow by ``send_chunk``."""
        target = self._open_channel(channel)
        if target.streaming:
            raise LocalMisuse(
                f"channel {channel} is still sending a body of which {target.streaming} octets are missing"
            )
        self._put(target, self._content_front(target, method, header))
        target.streaming = header.body_size

    def send_chunk(self, channel: int, data: Octets) -> None:
        """Send the next octets of a body; after the last one what waited for it follows."""
        target = self._channels.get(channel)
        if target is None or len(data) > target.streaming:
            raise LocalMisuse(f"channel {channel} is not sending a body that has {len(data)} more octets")
        self._put_now(self._body_frames(channel, data))
        target.streaming -= len(data)
        if not target.streaming:
            held, target.held = target.held, []
            self._put_now(held)

    def _content_front(self, channel: Channel, method: Method, header: ContentHeader) -> bytes:
        if self.role not in method.row.senders or not method.row.content:
            raise LocalMisuse(f"{method.row.name} is not sent by this side with a content")
        if len(header.raw) > self._body_max:
            raise LocalMisuse(f"the content header needs {len(header.raw)} octets, a frame holds {self._body_max}")
        return self._method_frame(channel.number, method) + frame(FRAME_HEADER, channel.number, header.raw)

    def _body_frames(self, number: int, body: Octets) -> Sequence[Octets]:
        """The frames of a body: in one piece if it is small, else with the body as it is between heads and ends."""
        size, most = len(body), self._body_max
        if size <= self._joined_max:
            return (b"".join((FRAME_HEAD.pack(FRAME_BODY, number, size), body, END)),) if size else ()
        pieces: list[Octets] = []
        view = memoryview(body)
        for start in range(0, size, most):
            part = view[start : start + most]
            pieces += (FRAME_HEAD.pack(FRAME_BODY, number, len(part)), part, END)
        return pieces
