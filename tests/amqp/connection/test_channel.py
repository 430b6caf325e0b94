"""Assembly of contents, wrong orders of frames, limits, bodies in chunks, requests and replies."""

import pytest

from semq.amqp import ConnectionLimits
from semq.amqp import methods as m
from semq.amqp.connection.channel import Budget, Channel, ContentMethod, event_of
from semq.amqp.connection.states import ChannelState
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError, CommandInvalid, ContentTooLarge, FrameError, ResourceError, UnexpectedFrame
from semq.amqp.events import (
    Acked,
    BodyChunk,
    ConnectionEvent,
    ContentFinished,
    ContentStarted,
    Delivered,
    Got,
    MethodReceived,
    Nacked,
    Published,
    Rejected,
    Returned,
)
from tests.amqp.helpers import header_of

LIMITS = ConnectionLimits(body_max=100, arriving_max=150)
STREAMED = ConnectionLimits(body_max=100, arriving_max=150, stream_from=10)


def new_channel(budget: Budget | None = None) -> Channel:
    return Channel(1, ChannelState.OPEN, budget or Budget())


def channel_with_header(body: bytes, limits: ConnectionLimits = LIMITS) -> Channel:
    """Return a channel on which a publish and its content header have arrived."""
    channel = new_channel()
    channel.begin(m.BasicPublish("e", "k"))
    channel.add_header(header_of(body).raw, limits)
    return channel


@pytest.mark.parametrize("sizes", [[10], [4, 6], [1] * 10, [0, 10], [3, 0, 7]])
def test_a_body_may_arrive_in_frames_of_any_size(sizes: list[int]) -> None:
    channel, body = channel_with_header(b"0123456789"), b"0123456789"
    events = []
    for size in sizes:
        events += channel.add_body(body, 0, size)
        body = body[size:]
    assert events == [Published(1, "e", "k", False, False, header_of(b"0123456789"), b"0123456789")]
    assert channel.arriving is None
    assert channel.budget.used == 0


def test_an_empty_body_has_no_frames() -> None:
    channel = new_channel()
    channel.begin(m.BasicPublish("e", "k"))
    assert channel.add_header(header_of(b"").raw, LIMITS) == [Published(1, "e", "k", False, False, header_of(b""), b"")]


def test_a_body_in_one_frame_is_not_copied() -> None:
    buffer = b"whole"
    (event,) = channel_with_header(b"whole").add_body(buffer, 0, 5)
    assert isinstance(event, Published)
    assert event.body is buffer


def test_each_method_with_content_has_its_event() -> None:
    header = header_of(b"x")
    expected: list[tuple[ContentMethod, ConnectionEvent]] = [
        (m.BasicPublish("e", "k", True, True), Published(1, "e", "k", True, True, header, b"x")),
        (m.BasicDeliver("c", 1, True, "e", "k"), Delivered(1, "c", 1, True, "e", "k", header, b"x")),
        (m.BasicReturn(312, "NO_ROUTE", "e", "k"), Returned(1, 312, "NO_ROUTE", "e", "k", header, b"x")),
        (m.BasicGetOk(1, True, "e", "k", 9), Got(1, 1, True, "e", "k", 9, header, b"x")),
    ]
    for method, event in expected:
        channel = new_channel()
        channel.begin(method)
        assert channel.add_header(header.raw, LIMITS) == []
        assert channel.add_body(b"x", 0, 1) == [event]


# Out of order


def test_a_body_without_header_is_refused() -> None:
    channel = new_channel()
    with pytest.raises(UnexpectedFrame):
        channel.add_body(b"x", 0, 1)
    channel.begin(m.BasicPublish("e", "k"))
    with pytest.raises(UnexpectedFrame):
        channel.add_body(b"x", 0, 1)


def test_a_second_header_or_one_without_method_is_refused() -> None:
    with pytest.raises(UnexpectedFrame):
        new_channel().add_header(header_of(b"x").raw, LIMITS)
    with pytest.raises(UnexpectedFrame):
        channel_with_header(b"x").add_header(header_of(b"x").raw, LIMITS)


def test_a_method_within_a_content_is_refused() -> None:
    channel = new_channel()
    channel.check_idle()
    channel.begin(m.BasicPublish("e", "k"))
    with pytest.raises(UnexpectedFrame, match="header") as caught:
        channel.check_idle()
    assert caught.value.ids == (60, 40)
    with pytest.raises(UnexpectedFrame, match="body"):
        channel_with_header(b"x").check_idle()


def test_a_body_longer_than_declared_is_refused() -> None:
    channel = channel_with_header(b"12345")
    channel.add_body(b"123", 0, 3)
    with pytest.raises(UnexpectedFrame, match="longer than 5") as caught:
        channel.add_body(b"123", 0, 3)
    assert caught.value.ids == (60, 40)


