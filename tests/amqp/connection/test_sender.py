"""Permitted output, its division into frames, and its order."""

from typing import Any

import pamqp.body
import pamqp.commands
import pamqp.header
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semq.amqp import ConnectionLimits
from semq.amqp import methods as m
from semq.amqp.connection.sender import JOINED_MAX
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import LocalMisuse
from semq.amqp.events import (
    BodyChunk,
    ChannelClosed,
    ChannelReleased,
    ContentFinished,
    ContentStarted,
    Delivered,
    FlowChanged,
    Got,
    MethodReceived,
    Published,
    Returned,
)
from tests.amqp.helpers import WirePair, header_of, opened, output, pamqp_frames

SMALLEST = ConnectionLimits(frame_max=4096)


def declared(size: int) -> ContentHeader:
    return ContentHeader.build(size, Properties())


# Contents in one call


@pytest.mark.parametrize("size", [0, 1, 4087, 4088, 4089, 8176, 8177, 50_000])
@pytest.mark.parametrize("cast", [bytes, memoryview])
def test_bodies_are_divided_into_frames_of_at_most_frame_max(size: int, cast: Any) -> None:
    pair = opened(SMALLEST)
    body = bytes(index % 251 for index in range(size))
    pair.client.publish(1, "e", "k", header_of(body), cast(body), mandatory=True)
    pair.server.deliver(1, "c", 7, True, "e", "k", header_of(body), cast(body))
    for connection in (pair.client, pair.server):
        data = output(connection)
        frames = [frame for _, frame in pamqp_frames(data)]
        assert isinstance(frames[1], pamqp.header.ContentHeader)
        assert [len(frame.value) for frame in frames[2:]] == [4088] * (size // 4088) + [size % 4088] * bool(size % 4088)
        peer = pair.server if connection is pair.client else pair.client
        (event,) = peer.receive(data, 0.0)
        assert isinstance(event, Published | Delivered)
        assert event.body == body


def test_a_large_body_is_not_copied() -> None:
    pair = opened()
    body = bytes(300_000)
    pair.client.publish(1, "e", "k", header_of(body), body)
    pieces = pair.client.take_output()
    assert sum(len(piece) for piece in pieces if isinstance(piece, memoryview)) == len(body)
    assert all(piece.obj is body for piece in pieces if isinstance(piece, memoryview))


def test_a_small_content_is_one_piece() -> None:
    pair = opened()
    body = bytes(JOINED_MAX)
    pair.client.publish(1, "e", "k", header_of(body), body)
    assert len(pair.client.take_output()) == 1


def test_output_is_counted_and_taken_once() -> None:
    pair = opened()
    assert pair.client.output_size == 0
    pair.client.ack(1, 1)
    pair.client.publish(1, "e", "k", header_of(bytes(200_000)), bytes(200_000))
    size = pair.client.output_size
    assert size == len(output(pair.client)) > 200_000
    assert pair.client.output_size == 0
    assert pair.client.take_output() == []


def test_a_received_header_goes_out_with_the_same_octets() -> None:
    pair = opened()
    raw = header_of(b"x").raw[:12] + b"\x20\x00\x00\x00\x00\x05\x01as\x00\x05"  # a number of 16 bits
    pair.client.publish(1, "e", "k", ContentHeader.parse(raw), b"x")
    (published,), _ = pair.flow()
    assert isinstance(published, Published)
    pair.server.deliver(1, "c", 1, False, "e", "k", published.header, published.body)
    assert raw in output(pair.server)


def test_returned_and_requested_messages_reach_the_client_with_their_content() -> None:
    pair, header = opened(), header_of(b"x")
    pair.server.send_content(1, m.BasicReturn(312, "NO_ROUTE", "e", "k"), header, b"x")
    pair.client.send(1, m.BasicGet("q"))
    pair.server.send_content(1, m.BasicGetOk(1, False, "e", "k", 0), header, b"x")
    _, events = pair.flow()
    assert events == [
        Returned(1, 312, "NO_ROUTE", "e", "k", header, b"x"),
        Got(1, 1, False, "e", "k", 0, header, b"x"),
    ]


# Contents in chunks


@settings(max_examples=30)
@given(st.lists(st.integers(0, 9000), min_size=1, max_size=5))
def test_a_body_may_be_sent_in_chunks_of_any_size(sizes: list[int]) -> None:
    pair = opened(SMALLEST)
    total = sum(sizes)
    pair.server.start_content(1, m.BasicDeliver("c", 1, False, "e", "k"), declared(total))
    for size in sizes:
        if size:
            pair.server.send_chunk(1, b"x" * size)
    (event,) = pair.flow()[1]
    assert isinstance(event, Delivered)
    assert event.body == b"x" * total


def test_a_large_body_is_sent_and_reported_in_chunks() -> None:
    pair = opened(ConnectionLimits(frame_max=4096, stream_from=10_000))
    method, header = m.BasicPublish("e", "k"), declared(30_000)
    pair.client.start_content(1, method, header)
    assert pair.flow()[0] == [ContentStarted(1, method, header)]
    for _ in range(3):
        pair.client.send_chunk(1, bytes(10_000))
        chunks = [event for event in pair.flow()[0] if isinstance(event, BodyChunk)]
        assert sum(len(chunk.data) for chunk in chunks) == 10_000
    pair.client.publish(1, "e", "k", header_of(b"small"), b"small")
    pair.client.publish(1, "e", "k", header_of(bytes(10_000)), bytes(10_000))
    events, _ = pair.flow()
    assert isinstance(events[0], Published)
    assert isinstance(events[-1], ContentFinished)


def test_other_output_of_the_channel_waits_for_the_body() -> None:
    pair = opened(channels=2)
    server = pair.server
    server.start_content(1, m.BasicDeliver("c", 1, False, "e", "k"), declared(6))
    server.send_chunk(1, b"abc")
    assert not server.may_send_content(1)
    assert server.may_send_content(2)
    server.send_content(1, m.BasicDeliver("c", 2, False, "e", "k"), header_of(b"2"), b"2")
    server.ack(1, 9)
    server.ack(2, 8)
    _, events = pair.flow()
    assert [type(event).__name__ for event in events] == ["Acked"]  # the confirm of the other channel
    server.send_chunk(1, b"def")
    _, events = pair.flow()
    assert [type(event).__name__ for event in events] == ["Delivered", "Delivered", "Acked"]
    assert isinstance(events[0], Delivered)
    assert events[0].body == b"abcdef"


def test_chunks_must_add_up_to_the_size_in_the_header() -> None:
    server = opened().server
    with pytest.raises(LocalMisuse):
        server.send_chunk(1, b"x")
    server.start_content(1, m.BasicDeliver(), declared(3))
    with pytest.raises(LocalMisuse):
        server.start_content(1, m.BasicDeliver(), declared(3))
    with pytest.raises(LocalMisuse):
        server.send_chunk(1, b"xxxx")
    with pytest.raises(LocalMisuse):
        server.send_chunk(2, b"x")
    server.send_chunk(1, b"xxx")


def test_an_empty_body_needs_no_chunks() -> None:
    pair = opened()
    pair.server.start_content(1, m.BasicDeliver("c", 1, False, "e", "k"), declared(0))
    pair.server.ack(1, 1)
    assert len(pair.flow()[1]) == 2


def test_a_close_by_this_side_waits_for_the_body() -> None:
    pair = opened()
    pair.server.start_content(1, m.BasicDeliver("c", 1, False, "e", "k"), declared(3))
    pair.server.close_channel(1)
    assert pair.flow()[1] == []
    pair.server.send_chunk(1, b"xxx")
    at_server, at_client = pair.flow()
    assert isinstance(at_client[0], Delivered)
    assert isinstance(at_client[1], ChannelClosed)
    assert at_server == [ChannelReleased(1)]


def test_a_close_of_the_peer_ends_the_body() -> None:
    pair = opened()
    pair.server.start_content(1, m.BasicDeliver("c", 1, False, "e", "k"), declared(3))
    pair.server.ack(1, 1)
    pair.client.close_channel(1)
    at_server, at_client = pair.flow()
    assert at_server == [ChannelClosed(1, True, None)]
    assert at_client == [ChannelReleased(1)]
    with pytest.raises(LocalMisuse):
        pair.server.send_chunk(1, b"xxx")


def test_both_sides_may_close_a_channel_while_a_body_is_sent() -> None:
    pair = opened()
    pair.server.start_content(1, m.BasicDeliver("c", 1, False, "e", "k"), declared(3))
    pair.server.close_channel(1)
    pair.client.close_channel(1)
    at_server, at_client = pair.flow()
    assert at_server == [ChannelReleased(1)]
    assert at_client == [ChannelReleased(1)]
    assert pair.client.open_channel() == 1
    assert pair.flow()[0][0].channel == 1  # type: ignore[attr-defined]


# Forbidden sequences of methods


def forbidden_calls(pair: WirePair) -> list[Any]:
    server, client, header = pair.server, pair.client, header_of(b"x")
    wide = ContentHeader.build(1, Properties(headers={"a": "x" * 5000}))
    return [
        lambda: client.send(2, m.QueueDeclare("q")),
        lambda: client.send(0, m.QueueDeclare("q")),
        lambda: client.send(1, m.QueueDeclareOk("q")),
        lambda: server.send(1, m.QueueDeclare("q")),
        lambda: client.send(1, m.BasicPublish("e", "k")),
        lambda: client.send(1, m.ChannelClose()),
        lambda: client.send(1, m.ChannelOpen()),
        lambda: server.send(1, m.ConnectionBlocked("x")),
        lambda: client.send(1, m.ConnectionUpdateSecret(b"x")),
        lambda: client.send(1, m.QueueDeclare("q", arguments={"a": "x" * 5000})),
        lambda: client.send_content(1, m.BasicDeliver(), header, b"x"),
        lambda: client.send_content(1, m.BasicGet(), header, b"x"),  # type: ignore[arg-type]
        lambda: client.publish(1, "e", "k", header, b"xx"),
        lambda: client.publish(2, "e", "k", header, b"x"),
        lambda: client.publish(1, "e" * 256, "k", header, b"x"),
        lambda: client.publish(1, "e", "k", wide, b"x"),
        lambda: server.deliver(1, "c", 1, False, "e", "k", header, b""),
        lambda: server.deliver(1, "c", 1, False, "e", "k", wide, b"x"),
        lambda: server.deliver(2, "c", 1, False, "e", "k", header, b"x"),
        lambda: client.ack(2, 1),
        lambda: client.nack(2, 1),
        lambda: client.reject(2, 1),
        lambda: client.may_send_content(2),
    ]


@pytest.mark.parametrize("index", range(23))
def test_a_forbidden_call_is_misuse_and_sends_nothing(index: int) -> None:
    pair = opened(SMALLEST)
    calls = forbidden_calls(pair)
    assert len(calls) == 23
    with pytest.raises(LocalMisuse):
        calls[index]()
    assert pair.client.output_size == pair.server.output_size == 0
    assert not any(channel.awaited for channel in pair.client._channels.values())


def test_a_closing_connection_sends_no_new_secret() -> None:
    pair = opened()
    pair.client.close()
    with pytest.raises(LocalMisuse):
        pair.client.send(0, m.ConnectionUpdateSecret(b"x"))


# Acknowledgements and limits


def test_acks_nacks_and_rejects_are_sent_as_their_methods() -> None:
    pair = opened()
    pair.client.ack(1, 1, True)
    pair.client.nack(1, 2, False, False)
    pair.client.reject(1, 3, False)
    pair.server.ack(1, 4)
    pair.server.nack(1, 5, True)
    frames = [frame for _, frame in pamqp_frames(output(pair.client) + output(pair.server))]
    acks = [(type(frame), frame.delivery_tag, getattr(frame, "multiple", None)) for frame in frames]
    assert acks == [
        (pamqp.commands.Basic.Ack, 1, True),
        (pamqp.commands.Basic.Nack, 2, False),
        (pamqp.commands.Basic.Reject, 3, None),
        (pamqp.commands.Basic.Ack, 4, False),
        (pamqp.commands.Basic.Nack, 5, True),
    ]


def test_each_side_can_stop_the_content_of_the_other_by_flow() -> None:
    pair = opened()
    pair.client.send(1, m.ChannelFlow(False))
    at_server, at_client = pair.flow()
    assert at_server == [FlowChanged(1, False)]
    assert at_client == [MethodReceived(1, m.ChannelFlowOk(False))]
    assert not pair.server.may_send_content(1)
    pair.client.send(1, m.ChannelFlow(True))
    pair.server.send(1, m.ChannelFlow(False))
    pair.flow()
    assert pair.server.may_send_content(1)
    assert not pair.client.may_send_content(1)


def test_the_largest_payload_follows_from_the_negotiated_frame_max() -> None:
    assert opened(SMALLEST).client.payload_max == 4088
    unlimited = opened(ConnectionLimits(frame_max=0), ConnectionLimits(frame_max=0))
    assert unlimited.client.payload_max == (1 << 32) - 1
