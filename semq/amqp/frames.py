"""Frames: splitting received bytes into frames, and building frames. Source: AMQP 0-9-1, 4.2.3."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from semq.amqp.spec import FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD

FRAME_HEAD: Final = Struct(">BHI")  # type, channel, size of the payload
HEAD_SIZE: Final = FRAME_HEAD.size
END: Final = bytes([FRAME_END])
HEARTBEAT_FRAME: Final = FRAME_HEAD.pack(FRAME_HEARTBEAT, 0, 0) + END

# Values that FrameReader yields in place of a frame type
UNKNOWN_TYPE: Final = -1
BAD_END: Final = -2
OVERSIZE: Final = -3

SMALL: Final = 4096  # pieces with fewer bytes are copied into one buffer
_TYPES: Final = frozenset({FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT})
_head = FRAME_HEAD.unpack_from


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Return one complete frame."""
    return b"".join((FRAME_HEAD.pack(kind, channel, len(payload)), payload, END))


class Pieces:
    """Bytes that arrive in pieces and are joined once.

    A piece is copied if it is small, or if it would keep a received buffer of more than four times its size alive. So
    the memory that a peer can occupy stays in proportion to the bytes it sent.
    """

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        self._parts: list[bytearray | memoryview] = []
        self.size = 0

    def add(self, buffer: bytes, start: int, stop: int) -> None:
        size = stop - start
        self.size += size
        piece = memoryview(buffer)[start:stop]
        if size >= SMALL and size * 4 >= len(buffer):
            self._parts.append(piece)
        elif self._parts and isinstance(self._parts[-1], bytearray):
            self._parts[-1] += piece
        else:
            self._parts.append(bytearray(piece))

    def join(self) -> bytes:
        return b"".join(self._parts)


class FrameReader:
    """A reader that splits bytes into frames. ``payload_max`` may change between two frames.

    ``header_max`` is the largest accepted content header, in bytes. A header is never split into frames, so a larger
    one could not be forwarded.
    """

    __slots__ = ("_frame", "_head", "_missing", "_pieces", "at", "buffer", "header_max", "payload_max")

    def __init__(self, payload_max: int) -> None:
        self.payload_max = self.header_max = payload_max
        self.buffer = b""
        self.at = 0
        self._head = b""  # an incomplete frame head
        self._frame: tuple[int, int] | None = None  # type and channel of an incomplete frame
        self._pieces = Pieces()  # the part of its payload that has arrived
        self._missing = 0  # bytes of its payload that have not arrived

    def frames(self, data: bytes) -> Iterator[tuple[int, int, int, int]]:
        """Yield type, channel, start and stop of the payload in ``buffer``, for each complete frame.

        In place of the type there may be ``UNKNOWN_TYPE`` (the start is then the unknown type), ``BAD_END`` or
        ``OVERSIZE`` (the start is then the length). After one of these the caller must stop. Otherwise exhaust the
        iterator: its last step keeps an incomplete frame for the next call. A caller that reads beyond the yielded
        frame moves ``at``.
        """
        if self._head:
            data = self._head + data  # a frame head was split between two reads
        self.buffer, self.at = data, 0
        if self._frame is not None and (event := self._gather(data, *self._frame)):
            yield event
            self.buffer = data
        size = len(data)
        while size - self.at >= HEAD_SIZE:
            start = self.at + HEAD_SIZE
            kind, channel, length = _head(data, self.at)
            stop = start + length
            if kind not in _TYPES:
                yield UNKNOWN_TYPE, channel, kind, 0
                return
            if length > self.payload_max:
                yield OVERSIZE, channel, length, 0
                return
            if stop >= size:
                self.at, self._frame, self._missing = start, (kind, channel), length
                self._gather(data, kind, channel)
            elif data[stop] != FRAME_END:
                yield BAD_END, channel, 0, 0
                return
            else:
                self.at = stop + 1
                yield kind, channel, start, stop
        self._head = data[self.at :]

    def _gather(self, data: bytes, kind: int, channel: int) -> tuple[int, int, int, int] | None:
        """Add the available bytes of the incomplete frame; return the frame when its end byte has arrived."""
        stop = min(self.at + self._missing, len(data))
        self._pieces.add(data, self.at, stop)
        self._missing -= stop - self.at
        self.at = stop
        if stop == len(data):
            return None
        self.at, self._frame = stop + 1, None
        self.buffer, self._pieces = self._pieces.join(), Pieces()
        if data[stop] != FRAME_END:
            return BAD_END, channel, 0, 0
        return kind, channel, 0, len(self.buffer)
