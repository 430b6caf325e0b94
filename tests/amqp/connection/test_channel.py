"""Assembly of contents from frames, every wrong order of frames, requests and replies."""

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


def channel(budget: Budget | None = None) -> Channel:
    return Channel(1, ChannelState.OPEN, budget or Budget())


def begun(body: bytes, limits: ConnectionLimits = LIMITS, method: m.BasicPublish | None = None) -> Channel:
    made = channel()
    made.begin(method or m.BasicPublish("e", "k"))
    made.take_header(header_of(body).raw, limits)
    return made


@pytest.mark.parametrize("sizes", [[10], [4, 6], [1] * 10, [0, 10], [3, 0, 7]])
def test_a_body_may_arrive_in_frames_of_any_size(sizes: list[int]) -> None:
    made, body = begun(b"0123456789"), b"0123456789"
    events = []
    for size in sizes:
        events += made.take_body(body, 0, size)
        body = body[size:]
    assert events == [Published(1, "e", "k", False, False, header_of(b"0123456789"), b"0123456789")]
    assert made.arriving is None
    assert made.budget.used == 0


def test_an_empty_body_has_no_frames() -> None:
    made = channel()
    made.begin(m.BasicPublish("e", "k"))
    assert made.take_header(header_of(b"").raw, LIMITS) == [Published(1, "e", "k", False, False, header_of(b""), b"")]


def test_a_body_in_one_frame_is_not_copied() -> None:
    buffer = b"whole"
    (event,) = begun(b"whole").take_body(buffer, 0, 5)
    assert isinstance(event, Published)
    assert event.body is buffer


def test_each_method_has_its_event() -> None:
    header = header_of(b"x")
    expected: list[tuple[ContentMethod, ConnectionEvent]] = [
        (m.BasicPublish("e", "k", True, True), Published(1, "e", "k", True, True, header, b"x")),
        (m.BasicDeliver("c", 1, True, "e", "k"), Delivered(1, "c", 1, True, "e", "k", header, b"x")),
        (m.BasicReturn(312, "NO_ROUTE", "e", "k"), Returned(1, 312, "NO_ROUTE", "e", "k", header, b"x")),
        (m.BasicGetOk(1, True, "e", "k", 9), Got(1, 1, True, "e", "k", 9, header, b"x")),
    ]
    for method, event in expected:
        made = channel()
        made.begin(method)
        assert made.take_header(header.raw, LIMITS) == []
        assert made.take_body(b"x", 0, 1) == [event]


# Out of order


def test_a_body_without_header_is_refused() -> None:
    made = channel()
    with pytest.raises(UnexpectedFrame):
        made.take_body(b"x", 0, 1)
    made.begin(m.BasicPublish("e", "k"))
    with pytest.raises(UnexpectedFrame):
        made.take_body(b"x", 0, 1)


def test_a_second_header_or_one_without_method_is_refused() -> None:
    with pytest.raises(UnexpectedFrame):
        channel().take_header(header_of(b"x").raw, LIMITS)
    with pytest.raises(UnexpectedFrame):
        begun(b"x").take_header(header_of(b"x").raw, LIMITS)


def test_a_method_within_a_content_is_refused() -> None:
    made = channel()
    made.check_idle()
    made.begin(m.BasicPublish("e", "k"))
    with pytest.raises(UnexpectedFrame, match="header") as caught:
        made.check_idle()
    assert caught.value.ids == (60, 40)
    with pytest.raises(UnexpectedFrame, match="body"):
        begun(b"x").check_idle()


def test_a_body_longer_than_declared_is_refused() -> None:
    made = begun(b"12345")
    made.take_body(b"123", 0, 3)
    with pytest.raises(UnexpectedFrame, match="longer than 5") as caught:
        made.take_body(b"123", 0, 3)
    assert caught.value.ids == (60, 40)


def test_a_header_of_another_class_is_refused() -> None:
    made = channel()
    made.begin(m.BasicPublish("e", "k"))
    with pytest.raises(FrameError):
        made.take_header(b"\x00\x0a" + header_of(b"x").raw[2:], LIMITS)


# Bounds