def test_a_header_of_another_class_is_refused() -> None:
    channel = new_channel()
    channel.begin(m.BasicPublish("e", "k"))
    with pytest.raises(FrameError):
        channel.add_header(b"\x00\x0a" + header_of(b"x").raw[2:], LIMITS)


# Bounds


def header_declaring(size: int) -> bytes:
    return ContentHeader.build(size, Properties()).raw


def test_a_body_above_the_limit_is_refused_before_it_arrives() -> None:
    channel = new_channel()
    channel.begin(m.BasicPublish("e", "k"))
    with pytest.raises(ContentTooLarge) as caught:
        channel.add_header(header_declaring(101), LIMITS)
    assert caught.value.ids == (60, 40)


def test_bodies_that_arrive_at_once_are_bounded_together() -> None:
    budget = Budget()
    first, second = new_channel(budget), new_channel(budget)
    for channel in (first, second):
        channel.begin(m.BasicPublish("e", "k"))
    first.add_header(header_declaring(100), LIMITS)
    assert budget.used == 100
    with pytest.raises(ResourceError):
        second.add_header(header_declaring(51), LIMITS)
    first.drop_content()
    assert budget.used == 0
    second.drop_content()
    second.begin(m.BasicPublish("e", "k"))
    second.add_header(header_declaring(51), LIMITS)


def test_content_may_be_dropped_before_its_header_has_arrived() -> None:
    channel = new_channel()
    channel.drop_content()
    channel.begin(m.BasicPublish("e", "k"))
    channel.drop_content()
    assert channel.budget.used == 0


def test_small_frames_of_a_body_are_collected_in_one_buffer() -> None:
    channel = channel_with_header(bytes(100))
    for _ in range(99):
        channel.add_body(b"x" * 50, 0, 1)
    assert channel.arriving is not None
    assert len(channel.arriving.pieces._parts) == 1


# Streaming


def test_a_large_body_is_reported_in_chunks() -> None:
    channel, method, header = new_channel(), m.BasicPublish("e", "k"), header_of(b"0123456789")
    channel.begin(method)
    assert channel.add_header(header.raw, STREAMED) == [ContentStarted(1, method, header)]
    assert channel.add_body(b"012345", 0, 6) == [BodyChunk(1, b"012345")]
    assert channel.add_body(b"6789", 0, 4) == [BodyChunk(1, b"6789"), ContentFinished(1)]
    assert channel.arriving is None
    assert channel.budget.used == 0


def test_a_small_body_is_reported_in_one_piece() -> None:
    (event,) = channel_with_header(b"123456789", STREAMED).add_body(b"123456789", 0, 9)
    assert isinstance(event, Published)


def test_with_stream_from_0_an_empty_body_is_streamed_too() -> None:
    channel, method, header = new_channel(), m.BasicPublish("e", "k"), header_of(b"")
    channel.begin(method)
    all_streamed = ConnectionLimits(stream_from=0)
    assert channel.add_header(header.raw, all_streamed) == [ContentStarted(1, method, header), ContentFinished(1)]


def test_a_streamed_body_longer_than_declared_is_refused() -> None:
    channel = channel_with_header(b"0123456789", STREAMED)
    with pytest.raises(UnexpectedFrame):
        channel.add_body(b"0123456789x", 0, 11)


# Requests and replies


def test_replies_answer_requests_in_order() -> None:
    channel = new_channel()
    channel.await_reply(m.QueueDeclare("q"))
    channel.await_reply(m.QueuePurge("q", no_wait=True))
    channel.await_reply(m.BasicGet("q"))
    channel.await_reply(m.BasicAck(1))
    channel.match_reply(m.QueueDeclareOk("q", 0, 0))
    channel.match_reply(m.BasicCancel("c", True))
    channel.match_reply(m.BasicGetEmpty())
    assert not channel.awaited


@pytest.mark.parametrize("request_sent", [None, m.QueueDeclare("q")])
def test_a_reply_without_its_request_is_refused(request_sent: m.Method | None) -> None:
    channel = new_channel()
    if request_sent:
        channel.await_reply(request_sent)
    with pytest.raises(CommandInvalid) as caught:
        channel.match_reply(m.QueueBindOk())
    assert isinstance(caught.value, AmqpError)
    assert caught.value.ids == (50, 21)


def test_a_method_without_content_is_reported_by_its_own_event_or_as_received() -> None:
    assert event_of(1, m.BasicAck(5, True)) == Acked(1, 5, True)
    assert event_of(1, m.BasicNack(5, True, False)) == Nacked(1, 5, True, False)
    assert event_of(1, m.BasicReject(5, True)) == Rejected(1, 5, True)
    assert event_of(1, m.TxSelect()) == MethodReceived(1, m.TxSelect())
