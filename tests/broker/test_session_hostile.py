"""Invalid input on an open channel: each reply has its code, class and method."""

import struct

import pytest

from semq.amqp import methods as m
from semq.amqp.events import ChannelClosed, ConnectionClosed, Tuned
from semq.amqp.frames import frame
from semq.amqp.spec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from tests.broker.served import RunningBroker

BASIC = 60
DEEP = 1000  # levels of nested tables
LONG = b"\xff" * 4  # a length or a number beyond all limits


def short(data: bytes) -> bytes:
    return bytes([len(data)]) + data


def long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def method(class_id: int, method_id: int, arguments: bytes = b"", channel: int = 1) -> bytes:
    return frame(FRAME_METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def header(size: int, flags: int = 0, rest: bytes = b"", *, class_id: int = BASIC, weight: int = 0) -> bytes:
    return frame(FRAME_HEADER, 1, struct.pack(">HHQH", class_id, weight, size, flags) + rest)


def body(data: bytes) -> bytes:
    return frame(FRAME_BODY, 1, data)


def publish(exchange: bytes = b"", key: bytes = b"nobody", bits: int = 0) -> bytes:
    return method(60, 40, b"\0\0" + short(exchange) + short(key) + bytes([bits]))


def declare(name: bytes, arguments: bytes = b"") -> bytes:
    """Return queue.declare with auto-delete and no-wait: the client's state machine, which does not send it, expects no
    reply.
    """
    return method(50, 10, b"\0\0" + short(name) + b"\x18" + long(arguments))


def exchange(name: bytes, kind: bytes = b"direct", bits: int = 0, arguments: bytes = b"") -> bytes:
    return method(40, 10, b"\0\0" + short(name) + short(kind) + bytes([bits]) + long(arguments))


def consume(queue: bytes, tag: bytes = b"", bits: int = 8) -> bytes:
    return method(60, 20, b"\0\0" + short(queue) + short(tag) + bytes([bits]) + long(b""))


def field(name: bytes, kind: bytes, value: bytes) -> bytes:
    return short(name) + kind + value


def tables(depth: int) -> bytes:
    nested = b""
    for _ in range(depth):
        nested = field(b"a", b"F", long(nested))
    return nested


def arrays(depth: int) -> bytes:
    nested = b""
    for _ in range(depth):
        nested = b"A" + long(nested)
    return field(b"a", b"A", long(nested))


# fault | bytes | code, class and method of the close of the connection
HARD: dict[str, tuple[bytes, tuple[int, int, int]]] = {
    "frame without a method": (frame(FRAME_METHOD, 1, b""), (501, 0, 0)),
    "half of a class": (frame(FRAME_METHOD, 1, b"\0"), (501, 0, 0)),
    "unknown method": (method(50, 99), (540, 50, 99)),
    "class 0": (method(0, 0), (540, 0, 0)),
    "declare cut off": (method(50, 10, b"\0\0"), (501, 50, 10)),
    "method that only servers send": (method(60, 60, short(b"t") + bytes(9) + short(b"") * 2), (503, 60, 60)),
    "close of the connection on a channel": (method(10, 50, b"\0\0" + short(b"") + bytes(4)), (503, 10, 50)),
    "channel 0": (method(50, 10, b"\0\0" + short(b"q") + b"\0" + long(b""), channel=0), (504, 50, 10)),
    "channel opened twice": (method(20, 10, short(b"")), (504, 20, 10)),
    "frame beyond frame-max": (struct.pack(">BHI", 3, 1, 1 << 20), (501, 0, 0)),
    "frame of 4 GiB": (struct.pack(">BHI", 1, 1, 2**32 - 1), (501, 0, 0)),
    "heartbeat with content": (frame(8, 0, b"x"), (501, 0, 0)),
    "body before header": (publish() + body(b"x"), (505, 0, 0)),
    "method where a header is due": (publish() + declare(b""), (505, 60, 40)),
    "method where a body is due": (publish() + header(5) + declare(b""), (505, 60, 40)),
    "publish where a header is due": (publish() + publish(), (505, 60, 40)),
    "body too long": (publish() + header(2) + body(b"xxx"), (505, 60, 40)),
    "header of another class": (publish() + header(0, class_id=50), (501, 60, 0)),
    "header with weight": (publish() + header(0, weight=7), (502, 60, 0)),
    "immediate": (publish(bits=2) + header(0), (540, 60, 40)),
    "name that is no UTF-8": (declare(b"\xff\xfe"), (502, 50, 10)),
    "name with a zero": (declare(b"a\0b"), (502, 50, 10)),
    "argument of an unknown type": (declare(b"", field(b"a", b"?", b"")), (502, 50, 10)),
    "argument cut off": (declare(b"", b"\x05ab"), (501, 50, 10)),
    "repeated argument": (declare(b"", field(b"a", b"t", b"\1") * 2), (502, 50, 10)),
    "arguments in arguments": (declare(b"", tables(DEEP)), (502, 50, 10)),
    "repeated consumer tag": (declare(b"") + consume(b"", b"t") * 2, (530, 60, 20)),
    "prefetch by size": (method(60, 10, struct.pack(">IHB", 100, 1, 0)), (540, 60, 10)),
    "reply without a request": (method(20, 21, b"\1"), (503, 20, 21)),
}


def _argument(name: bytes, kind: bytes, value: bytes) -> bytes:
    return declare(b"hostile", field(name, kind, value))


# fault | bytes | code, class and method of the close of the channel
SOFT: dict[str, tuple[bytes, tuple[int, int, int]]] = {
    "size beyond the limit": (publish() + header(1 << 62), (311, 60, 40)),
    "negative size": (publish() + header(2**64 - 1), (311, 60, 40)),
    "no such exchange": (publish(b"none") + header(0), (404, 60, 40)),
    "header named twice": (publish() + header(0, 0x2000, long(field(b"a", b"t", b"\1") * 2)), (406, 60, 40)),
    "announced property that is missing": (publish() + header(0, 0x8000), (406, 60, 40)),
    "bytes after the properties": (publish() + header(0, 0, b"xxxx"), (406, 60, 40)),
    "flags that never end": (publish() + header(0, 0xFFFF, b"\xff" * 100), (406, 60, 40)),
    "tables in tables in headers": (publish() + header(0, 0x2000, long(tables(DEEP))), (406, 60, 40)),
    "arrays in arrays in headers": (publish() + header(0, 0x2000, long(arrays(DEEP))), (406, 60, 40)),
    "table longer than its frame": (publish() + header(0, 0x2000, LONG + b"xx"), (406, 60, 40)),
    "property that is no UTF-8": (publish() + header(0, 0x8000, short(b"\xff\xfe")), (406, 60, 40)),
    "exchange type unknown": (exchange(b"x", b"nope"), (406, 40, 10)),
    "expiration in words": (publish() + header(0, 1 << 8, short(b"soon")), (406, 60, 40)),
    "user id of another user": (publish() + header(0, 1 << 4, short(b"root")), (406, 60, 40)),
    "delivery mode 9": (publish() + header(0, 1 << 12, b"\x09"), (406, 60, 40)),
    "reserved name of a queue": (declare(b"amq.q"), (403, 50, 10)),
    "reserved name of an exchange": (exchange(b"amq.x"), (403, 40, 10)),
    "default exchange declared": (exchange(b""), (403, 40, 10)),
    "default exchange deleted": (method(40, 20, b"\0\0" + short(b"") + b"\0"), (403, 40, 20)),
    "exchange of the system deleted": (method(40, 20, b"\0\0" + short(b"amq.direct") + b"\0"), (403, 40, 20)),
    "exchange of another type": (exchange(b"amq.direct", b"topic", 2), (406, 40, 10)),
    "time to live in words": (_argument(b"x-message-ttl", b"S", long(b"x")), (406, 50, 10)),
    "negative time to live": (_argument(b"x-message-ttl", b"I", LONG), (406, 50, 10)),
    "expires at once": (_argument(b"x-expires", b"I", bytes(4)), (406, 50, 10)),
    "too many priorities": (_argument(b"x-max-priority", b"I", struct.pack(">i", 300)), (406, 50, 10)),
    "overflow unknown": (_argument(b"x-overflow", b"S", long(b"x")), (406, 50, 10)),
    "dead-letter exchange that is a number": (_argument(b"x-dead-letter-exchange", b"I", bytes(4)), (406, 50, 10)),
    "unknown tag": (method(60, 80, struct.pack(">QB", 9, 0)), (406, 60, 80)),
    "unknown tag with multiple": (method(60, 120, struct.pack(">QB", 9, 1)), (406, 60, 120)),
    "highest tag": (method(60, 90, b"\xff" * 8 + b"\0"), (406, 60, 90)),
    "no transaction": (method(90, 20), (406, 90, 20)),
    "transaction among confirms": (method(85, 10, b"\1") + method(90, 10), (406, 90, 10)),
    "no such queue": (consume(b"none"), (404, 60, 20)),
    "no queue declared": (consume(b""), (404, 60, 20)),
    "second consumer beside an exclusive one": (
        declare(b"") + consume(b"", b"a", 12) + consume(b"", b"b"),
        (403, 60, 20),
    ),
}


@pytest.mark.parametrize("fault", HARD)
def test_a_hard_error_closes_its_connection_only(broker: RunningBroker, fault: str) -> None:
    data, expected = HARD[fault]
    with broker.raw().log_in() as neighbour, broker.raw().log_in() as client:
        client.socket.sendall(data)
        closed = client.until(ConnectionClosed)
        assert closed.error is not None
        assert (closed.error.reply_code, *closed.error.ids) == expected
        neighbour.request(m.BasicQos(), m.BasicQosOk)


@pytest.mark.parametrize("fault", SOFT)
def test_a_soft_error_closes_its_channel_only(broker: RunningBroker, fault: str) -> None:
    data, expected = SOFT[fault]
    with broker.raw().log_in(2) as client:
        client.socket.sendall(data)
        closed = client.until(ChannelClosed)
        assert closed.error is not None
        assert (closed.channel, closed.error.reply_code, *closed.error.ids) == (1, *expected)
        client.request(m.BasicQos(), m.BasicQosOk, channel=2)


def test_a_client_that_opens_a_channel_before_open_ok_is_closed(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with broker.raw() as client:
        client.until(Tuned)
        client.socket.sendall(method(20, 10, short(b"")))
        closed = client.wait_closed()
        assert closed.error is not None
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("data", [frame(4, 1, b""), frame(0, 1, b""), declare(b"")[:-1] + b"\0"])
def test_malformed_frames_end_the_connection_without_a_reason(broker: RunningBroker, data: bytes) -> None:
    with broker.raw().log_in() as neighbour, broker.raw().log_in() as client:
        client.socket.sendall(data)
        client.socket.settimeout(60)
        assert client.socket.recv(100) == b""
        neighbour.request(m.BasicQos(), m.BasicQosOk)


@pytest.mark.parametrize("name", [b"q" * 255, "Grüße 机构".encode(), bytes(range(1, 128)), b" "])
def test_any_text_may_be_the_name_of_a_queue(broker: RunningBroker, name: bytes) -> None:
    with broker.raw().log_in() as client:
        client.socket.sendall(declare(name))
        client.send(m.QueueDeclare(name.decode(), passive=True))
        assert client.request(m.QueueDelete(name.decode()), m.QueueDeleteOk).message_count == 0
