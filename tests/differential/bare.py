"""A step of a script that sends bytes on a socket of its own, because a client's state machine would refuse to.

The step logs in, opens channel 1 in confirm mode, sends its bytes, and records each received method. The texts of
closes are left out, because they may differ between brokers.
"""

import socket
from typing import NamedTuple

from semq.amqp import methods as m
from semq.amqp.codec import decode_method, encode_method
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.frames import FRAME_HEAD, FrameReader, frame
from semq.amqp.spec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, PROTOCOL_HEADER

QUIET_S = 0.4  # without bytes for this time, all answers have arrived
PATIENCE_S = 10.0  # longest wait for an answer of the login
TUNE = m.ConnectionTuneOk(2047, 131_072, 0)


def framed(method: m.Method, channel: int = 1) -> bytes:
    return frame(FRAME_METHOD, channel, encode_method(method))


def message(size: int, *parts: int) -> bytes:
    """Return a publish to d.q that declares ``size`` bytes; ``parts`` are the sizes of its body frames."""
    header = frame(FRAME_HEADER, 1, ContentHeader.build(size, Properties()).raw)
    return framed(m.BasicPublish("", "d.q")) + header + b"".join(frame(FRAME_BODY, 1, bytes(part)) for part in parts)


def head(size: int) -> bytes:
    """Return the head of a body frame."""
    return FRAME_HEAD.pack(FRAME_BODY, 1, size)


class RawBytes(NamedTuple):
    """Log in, answer tune with ``channel_max`` and ``frame_max``, then send ``data``."""

    description: str
    data: bytes
    channel_max: int = 2047
    frame_max: int = 131_072

    def __repr__(self) -> str:
        return f"bytes: {self.description}"

    def perform(self, port: int) -> list[str]:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            reader = FrameReader(1 << 20)
            log_in(connection, reader, m.ConnectionTuneOk(self.channel_max, self.frame_max, 0))
            _ask(connection, reader, framed(m.ConfirmSelect()), "confirm.select-ok")
            connection.sendall(self.data)
            connection.settimeout(QUIET_S)
            received: list[str] = []
            while lines := read_lines(connection, reader):
                received += lines
            return sorted(received, key=lambda line: int(line.partition(" ")[0]))  # channels answer in any order


def log_in(connection: socket.socket, reader: FrameReader, tune: m.ConnectionTuneOk = TUNE) -> None:
    """Log in as guest, and open channel 1."""
    login = m.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest")
    for data, answer in (
        (PROTOCOL_HEADER, "connection.start"),
        (framed(login, 0), "connection.tune"),
        (framed(tune, 0) + framed(m.ConnectionOpen("/"), 0), "connection.open-ok"),
        (framed(m.ChannelOpen()), "channel.open-ok"),
    ):
        _ask(connection, reader, data, answer)


def _ask(connection: socket.socket, reader: FrameReader, data: bytes, answer: str) -> None:
    connection.settimeout(PATIENCE_S)
    connection.sendall(data)
    while not any(answer in line for line in read_lines(connection, reader)):
        pass


def read_lines(connection: socket.socket, reader: FrameReader) -> list[str]:
    """Return one line for each method of one read; none if no bytes arrive in time, or at the end of the connection."""
    try:
        data = connection.recv(1 << 20)
    except (TimeoutError, ConnectionError):
        return []
    frames = list(reader.frames(data))
    return [
        _line(number, decode_method(reader.buffer[start:stop])) for kind, number, start, stop in frames if kind == 1
    ]


def _line(number: int, method: m.Method) -> str:
    if isinstance(method, m.ConnectionClose | m.ChannelClose):
        return f"{number} {method.row.name} {method.reply_code} {method.class_id}.{method.method_id}"
    if isinstance(method, m.BasicAck):
        return f"{number} {method.row.name} {method.delivery_tag}"
    return f"{number} {method.row.name}"
