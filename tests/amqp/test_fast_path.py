"""The fast path compared with the general path: the same bytes, the same events, the same errors."""

from collections.abc import Callable
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semq.amqp import ClientConnection, ServerConnection, fast_path
from semq.amqp import methods as m
from semq.amqp.codec import encode_method
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Acked, ConnectionEvent, Delivered, Nacked, Published, Rejected
from semq.amqp.fast_path import CLIENT_READERS, SERVER_READERS, FastReader
from semq.amqp.frames import FrameReader, frame
from semq.amqp.methods import Method
from semq.amqp.spec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from tests.amqp.helpers import WirePair, header_of, octet_by_octet, opened, output, short_texts


class SlowServer(ServerConnection):
    """A server that uses the general path for everything."""

    fast_readers: ClassVar[dict[bytes, FastReader]] = {}


class SlowClient(ClientConnection):
    fast_readers: ClassVar[dict[bytes, FastReader]] = {}


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


@settings(max_examples=50)
@given(st.lists(st.tuples(publishes, bodies) | st.tuples(acks | nacks | rejects, st.just(b"")), max_size=5))
def test_a_server_reads_the_same_on_both_paths(contents: list[tuple[Method, bytes]]) -> None:
    fast = open_pair(ServerConnection(), ClientConnection()).server
    slow = open_pair(SlowServer(), ClientConnection()).server
    data = b"".join(
        content_frames(method, header_of(body), body)
        if isinstance(method, m.BasicPublish)
        else frame(FRAME_METHOD, 1, encode_method(method))
        for method, body in contents
    )
    events = events_of(fast, data)
    assert events == events_of(slow, data)
    assert len(events) == len(contents)


@settings(max_examples=50)
@given(st.lists(st.tuples(deliveries, bodies) | st.tuples(acks | nacks, st.just(b"")), max_size=5))
def test_a_client_reads_the_same_on_both_paths(contents: list[tuple[Method, bytes]]) -> None:
    fast = open_pair(ServerConnection(), ClientConnection()).client
    slow = open_pair(ServerConnection(), SlowClient()).client
    data = b"".join(
        content_frames(method, header_of(body), body)
        if isinstance(method, m.BasicDeliver)
        else frame(FRAME_METHOD, 1, encode_method(method))
        for method, body in contents
    )
    events = events_of(fast, data)
    assert events == events_of(slow, data)
    assert len(events) == len(contents)


def test_the_fast_path_is_used() -> None:
    """Without this test, the two above would also pass if no fast reader were used."""
    header, body = header_of(b"body"), b"body"
    cases: list[tuple[dict[bytes, FastReader], Method, ConnectionEvent]] = [
        (SERVER_READERS, m.BasicPublish("e", "k", True), Published(1, "e", "k", True, False, header, body)),
        (CLIENT_READERS, m.BasicDeliver("c", 7, True, "e", "k"), Delivered(1, "c", 7, True, "e", "k", header, body)),
        (SERVER_READERS, m.BasicAck(7, True), Acked(1, 7, True)),
        (CLIENT_READERS, m.BasicAck(7, True), Acked(1, 7, True)),
        (SERVER_READERS, m.BasicNack(7, False, True), Nacked(1, 7, False, True)),
        (CLIENT_READERS, m.BasicNack(7, False, True), Nacked(1, 7, False, True)),
        (SERVER_READERS, m.BasicReject(7, True), Rejected(1, 7, True)),
    ]
    for fast_readers, method, expected in cases:
        assert fast_read(fast_readers, method, content_frames(method, header, body)) == expected


def fast_read(
    fast_readers: dict[bytes, FastReader], method: Method, data: bytes, body_max: int = 100
) -> ConnectionEvent | None:
    """Return the event of a fast reader, or None."""
    reader = FrameReader(1000)
    _, channel, start, stop = next(reader.frames(data))
    return fast_readers[encode_method(method)[:4]](reader, start, stop, channel, body_max, 64)


PUBLISH, DELIVER = m.BasicPublish("exchange", "key"), m.BasicDeliver("tag", 1, False, "exchange", "key")
HEADER = header_of(b"body", Properties(message_id="m"))
PUBLISH_FRAMES, DELIVER_FRAMES = content_frames(PUBLISH, HEADER, b"body"), content_frames(DELIVER, HEADER, b"body")


NewConnection = Callable[[bool], ServerConnection | ClientConnection]


def new_server(has_fast_readers: bool) -> ServerConnection:
    return open_pair(ServerConnection() if has_fast_readers else SlowServer(), ClientConnection()).server


