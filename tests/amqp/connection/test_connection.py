"""Permitted and forbidden input of a peer, with the reply code of each refusal."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from semq.amqp import ClientConnection, ConnectionLimits, ServerConnection
from semq.amqp import methods as m
from semq.amqp.codec import encode_method
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import (
    ChannelClosed,
    ChannelOpened,
    ChannelReleased,
    ConnectionClosed,
    ConnectionFailed,
    MethodReceived,
    Published,
)
from semq.amqp.frames import END, FRAME_HEAD, HEARTBEAT_FRAME, frame
from semq.amqp.methods import Method
from semq.amqp.spec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from tests.amqp.helpers import WirePair, header_of, octet_by_octet, open_channels, opened, output, pamqp_frames

SMALL = ConnectionLimits(frame_max=4096, channel_max=10, body_max=1000, arriving_max=1500, table_depth=4)


def method_bytes(method: Method, channel: int = 1) -> bytes:
    return frame(FRAME_METHOD, channel, encode_method(method))


def header_frame(size: int, channel: int = 1) -> bytes:
    return frame(FRAME_HEADER, channel, ContentHeader.build(size, Properties()).raw)


LONG_HEADER = ContentHeader.build(0, Properties(headers={"text": "x" * 4064})).raw
PUBLISH = method_bytes(m.BasicPublish("e", "k"))
CONTENT = PUBLISH + header_frame(4) + frame(FRAME_BODY, 1, b"body")
DEEP = frame(FRAME_METHOD, 1, encode_method(m.QueueDeclare("q", arguments={"a": {"b": {"c": {"d": {}}}}})))

# fault | octets | reply code | class and method id in the close
HARD: list[tuple[str, bytes, int, tuple[int, int]]] = [
    ("heartbeat with payload", frame(8, 0, b"x"), 501, (0, 0)),
    ("heartbeat on a channel", frame(8, 1, b""), 501, (0, 0)),
    ("method without ids", frame(FRAME_METHOD, 1, b"\0\x32\0"), 501, (0, 0)),
    ("method cut off", frame(FRAME_METHOD, 1, encode_method(m.QueueDeclare("q"))[:-1]), 501, (50, 10)),
    ("method with surplus", frame(FRAME_METHOD, 1, encode_method(m.QueueDeclare("q")) + b"x"), 501, (50, 10)),
    ("publish cut off", frame(FRAME_METHOD, 1, encode_method(m.BasicPublish("e", "k"))[:-1]), 501, (60, 40)),
    ("ack with surplus", frame(FRAME_METHOD, 1, encode_method(m.BasicAck(1)) + b"x"), 501, (60, 80)),
    ("name not UTF-8", frame(FRAME_METHOD, 1, b"\0\x32\0\x1e\0\0\x01\xff\0"), 502, (50, 30)),
    ("exchange not UTF-8", frame(FRAME_METHOD, 1, b"\0\x3c\0\x28\0\0\x01\xff\0\0") + header_frame(0), 502, (60, 40)),
    ("table too deep", DEEP, 502, (50, 10)),
    ("unknown class", frame(FRAME_METHOD, 1, b"\0\x1e\0\x0a"), 540, (30, 10)),
    ("unknown method", frame(FRAME_METHOD, 1, b"\0\x32\0\x63"), 540, (50, 99)),
    ("method that only servers send", method_bytes(m.QueueDeclareOk("q")), 503, (50, 11)),
    ("deliver from a client", method_bytes(m.BasicDeliver()), 503, (60, 60)),
    ("connection class on a channel", method_bytes(m.ConnectionClose()), 503, (10, 50)),
    ("another class on channel 0", method_bytes(m.QueueDeclare("q"), 0), 504, (50, 10)),
    ("channel class on channel 0", method_bytes(m.ChannelOpen(), 0), 504, (20, 10)),
    ("header on channel 0", header_frame(1, 0), 504, (0, 0)),
    ("body on channel 0", frame(FRAME_BODY, 0, b"x"), 504, (0, 0)),
    ("channel that is not open", method_bytes(m.QueueDeclare("q"), 2), 504, (50, 10)),
    ("publish on a channel that is not open", method_bytes(m.BasicPublish(), 2), 504, (60, 40)),
    ("ack on a channel that is not open", method_bytes(m.BasicAck(1), 2), 504, (60, 80)),
    ("body on a channel that is not open", frame(FRAME_BODY, 2, b"x"), 504, (0, 0)),
    ("channel opened twice", method_bytes(m.ChannelOpen()), 504, (20, 10)),
    ("one channel too many", b"".join(method_bytes(m.ChannelOpen(), 65_535 - n) for n in range(10)), 530, (0, 0)),
    ("header that cannot be forwarded in one frame", PUBLISH + frame(FRAME_HEADER, 1, LONG_HEADER), 501, (0, 0)),
    ("close of a channel that is not open", method_bytes(m.ChannelClose(), 2), 504, (20, 40)),
    ("close-ok without close", method_bytes(m.ChannelCloseOk()), 503, (20, 41)),
    ("flow-ok without flow", method_bytes(m.ChannelFlowOk()), 503, (20, 21)),
    ("cancel-ok without cancel", method_bytes(m.BasicCancelOk("c")), 503, (60, 31)),
    ("header without method", header_frame(1), 505, (0, 0)),
    ("body without method", frame(FRAME_BODY, 1, b"x"), 505, (0, 0)),
    ("method instead of header", PUBLISH + method_bytes(m.QueueDeclare("q")), 505, (60, 40)),
    ("publish instead of header", PUBLISH + PUBLISH, 505, (60, 40)),
    ("ack instead of header", PUBLISH + method_bytes(m.BasicAck(1)), 505, (60, 40)),
    ("body instead of header", PUBLISH + frame(FRAME_BODY, 1, b"x"), 505, (0, 0)),
    ("method instead of body", PUBLISH + header_frame(1) + method_bytes(m.TxSelect()), 505, (60, 40)),
    ("close instead of body", PUBLISH + header_frame(1) + method_bytes(m.ChannelClose()), 505, (60, 40)),
    ("header instead of body", PUBLISH + header_frame(1) + header_frame(1), 505, (0, 0)),
    ("body too long", PUBLISH + header_frame(1) + frame(FRAME_BODY, 1, b"xx"), 505, (60, 40)),
    ("header of another class", PUBLISH + frame(FRAME_HEADER, 1, b"\0\x0a" + bytes(12)), 501, (60, 0)),
    ("header with weight", PUBLISH + frame(FRAME_HEADER, 1, b"\0\x3c\0\x01" + bytes(10)), 502, (60, 0)),
    ("header cut off", PUBLISH + frame(FRAME_HEADER, 1, b"\0\x3c\0\0" + bytes(9)), 501, (60, 0)),
]


def two_channels() -> WirePair:
    return opened(SMALL, channels=2)


def one_channel() -> WirePair:
    return opened(SMALL)


@pytest.mark.parametrize("cut", [lambda data: [data], octet_by_octet], ids=["whole", "octet by octet"])
@pytest.mark.parametrize(("octets", "code", "ids"), [row[1:] for row in HARD], ids=[row[0] for row in HARD])
def test_a_hard_error_ends_its_connection_and_no_other(
    octets: bytes, code: int, ids: tuple[int, int], cut: Callable[[bytes], list[bytes]]
) -> None:
    pair = one_channel()
    neighbour = one_channel()
    events = [event for part in cut(octets) for event in pair.server.receive(part, 0)]
    *opened_channels, failed = events
    assert all(isinstance(event, ChannelOpened) for event in opened_channels)
    assert isinstance(failed, ConnectionFailed)
    assert not failed.pause
    assert (failed.error.reply_code, failed.error.ids) == (code, ids)
    channel, close = pamqp_frames(output(pair.server))[-1]
    assert (channel, close.name, close.reply_code) == (0, "Connection.Close", code)
    assert (close.class_id, close.method_id) == ids
    assert pair.server.receive(CONTENT, 0) == []
    (closed,) = pair.server.receive(method_bytes(m.ConnectionCloseOk(), 0), 0)
    assert isinstance(closed, ConnectionClosed)
    assert closed.error is failed.error
    assert len(neighbour.server.receive(CONTENT, 0)) == 1


# Faults after which not even connection.close is sent.
FATAL: list[tuple[str, bytes]] = [
    ("unknown frame type", frame(4, 1, b"")),
    ("type 0", bytes(100)),
    ("bad frame end", frame(FRAME_METHOD, 1, b"1234")[:-1] + b"\xcf"),
    ("bad end of a long frame", frame(FRAME_BODY, 1, bytes(4000))[:-1] + b"\0"),
]


@pytest.mark.parametrize("cut", [lambda data: [data], octet_by_octet], ids=["whole", "octet by octet"])
@pytest.mark.parametrize("octets", [row[1] for row in FATAL], ids=[row[0] for row in FATAL])
def test_bytes_that_are_not_a_frame_close_the_connection_at_once(
    octets: bytes, cut: Callable[[bytes], list[bytes]]
) -> None:
    pair = one_channel()
    pair.server.ack(1, 1)
    events = [event for part in cut(HEARTBEAT_FRAME + octets + CONTENT) for event in pair.server.receive(part, 0)]
    (closed,) = events
    assert isinstance(closed, ConnectionClosed)
    assert closed.error is not None
    assert closed.error.reply_code == 501
    assert pair.server.is_closed
    assert pair.server.take_output() == []


@pytest.mark.parametrize("kind", [FRAME_METHOD, FRAME_HEADER, FRAME_BODY])
def test_an_oversize_frame_ends_the_connection_at_its_head(kind: int) -> None:
    pair = one_channel()
    failed, closed = pair.server.receive(FRAME_HEAD.pack(kind, 1, 4097), 0)
    assert isinstance(failed, ConnectionFailed)
    assert isinstance(closed, ConnectionClosed)
    assert (closed.by_peer, closed.pause) == (False, False)
    assert closed.error is not None
    assert closed.error.reply_code == 501
    ((channel, close),) = pamqp_frames(output(pair.server))
    assert (channel, close.name, close.reply_code) == (0, "Connection.Close", 501)
    assert pair.server.next_deadline is None
    assert pair.server.receive(bytes(4098) + CONTENT, 0) == []


def test_an_oversize_frame_ends_a_connection_that_is_closing() -> None:
    pair = one_channel()
    pair.server.close()
    (closed,) = pair.server.receive(FRAME_HEAD.pack(FRAME_BODY, 1, 4097), 0)
    assert closed == ConnectionClosed(None, False, False)


def test_frame_max_counts_the_payload_alone_on_receipt() -> None:
    pair = opened(ConnectionLimits(frame_max=4096))
    events = []
    for size in range(4088, 4097):
        events += pair.server.receive(PUBLISH + header_frame(size) + frame(FRAME_BODY, 1, bytes(size)), 0)
    assert [len(event.body) for event in events if isinstance(event, Published)] == list(range(4088, 4097))
    assert pair.server.payload_max == 4088  # frame-max without the overhead


def test_channels_are_counted_without_regard_to_their_numbers() -> None:
    pair = one_channel()
    for number in range(2, 5000):
        pair.server.receive(method_bytes(m.ChannelOpen(), number) + method_bytes(m.ChannelClose(200), number), 0)
    assert open_channels(pair.server) == [1]
    assert pair.server.is_open


def test_each_close_is_answered() -> None:
    pair = one_channel()
    close = method_bytes(m.ConnectionClose(200), 0)
    (closed,) = pair.server.receive(close + CONTENT + close, 0)
    assert closed == ConnectionClosed(None, True, False)
    assert [event for part in octet_by_octet(close) for event in pair.server.receive(part, 0)] == []
    assert pair.server.receive(close[:5], 0) == []
    assert (
        pair.server.receive(
            close[5:] + method_bytes(m.ConnectionCloseOk(), 0) + method_bytes(m.ConnectionClose(200)), 0
        )
        == []
    )
    assert [method.name for _, method in pamqp_frames(output(pair.server))] == ["Connection.CloseOk"] * 4
    assert pair.server.receive(frame(4, 0, b""), 0) == []
    assert pair.server.receive_eof(0) == []
    assert output(pair.server) == b""


def test_errors_while_closing_are_ignored() -> None:
    pair = one_channel()
    pair.server.close()
    malformed = frame(FRAME_METHOD, 0, b"\0\x0a\0\x32\0") + frame(8, 1, b"") + frame(FRAME_BODY, 1, bytes(4000))
    assert pair.server.receive(malformed + malformed, 0) == []
    (closed,) = pair.server.receive(method_bytes(m.ConnectionCloseOk(), 0), 0)
    assert closed == ConnectionClosed(None, False, False)


def test_a_body_above_the_limit_closes_its_channel_only() -> None:
    pair = two_channels()
    body = frame(FRAME_BODY, 1, bytes(500))
    events = pair.server.receive(PUBLISH + header_frame(1001) + body, 0)
    (closed,) = events
    assert isinstance(closed, ChannelClosed)
    assert not closed.by_peer
    assert closed.error is not None
    assert (closed.error.reply_code, closed.error.ids) == (311, (60, 40))
    ((channel, close),) = pamqp_frames(output(pair.server))
    assert (channel, close.name, close.reply_code) == (1, "Channel.Close", 311)
    # Frames that are on their way on the closed channel are ignored.
    on_channel_2 = method_bytes(m.BasicPublish("e", "k"), 2) + header_frame(1, 2) + frame(FRAME_BODY, 2, b"x")
    events = pair.server.receive(body + body + CONTENT + method_bytes(m.QueueDeclare("q")) + on_channel_2, 0)
    assert [event.channel for event in events if isinstance(event, Published)] == [2]
    assert len(events) == 1
    assert pair.server.receive(method_bytes(m.ChannelCloseOk()) + method_bytes(m.ChannelOpen()), 0) == [
        ChannelReleased(1),
        ChannelOpened(1),
    ]


def test_bodies_arriving_on_many_channels_are_bounded_together() -> None:
    pair = two_channels()
    first, second = (method_bytes(m.BasicPublish(), number) + header_frame(800, number) for number in (1, 2))
    assert pair.server.receive(first, 0) == []
    (failed,) = pair.server.receive(second, 0)
    assert isinstance(failed, ConnectionFailed)
    assert failed.error.reply_code == 506


def test_a_channel_that_this_side_closes_drops_the_arriving_content() -> None:
    pair = two_channels()
    pair.server.receive(PUBLISH + header_frame(800), 0)
    pair.server.close_channel(1)
    assert pair.server.receive(frame(FRAME_BODY, 1, bytes(800)), 0) == []
    assert len(pair.server.receive(method_bytes(m.BasicPublish(), 2) + header_frame(0, 2), 0)) == 1
    assert pair.server.receive(method_bytes(m.BasicPublish(), 2) + header_frame(900, 2), 0) == []


def test_contents_of_channels_interleave() -> None:
    pair = two_channels()
    frames_ = [
        (PUBLISH, method_bytes(m.BasicPublish("e", "k"), 2)),
        (header_frame(2), header_frame(2, 2)),
        (frame(FRAME_BODY, 1, b"a"), frame(FRAME_BODY, 2, b"b")),
        (frame(FRAME_BODY, 1, b"a"), frame(FRAME_BODY, 2, b"b")),
    ]
    events = pair.server.receive(b"".join(first + second for first, second in frames_), 0)
    assert [(event.channel, event.body) for event in events if isinstance(event, Published)] == [(1, b"aa"), (2, b"bb")]


def test_a_close_of_the_connection_may_interrupt_a_content() -> None:
    pair = one_channel()
    (closed,) = pair.server.receive(PUBLISH + header_frame(2) + method_bytes(m.ConnectionClose(), 0), 0)
    assert closed == ConnectionClosed(None, True, False)


def test_both_sides_may_send_requests_and_get_replies() -> None:
    pair = one_channel()
    pair.client.send(1, m.QueueDeclare("q"))
    pair.client.send(1, m.BasicConsume("q", "c"))
    assert pair.flow()[0] == [
        MethodReceived(1, m.QueueDeclare("q")),
        MethodReceived(1, m.BasicConsume("q", "c")),
    ]
    pair.server.send(1, m.QueueDeclareOk("q", 0, 0))
    pair.server.send(1, m.BasicConsumeOk("c"))
    pair.server.send(1, m.BasicCancel("c", no_wait=False))
    pair.flow()
    pair.client.send(1, m.BasicCancelOk("c"))
    assert pair.flow()[0] == [MethodReceived(1, m.BasicCancelOk("c"))]


@pytest.mark.parametrize(
    ("requests", "reply"),
    [([], m.QueueDeclareOk("q")), ([m.QueueBind("q")], m.QueueDeclareOk("q")), ([m.BasicGet("q")], m.QueueBindOk())],
)
def test_a_reply_without_its_request_is_refused(requests: list[Method], reply: Method) -> None:
    pair = one_channel()
    for method in requests:
        pair.client.send(1, method)
    (failed,) = pair.client.receive(method_bytes(reply), 0)
    assert isinstance(failed, ConnectionFailed)
    assert failed.error.reply_code == 503


def test_a_get_ok_without_request_is_refused() -> None:
    pair = one_channel()
    (failed,) = pair.client.receive(method_bytes(m.BasicGetOk()), 0)
    assert isinstance(failed, ConnectionFailed)


Data: TypeAlias = bytes | bytearray | memoryview


@pytest.mark.parametrize("cast", [bytes, bytearray, memoryview])
def test_data_that_may_change_is_copied(cast: Callable[[bytearray], Data]) -> None:
    pair = one_channel()
    octets = PUBLISH + header_frame(900) + frame(FRAME_BODY, 1, b"x" * 900)
    events = []
    for part in (octets[:-100], octets[-100:]):
        buffer = bytearray(part)
        data = cast(buffer)
        events += pair.server.receive(data, 0)
        if not isinstance(data, bytes):
            # the transport reuses its buffer in this way
            data[:] = bytes(len(data))
    (event,) = events
    assert isinstance(event, Published)
    assert event.body == b"x" * 900
    assert type(event.body) is bytes


def test_a_body_in_one_frame_is_reported_as_bytes() -> None:
    pair = one_channel()
    (event,) = pair.server.receive(CONTENT, 0)
    assert isinstance(event, Published)
    assert event.header == header_of(b"body")
    assert type(event.body) is bytes


@pytest.mark.parametrize("role", [ServerConnection, ClientConnection])
def test_a_closed_connection_ignores_input(role: type[ServerConnection | ClientConnection]) -> None:
    connection = role()
    connection.start(0)
    connection.receive_eof(0)
    assert connection.receive(CONTENT, 0) == []


def test_a_flood_of_tiny_frames_is_collected_in_one_buffer() -> None:
    limits = ConnectionLimits(body_max=100_000, arriving_max=100_000)
    pair = opened(limits)
    pair.server.receive(PUBLISH + header_frame(50_000), 0)
    tiny_frame = FRAME_HEAD.pack(FRAME_BODY, 1, 1) + b"x" + END
    for _ in range(49):
        assert pair.server.receive(tiny_frame * 1000, 0) == []
    arriving = pair.server._channels[1].arriving
    assert arriving is not None
    assert len(arriving.pieces._parts) == 1
    (event,) = pair.server.receive(tiny_frame * 1000, 0)
    assert isinstance(event, Published)
    assert event.body == b"x" * 50_000
