"""A proxy on the links between real nodes. It drops packets with the records that a test selects; the link stays up.

Only inquiries repair the loss of a packet, because packets are neither confirmed nor acknowledged by AMQP.
"""

import asyncio
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from semq.umx_t.envelope import Primitive
from semq.umx_t.headers import read_type
from semq.umx_t.records import AckFlag, decode_records

PREAMBLE = 8  # bytes that a client sends before its first frame
METHOD, HEADER, BODY = 1, 2, 3
CONTENT = {struct.pack(">HH", 60, 40), struct.pack(">HH", 60, 60)}  # basic.publish, basic.deliver
TYPE = re.compile(rb"1\.8\d\d\.[a-z]+")  # the property ``type`` of a packet of records
# Whether a packet with this primitive and record is dropped.
LossCondition = Callable[[Primitive, Any], bool]
# The four acknowledgements of PROTOCOL.md section 4.
ACKNOWLEDGEMENTS: dict[str, tuple[Primitive, AckFlag]] = {
    "Ack": (Primitive.INDICATION, AckFlag.TRANSPORT),
    "Ack2": (Primitive.INDICATION, AckFlag.END_TO_END),
    "ReAck": (Primitive.RESPONSE, AckFlag.TRANSPORT),
    "ReAck2": (Primitive.RESPONSE, AckFlag.END_TO_END),
}


def losing(kind: str) -> LossCondition:
    """Return the condition for acknowledgements of one kind."""
    primitive, flag = ACKNOWLEDGEMENTS[kind]
    return lambda packet_primitive, record: packet_primitive is primitive and getattr(record, "ack_flag", None) is flag


@dataclass
class GatheredFrames:
    """The frames of one content (a document or a packet)."""

    frames: list[bytes]
    header: bytes = b""
    body: bytearray = field(default_factory=bytearray)
    size: int = 0  #: bytes of the complete body


class LosingProxy:
    """A listening port in front of the hub, for any number of links."""

    def __init__(self, hub_port: int) -> None:
        self._hub_port = hub_port
        self._writers: list[asyncio.StreamWriter] = []
        self.loses: LossCondition = lambda primitive, record: False
        self.lost = 0  #: lost packets

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._hub_port)
        self._writers += [writer, far_writer]
        far_writer.write(await reader.readexactly(PREAMBLE))
        await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        contents: dict[int, GatheredFrames] = {}
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await reader.readexactly(7)
                kind, channel, size = struct.unpack(">BHI", head)
                payload = await reader.readexactly(size + 1)
                for frame in self._to_pass_on(contents, kind, channel, head + payload):
                    writer.write(frame)
                await writer.drain()
        writer.close()

    def _to_pass_on(self, contents: dict[int, GatheredFrames], kind: int, channel: int, frame: bytes) -> list[bytes]:
        """Return the frames to pass on now: this frame, the content that it completes, or none."""
        payload = frame[7:-1]
        if kind == METHOD and payload[:4] in CONTENT:
            contents[channel] = GatheredFrames([frame])
            return []
        content = contents.get(channel)
        if content is None or kind not in (HEADER, BODY):
            return [frame]
        content.frames.append(frame)
        if kind == HEADER:
            content.header, content.size = payload, struct.unpack_from(">Q", payload, 4)[0]
        else:
            content.body += payload
        if len(content.body) < content.size:
            return []
        del contents[channel]
        if self._is_lost(content):
            self.lost += 1
            return []
        return content.frames

    def _is_lost(self, content: GatheredFrames) -> bool:
        packet_type = TYPE.search(content.header)
        if packet_type is None:
            return False
        function, primitive = read_type(packet_type.group().decode())
        return any(self.loses(primitive, record) for record in decode_records(function, primitive, bytes(content.body)))