def new_client(has_fast_readers: bool) -> ClientConnection:
    return open_pair(ServerConnection(), ClientConnection() if has_fast_readers else SlowClient()).client


both_roles = pytest.mark.parametrize(
    ("new_connection", "data"),
    [(new_server, PUBLISH_FRAMES), (new_client, DELIVER_FRAMES)],
    ids=["server", "client"],
)


@both_roles
def test_every_changed_byte_gives_the_same_events_on_both_paths(new_connection: NewConnection, data: bytes) -> None:
    for at in range(len(data)):
        for octet in {data[at] ^ 1, 0xFF}:
            changed = data[:at] + bytes([octet]) + data[at + 1 :]
            assert outcome(new_connection(True), changed) == outcome(new_connection(False), changed)


def outcome(connection: ServerConnection | ClientConnection, data: bytes) -> tuple[list[str], bytes]:
    """Return the events of ``data`` and of a content after it, and the output."""
    events = connection.receive(data + PUBLISH_FRAMES, 0.0)
    return [repr(event) for event in events], output(connection)


@both_roles
def test_a_content_cut_anywhere_gives_the_same_event_as_a_complete_one(
    new_connection: NewConnection, data: bytes
) -> None:
    for at in range(len(data) + 1):
        connection = new_connection(True)
        events = connection.receive(data[:at], 0.0) + connection.receive(data[at:] + data, 0.0)
        assert len(events) == 2
        assert events[0] == events[1]


@pytest.mark.parametrize("size", [0, 3, 8, 9, 15, 16])
def test_short_payloads_use_the_general_path(size: int) -> None:
    contents: list[tuple[dict[bytes, FastReader], Method]] = [(SERVER_READERS, PUBLISH), (CLIENT_READERS, DELIVER)]
    for fast_readers, method in contents:
        payload = encode_method(method)[:4] + b"\0" * size
        assert fast_read(fast_readers, method, frame(FRAME_METHOD, 1, payload)) is None
    if size != 9:  # nine bytes are complete: a delivery tag and its bits
        for method in (m.BasicAck(), m.BasicNack(), m.BasicReject()):
            payload = encode_method(method)[:4] + b"\0" * size
            assert fast_read(SERVER_READERS, method, frame(FRAME_METHOD, 1, payload)) is None


def test_bodies_above_the_limit_use_the_general_path() -> None:
    assert fast_read(SERVER_READERS, PUBLISH, PUBLISH_FRAMES, 4) is not None
    assert fast_read(SERVER_READERS, PUBLISH, PUBLISH_FRAMES, 3) is None


def test_contents_of_two_channels_may_be_mixed() -> None:
    pair = open_pair(ServerConnection(), ClientConnection())
    first, second = (content_frames(PUBLISH, HEADER, b"body", channel) for channel in (1, 2))
    cut = len(frame(FRAME_METHOD, 1, encode_method(PUBLISH)))
    events = pair.server.receive(first[:cut] + second + first[cut:], 0.0)
    assert [event.channel for event in events if isinstance(event, Published)] == [2, 1]


@given(publishes, bodies.filter(bool))
def test_publish_is_written_as_the_codec_does(method: m.BasicPublish, body: bytes) -> None:
    header = header_of(body)
    bits = method.mandatory | method.immediate << 1
    written = fast_path.publish_frames(9, method.exchange, method.routing_key, bits, header.raw, body)
    assert written == content_frames(method, header, body, 9)


@given(deliveries, bodies.filter(bool))
def test_deliver_is_written_as_the_codec_does(method: m.BasicDeliver, body: bytes) -> None:
    header = header_of(body)
    arguments = (method.consumer_tag, method.delivery_tag, method.redelivered, method.exchange, method.routing_key)
    assert fast_path.deliver_frames(9, *arguments, header.raw, body) == content_frames(method, header, body, 9)


@given(acks, nacks, rejects)
def test_acks_are_written_as_the_codec_does(ack: m.BasicAck, nack: m.BasicNack, reject: m.BasicReject) -> None:
    for written, method in (
        (fast_path.ack_frame(9, ack.delivery_tag, ack.multiple), ack),
        (fast_path.nack_frame(9, nack.delivery_tag, nack.multiple, nack.requeue), nack),
        (fast_path.reject_frame(9, reject.delivery_tag, reject.requeue), reject),
    ):
        assert written == frame(FRAME_METHOD, 9, encode_method(method))


def test_a_content_that_arrives_octet_by_octet_is_published() -> None:
    pair = opened(cut=octet_by_octet)
    pair.client.publish(1, "e", "k", HEADER, b"body", mandatory=True)
    assert pair.flow()[0] == [Published(1, "e", "k", True, False, HEADER, b"body")]