def declared(size: int) -> bytes:
    return ContentHeader.build(size, Properties()).raw


def test_a_body_above_the_limit_is_refused_before_it_comes() -> None:
    made = channel()
    made.begin(m.BasicPublish("e", "k"))
    with pytest.raises(ContentTooLarge) as caught:
        made.take_header(declared(101), LIMITS)
    assert caught.value.ids == (60, 40)


def test_bodies_that_arrive_at_once_are_bounded_together() -> None:
    budget = Budget()
    first, second = channel(budget), channel(budget)
    for made in (first, second):
        made.begin(m.BasicPublish("e", "k"))
    first.take_header(declared(100), LIMITS)
    assert budget.used == 100
    with pytest.raises(ResourceError):
        second.take_header(declared(51), LIMITS)
    first.drop_content()
    assert budget.used == 0
    second.drop_content()
    second.begin(m.BasicPublish("e", "k"))
    second.take_header(declared(51), LIMITS)


def test_a_channel_without_content_may_drop_its_content() -> None:
    made = channel()
    made.drop_content()
    made.begin(m.BasicPublish("e", "k"))
    made.drop_content()
    assert made.budget.used == 0


def test_many_small_frames_stay_small() -> None:
    made = begun(bytes(100))
    for _ in range(99):
        made.take_body(b"x" * 50, 0, 1)
    assert made.arriving is not None
    assert len(made.arriving.pieces._parts) == 1


# Streaming


def test_a_large_body_is_reported_in_chunks() -> None:
    made, method, header = channel(), m.BasicPublish("e", "k"), header_of(b"0123456789")
    made.begin(method)
    assert made.take_header(header.raw, STREAMED) == [ContentStarted(1, method, header)]
    assert made.take_body(b"012345", 0, 6) == [BodyChunk(1, b"012345")]
    assert made.take_body(b"6789", 0, 4) == [BodyChunk(1, b"6789"), ContentFinished(1)]
    assert made.arriving is None
    assert made.budget.used == 0


def test_a_small_body_is_reported_in_one_piece() -> None:
    (event,) = begun(b"123456789", STREAMED).take_body(b"123456789", 0, 9)
    assert isinstance(event, Published)


def test_all_bodies_can_be_streamed() -> None:
    made, method, header = channel(), m.BasicPublish("e", "k"), header_of(b"")
    made.begin(method)
    everything = ConnectionLimits(stream_from=0)
    assert made.take_header(header.raw, everything) == [ContentStarted(1, method, header), ContentFinished(1)]


def test_a_streamed_body_longer_than_declared_is_refused() -> None:
    made = begun(b"0123456789", STREAMED)
    with pytest.raises(UnexpectedFrame):
        made.take_body(b"0123456789x", 0, 11)


# Requests and replies


def test_replies_answer_requests_in_order() -> None:
    made = channel()
    made.request(m.QueueDeclare("q"))
    made.request(m.QueuePurge("q", no_wait=True))
    made.request(m.BasicGet("q"))
    made.request(m.BasicAck(1))
    made.take_reply(m.QueueDeclareOk("q", 0, 0))
    made.take_reply(m.BasicCancel("c", True))  # no reply at all
    made.take_reply(m.BasicGetEmpty())
    assert not made.awaited


@pytest.mark.parametrize("asked", [None, m.QueueDeclare("q")])
def test_a_reply_to_nothing_is_refused(asked: m.Method | None) -> None:
    made = channel()
    if asked:
        made.request(asked)
    with pytest.raises(CommandInvalid) as caught:
        made.take_reply(m.QueueBindOk())
    assert isinstance(caught.value, AmqpError)
    assert caught.value.ids == (50, 21)


def test_methods_without_an_event_of_their_own_are_reported_as_received() -> None:
    assert event_of(1, m.BasicAck(5, True)) == Acked(1, 5, True)
    assert event_of(1, m.BasicNack(5, True, False)) == Nacked(1, 5, True, False)
    assert event_of(1, m.BasicReject(5, True)) == Rejected(1, 5, True)
    assert event_of(1, m.TxSelect()) == MethodReceived(1, m.TxSelect())
