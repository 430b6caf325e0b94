"""Fuzzing: for any input, a connection raises no error, sends valid output, and can be ended."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semq.amqp import ClientConnection, ConnectionLimits, ServerConnection
from semq.amqp import methods as m
from semq.amqp.codec import encode_method
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError, LocalMisuse
from semq.amqp.events import (
    Acked,
    ChannelClosed,
    ChannelOpened,
    ChannelReleased,
    ConnectionClosed,
    ConnectionEvent,
    ConnectionFailed,
    LoginOffered,
    Opened,
    OpenRequested,
)
from semq.amqp.frames import frame
from semq.amqp.spec import FRAME_METHOD, PROTOCOL_HEADER
from tests.amqp.helpers import (
    AnsweringServer,
    WirePair,
    header_of,
    methods,
    open_channels,
    opened,
    output,
    pamqp_frames,
)

LIMITS = ConnectionLimits(
    frame_max=4096, channel_max=4, body_max=2000, arriving_max=3000, stream_from=500, table_depth=5
)
AnyConnection: TypeAlias = ServerConnection | ClientConnection


class InvariantWatch:
    """Feeds bytes to a connection, answers its events as an owner does, and checks its invariants."""

    def __init__(self, connection: AnyConnection) -> None:
        self.connection = connection
        self.failed: list[ConnectionFailed] = []
        self.closed: list[ConnectionClosed] = []
        self.open = set(open_channels(connection))

    def feed(self, data: bytes) -> None:
        for event in self.connection.receive(data, 0.0):
            self.check(event)
            self.answer(event)
        assert set(open_channels(self.connection)) <= self.open
        check_output(output(self.connection))

    def check(self, event: ConnectionEvent) -> None:
        assert not self.closed, "no event follows ConnectionClosed"
        match event:
            case ConnectionClosed():
                self.closed.append(event)
            case ConnectionFailed():
                assert not self.failed
                self.failed.append(event)
            case ChannelOpened(channel):
                assert channel not in self.open
                self.open.add(channel)
            case ChannelClosed(channel):
                assert channel in self.open or isinstance(self.connection, ClientConnection)
                self.open.discard(channel)
            case _:
                assert not self.failed, "only ConnectionClosed follows ConnectionFailed"

    def answer(self, event: ConnectionEvent) -> None:
        """Accept all as a server; as a client open channels, send a request, and close."""
        connection = self.connection
        with suppress(LocalMisuse):  # the connection may have ended before the answer
            match connection, event:
                case AnsweringServer(), LoginOffered():
                    connection.accept_login()
                case AnsweringServer(), OpenRequested():
                    connection.accept_open()
                case ClientConnection(), Opened():
                    connection.open_channel(1)
                    connection.open_channel(2)
                case ClientConnection(), ChannelOpened(2):
                    connection.send(1, m.QueueDeclare("q"))
                case ClientConnection(), Acked():
                    connection.close_channel(2)
                case ClientConnection(), ChannelReleased(2):
                    connection.close()

    def end(self) -> None:
        """Check that the end of the socket ends the connection."""
        for event in self.connection.receive_eof(1.0):
            self.check(event)
        (closed,) = self.closed
        assert closed.error is None or isinstance(closed.error, AmqpError)
        assert self.connection.next_deadline is None


def check_output(data: bytes) -> None:
    pamqp_frames(data.removeprefix(PROTOCOL_HEADER))


def fresh_server() -> AnyConnection:
    server = AnsweringServer(LIMITS)
    server.start(0.0)
    server.receive(PROTOCOL_HEADER, 0.0)
    return server


def fresh_client() -> AnyConnection:
    client = ClientConnection(LIMITS)
    client.start(0.0)
    return client


NEW_CONNECTIONS: dict[str, Callable[[], AnyConnection]] = {
    "new server": fresh_server,
    "new client": fresh_client,
    "open server": lambda: opened(LIMITS, channels=2).server,
    "open client": lambda: opened(LIMITS, LIMITS, channels=2).client,
}
every_connection = pytest.mark.parametrize("new_connection", NEW_CONNECTIONS.values(), ids=list(NEW_CONNECTIONS))

payloads = (
    methods.map(encode_method)
    | st.binary(max_size=40)
    | st.integers(0, 3000).map(lambda size: ContentHeader.build(size, Properties(message_id="m")).raw)
)
frames = st.builds(frame, st.sampled_from([1, 1, 1, 2, 3, 3, 8, 4]), st.integers(0, 3), payloads)


@every_connection
@settings(max_examples=40)
@given(st.lists(st.binary(max_size=60), max_size=5))
def test_random_bytes_break_no_invariant(new_connection: Callable[[], AnyConnection], parts: list[bytes]) -> None:
    watch = InvariantWatch(new_connection())
    for part in parts:
        watch.feed(part)
    watch.end()


@every_connection
@settings(max_examples=50)
@given(st.lists(frames, max_size=10))
def test_random_frames_break_no_invariant(new_connection: Callable[[], AnyConnection], parts: list[bytes]) -> None:
    watch = InvariantWatch(new_connection())
    for part in parts:
        watch.feed(part)
    watch.end()


def conversation() -> dict[str, list[bytes]]:
    """Return the bytes that a server and a client send in one conversation, in the pieces that were carried."""
    pair = WirePair(AnsweringServer(LIMITS), ClientConnection(LIMITS))
    sent: dict[str, list[bytes]] = {"server": [], "client": []}

    def carry() -> None:
        while pair.server.output_size or pair.client.output_size:
            to_server, to_client = output(pair.client), output(pair.server)
            sent["client"].append(to_server)
            sent["server"].append(to_client)
            pair.feed(pair.server, to_server)
            pair.feed(pair.client, to_client)

    carry()
    pair.server.accept_login()
    carry()
    pair.server.accept_open()
    carry()
    pair.client.open_channel()
    pair.client.open_channel()
    carry()
    pair.client.send(1, m.QueueDeclare("q", durable=True, arguments={"x-max-length": 5, "x": {"y": [1, None]}}))
    carry()
    pair.server.send(1, m.QueueDeclareOk("q", 1, 2))
    header = header_of(b"body", Properties(headers={"@SaveFwd": 3}, message_id="1.2.3"))
    pair.client.publish(1, "e", "k", header, b"body", mandatory=True)
    pair.client.publish(2, "e", "k", header_of(bytes(1500)), bytes(1500))
    pair.server.deliver(1, "c", 1, False, "e", "k", header, b"body")
    pair.server.send_content(2, m.BasicReturn(312, "NO_ROUTE", "e", "k"), header, b"body")
    carry()
    pair.client.ack(1, 1)
    pair.server.ack(1, 1)
    pair.client.close_channel(2)
    carry()
    pair.client.close()
    carry()
    return sent


CONVERSATION = conversation()


@pytest.mark.parametrize("role", ["server", "client"])
def test_the_recorded_conversation_ends_without_an_error(role: str) -> None:
    watch = replay(role, b"".join(bytes_to(role)))
    assert watch.failed == []
    assert watch.closed[0].error is None


def bytes_to(role: str) -> list[bytes]:
    return CONVERSATION["client" if role == "server" else "server"]


def replay(role: str, data: bytes) -> InvariantWatch:
    """Feed ``data`` to a new connection of this role, in pieces of the recorded sizes; return the watch on this
    connection.
    """
    connection: AnyConnection = AnsweringServer(LIMITS) if role == "server" else ClientConnection(LIMITS)
    connection.start(0.0)
    watch = InvariantWatch(connection)
    for piece in bytes_to(role):
        watch.feed(data[: len(piece)])
        data = data[len(piece) :]
    watch.feed(data)
    return watch


@pytest.mark.parametrize("role", ["server", "client"])
@settings(max_examples=80)
@given(data=st.data())
def test_a_changed_conversation_breaks_no_invariant(role: str, data: st.DataObject) -> None:
    octets = bytearray(b"".join(bytes_to(role)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(octets) - 1))
        change = data.draw(st.sampled_from(["set", "remove", "double", "insert"]))
        size = data.draw(st.integers(1, 20))
        if change == "set":
            octets[at] = data.draw(st.integers(0, 255))
        elif change == "remove":
            del octets[at : at + size]
        elif change == "double":
            octets[at:at] = octets[at : at + size]
        else:
            octets[at:at] = data.draw(st.binary(max_size=size))
    replay(role, bytes(octets)).end()


@pytest.mark.parametrize("role", ["server", "client"])
def test_a_conversation_cut_off_early_breaks_no_invariant(role: str) -> None:
    octets = b"".join(bytes_to(role))
    for size in range(0, len(octets), 7):
        replay(role, octets[:size]).end()


def test_no_method_on_any_channel_breaks_an_invariant() -> None:
    for method in [kind() for kind in m.METHODS.values()]:
        for channel in (0, 1, 3):
            for new_connection in (NEW_CONNECTIONS["open server"], NEW_CONNECTIONS["open client"]):
                watch = InvariantWatch(new_connection())
                watch.feed(frame(FRAME_METHOD, channel, encode_method(method)))
                watch.end()
