"""The hot path compared with the general path: the same bytes, the same events, the same errors."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semq.amqp import ClientConnection, ServerConnection, hot
from semq.amqp import methods as m
from semq.amqp.codec import encode_method
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Acked, ConnectionEvent, Delivered, Nacked, Published, Rejected
from semq.amqp.frames import FrameReader, frame
from semq.amqp.hot import CLIENT_LANES, SERVER_LANES, Lane
from semq.amqp.methods import Method
from semq.amqp.spec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from tests.amqp.helpers import WirePair, header_of, octet_by_octet, opened, output, short_texts


class SlowServer(ServerConnection):
    """A server without lanes, which uses the general path for everything."""

    lanes: ClassVar[dict[bytes, Lane]] = {}


class SlowClient(ClientConnection):
    """A client without lanes."""

    lanes: ClassVar[dict[bytes, Lane]] = {}


def open_pair(server: ServerConnection, client: ClientConnection) -> WirePair:
    pair = WirePair(server, client).negotiate()
    pair.client.open_channel()
    pair.client.open_channel()
    pair.flow()
    return pair


def content_frames(method: Method, header: ContentHeader, body: bytes, channel: int = 1) -> bytes:
    front = frame(FRAME_METHOD, channel, encode_method(method)) + frame(FRAME_HEADER, channel, header.raw)
    return front + (frame(FRAME_BODY, channel, body) if body else b"")


bodies = st.binary(max_size=100)
tags = st.integers(0, (1 << 64) - 1)
publishes = st.builds(m.BasicPublish, short_texts, short_texts, st.booleans(), st.booleans())
deliveries = st.builds(m.BasicDeliver, short_texts, tags, st.booleans(), short_texts, short_texts)
acks = st.builds(m.BasicAck, tags, st.booleans())
nacks = st.builds(m.BasicNack, tags, st.booleans(), st.booleans())
rejects = st.builds(m.BasicReject, tags, st.booleans())


def events_of(connection: ServerConnection | ClientConnection, data: bytes) -> list[ConnectionEvent]:
    return connection.receive(data, 0.0)


# Complete and well-formed input.


@settings(max_examples=50)
@given(st.lists(st.tuples(publishes, bodies) | st.tuples(acks | nacks | rejects, st.just(b"")), max_size=5))
def test_a_server_reads_the_same_by_both_decoders(contents: list[tuple[Method, bytes]]) -> None:
    fast = open_pair(ServerConnection(), ClientConnection()).server
    slow = open_pair(SlowServer(), ClientConnection()).server
    data = b"".join(
        content_frames(method, header_of(body), body)
        if isinstance(method, m.BasicPublish)
        else frame(FRAME_METHOD, 1, encode_method(method))
        for method, body in contents
    )
    result = events_of(fast, data)
    assert result == events_of(slow, data)
    assert len(result) == len(contents)


@settings(max_examples=50)
@given(st.lists(st.tuples(deliveries, bodies) | st.tuples(acks | nacks, st.just(b"")), max_size=5))
def test_a_client_reads_the_same_by_both_decoders(contents: list[tuple[Method, bytes]]) -> None:
    fast = open_pair(ServerConnection(), ClientConnection()).client
    slow = open_pair(ServerConnection(), SlowClient()).client
    data = b"".join(
        content_frames(method, header_of(body), body)
        if isinstance(method, m.BasicDeliver)
        else frame(FRAME_METHOD, 1, encode_method(method))
        for method, body in contents
    )
    result = events_of(fast, data)
    assert result == events_of(slow, data)
    assert len(result) == len(contents)


def test_the_hot_path_is_used() -> None:
    """Each lane is called: the equality above would hold without lanes, too."""
    header, body = header_of(b"body"), b"body"
    cases: list[tuple[dict[bytes, Lane], Method, ConnectionEvent]] = [
        (SERVER_LANES, m.BasicPublish("e", "k", True), Published(1, "e", "k", True, False, header, body)),
        (CLIENT_LANES, m.BasicDeliver("c", 7, True, "e", "k"), Delivered(1, "c", 7, True, "e", "k", header, body)),
        (SERVER_LANES, m.BasicAck(7, True), Acked(1, 7, True)),
        (CLIENT_LANES, m.BasicAck(7, True), Acked(1, 7, True)),
        (SERVER_LANES, m.BasicNack(7, False, True), Nacked(1, 7, False, True)),
        (CLIENT_LANES, m.BasicNack(7, False, True), Nacked(1, 7, False, True)),
        (SERVER_LANES, m.BasicReject(7, True), Rejected(1, 7, True)),
    ]
    for lanes, method, expected in cases:
        assert lane(lanes, method, content_frames(method, header, body)) == expected


def lane(lanes: dict[bytes, Lane], method: Method, data: bytes, body_max: int = 100) -> ConnectionEvent | None:
    """Return the result of a lane for a method and its content."""
    reader = FrameReader(1000)
    _, channel, start, stop = next(reader.frames(data))
    return lanes[encode_method(method)[:4]](reader, start, stop, channel, body_max, 64)


# Incomplete or malformed input: the lane passes it to the general path, which reports the fault.

PUBLISH, DELIVER = m.BasicPublish("exchange", "key"), m.BasicDeliver("tag", 1, False, "exchange", "key")
HEADER = header_of(b"body", Properties(message_id="m"))
WHOLE_PUBLISH, WHOLE_DELIVER = content_frames(PUBLISH, HEADER, b"body"), content_frames(DELIVER, HEADER, b"body")


def made_server(lanes: bool) -> ServerConnection:
    return open_pair(ServerConnection() if lanes else SlowServer(), ClientConnection()).server


def made_client(lanes: bool) -> ClientConnection:
    return open_pair(ServerConnection(), ClientConnection() if lanes else SlowClient()).client


both_roles = pytest.mark.parametrize(
    ("made", "data"), [(made_server, WHOLE_PUBLISH), (made_client, WHOLE_DELIVER)], ids=["server", "client"]
)


@both_roles
def test_every_changed_byte_gives_the_same_by_both_decoders(made: Callable[[bool], Any], data: bytes) -> None:
    fast_state, slow_state = made(True), made(False)
    for at in range(len(data)):
        for octet in {data[at] ^ 1, 0xFF}:
            changed = data[:at] + bytes([octet]) + data[at + 1 :]
            assert outcome(fast_state, changed, made, True) == outcome(slow_state, changed, made, False)


def outcome(connection: Any, data: bytes, made: Callable[[bool], Any], lanes: bool) -> tuple[list[str], bytes]:
    """Return events and output; with a new connection each time, since many inputs are fatal."""
    connection = made(lanes)
    events = connection.receive(data + WHOLE_PUBLISH, 0.0)
    return [repr(event) for event in events], output(connection)


@both_roles
def test_every_cut_gives_the_same_by_both_decoders(made: Callable[[bool], Any], data: bytes) -> None:
    for at in range(len(data) + 1):
        connection = made(True)
        events = connection.receive(data[:at], 0.0) + connection.receive(data[at:] + data, 0.0)
        assert len(events) == 2
        assert events[0] == events[1]


@pytest.mark.parametrize("size", [0, 3, 8, 9, 15, 16])
def test_short_payloads_use_the_general_decoder(size: int) -> None:
    contents: list[tuple[dict[bytes, Lane], Method]] = [(SERVER_LANES, PUBLISH), (CLIENT_LANES, DELIVER)]
    for lanes, method in contents:
        payload = encode_method(method)[:4] + b"\0" * size
        assert lane(lanes, method, frame(FRAME_METHOD, 1, payload)) is None
    if size != 9:
        for method in (m.BasicAck(), m.BasicNack(), m.BasicReject()):
            payload = encode_method(method)[:4] + b"\0" * size
            assert lane(SERVER_LANES, method, frame(FRAME_METHOD, 1, payload)) is None


def test_bodies_above_the_limit_use_the_general_decoder() -> None:
    assert lane(SERVER_LANES, PUBLISH, WHOLE_PUBLISH, 4) is not None
    assert lane(SERVER_LANES, PUBLISH, WHOLE_PUBLISH, 3) is None


def test_contents_of_two_channels_may_be_mixed() -> None:
    pair = open_pair(ServerConnection(), ClientConnection())
    first, second = (content_frames(PUBLISH, HEADER, b"body", channel) for channel in (1, 2))
    cut = len(frame(FRAME_METHOD, 1, encode_method(PUBLISH)))
    events = pair.server.receive(first[:cut] + second + first[cut:], 0.0)
    assert [event.channel for event in events if isinstance(event, Published)] == [2, 1]


# Writing


@given(publishes, bodies.filter(bool))
def test_publish_is_written_as_the_codec_does(method: m.BasicPublish, body: bytes) -> None:
    header = header_of(body)
    bits = method.mandatory | method.immediate << 1
    written = hot.publish_frames(9, method.exchange, method.routing_key, bits, header.raw, body)
    assert written == content_frames(method, header, body, 9)


@given(deliveries, bodies.filter(bool))
def test_deliver_is_written_as_the_codec_does(method: m.BasicDeliver, body: bytes) -> None:
    header = header_of(body)
    arguments = (method.consumer_tag, method.delivery_tag, method.redelivered, method.exchange, method.routing_key)
    assert hot.deliver_frames(9, *arguments, header.raw, body) == content_frames(method, header, body, 9)


@given(acks, nacks, rejects)
def test_acks_are_written_as_the_codec_does(ack: m.BasicAck, nack: m.BasicNack, reject: m.BasicReject) -> None:
    for written, method in (
        (hot.ack_frame(9, ack.delivery_tag, ack.multiple), ack),
        (hot.nack_frame(9, nack.delivery_tag, nack.multiple, nack.requeue), nack),
        (hot.reject_frame(9, reject.delivery_tag, reject.requeue), reject),
    ):
        assert written == frame(FRAME_METHOD, 9, encode_method(method))


def test_single_bytes_give_the_same_events() -> None:
    pair = opened(cut=octet_by_octet)
    pair.client.publish(1, "e", "k", HEADER, b"body", mandatory=True)
    assert pair.flow()[0] == [Published(1, "e", "k", True, False, HEADER, b"body")]
