"""Shared code of the AMQP tests: two connections and a wire, strategies, and pamqp as an independent reader."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import pamqp.frame
from hypothesis import strategies as st

from semq.amqp import ClientConnection, ConnectionLimits, ServerConnection, sasl
from semq.amqp.connection.states import ChannelState
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import (
    ChannelClosed,
    CloseRequested,
    ConnectionEvent,
    ConnectionFailed,
    FlowChanged,
    LoginOffered,
    OpenRequested,
)
from semq.amqp.methods import METHODS, ChannelFlowOk, Method
from semq.amqp.wire import Timestamp, encode_table

Cut = Callable[[bytes], Iterable[bytes]]


def amqplain(user: str, password: str) -> bytes:
    """Return the response of a client for AMQPLAIN."""
    return encode_table({"LOGIN": user, "PASSWORD": password})[4:]


def in_one_piece(data: bytes) -> Iterable[bytes]:
    return [data]


def octet_by_octet(data: bytes) -> Iterable[bytes]:
    return (data[at : at + 1] for at in range(len(data)))


class AnsweringServer(ServerConnection):
    """A server whose owner answers closes, flow and errors at once."""

    def receive(self, data: bytes | bytearray | memoryview, now: float) -> list[ConnectionEvent]:
        events = super().receive(data, now)
        for event in events:
            match event:
                case CloseRequested():
                    self.accept_close()
                case ConnectionFailed(error=error):
                    self.connection_error(error)
                case ChannelClosed(channel=channel, by_peer=True):
                    self.accept_channel_close(channel)
                case ChannelClosed(channel=channel, error=error) if error is not None:
                    self.channel_error(channel, error)
                case FlowChanged(channel=channel, active=active):
                    self.send(channel, ChannelFlowOk(active))
        return [event for event in events if not isinstance(event, CloseRequested)] + self._take_events()


class WirePair:
    """A server and a client on one wire; ``cut`` divides the bytes that the wire carries."""

    def __init__(
        self,
        server: ServerConnection | None = None,
        client: ClientConnection | None = None,
        cut: Cut = in_one_piece,
    ) -> None:
        self.server = server or AnsweringServer()
        self.client = client or ClientConnection(response=sasl.plain("guest", "guest"))
        self.cut = cut
        self.now = 0.0
        self.server.start(self.now)
        self.client.start(self.now)

    def step(self) -> tuple[list[ConnectionEvent], list[ConnectionEvent]]:
        """Carry the waiting bytes once in each direction; return the events of the server and of the client."""
        to_server, to_client = output(self.client), output(self.server)
        return self.feed(self.server, to_server), self.feed(self.client, to_client)

    def feed(self, connection: ServerConnection | ClientConnection, data: bytes) -> list[ConnectionEvent]:
        return [event for part in self.cut(data) for event in connection.receive(part, self.now)]

    def flow(self) -> tuple[list[ConnectionEvent], list[ConnectionEvent]]:
        """Carry bytes until none wait; return the events of the server and of the client."""
        at_server: list[ConnectionEvent] = []
        at_client: list[ConnectionEvent] = []
        while self.server.output_size or self.client.output_size:
            server_events, client_events = self.step()
            at_server += server_events
            at_client += client_events
        return at_server, at_client

    def negotiate(self) -> "WirePair":
        at_server, _ = self.flow()
        assert isinstance(at_server[-1], LoginOffered)
        self.server.accept_login()
        at_server, _ = self.flow()
        assert isinstance(at_server[-1], OpenRequested)
        self.server.accept_open()
        self.flow()
        assert self.server.is_open
        assert self.client.is_open
        return self


def opened(
    server_limits: ConnectionLimits | None = None,
    client_limits: ConnectionLimits | None = None,
    *,
    cut: Cut = in_one_piece,
    channels: int = 1,
    **client: Any,
) -> WirePair:
    """Return a negotiated pair; ``client`` has further arguments of the ClientConnection."""
    pair = WirePair(AnsweringServer(server_limits), ClientConnection(client_limits, **client), cut).negotiate()
    for _ in range(channels):
        pair.client.open_channel()
    pair.flow()
    return pair


def open_channels(connection: ServerConnection | ClientConnection) -> list[int]:
    return sorted(number for number, channel in connection._channels.items() if channel.state is ChannelState.OPEN)


def output(connection: ServerConnection | ClientConnection) -> bytes:
    return b"".join(connection.take_output())


def header_of(body: bytes, properties: Properties | None = None) -> ContentHeader:
    return ContentHeader.build(len(body), properties or Properties())


def pamqp_frames(data: bytes) -> list[tuple[int, Any]]:
    """Return channel and frame of each frame in ``data``, as pamqp reads it."""
    frames = []
    while data:
        size, channel, frame = pamqp.frame.unmarshal(data)
        frames.append((channel, frame))
        data = data[size:]
    return frames


# Values

short_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    | st.binary(max_size=40)
    | st.builds(Timestamp, st.integers(0, (1 << 64) - 1))
    | st.builds(
        lambda number, places: Decimal(number).scaleb(-places),
        st.integers(-(1 << 31), (1 << 31) - 1),
        st.integers(0, 255),
    )
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(short_texts, inner, max_size=3), max_leaves=5
)
tables = st.dictionaries(short_texts, values, max_size=4)

ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "bit": st.booleans(),
    "octet": st.integers(0, 255),
    "short": st.integers(0, (1 << 16) - 1),
    "long": st.integers(0, (1 << 32) - 1),
    "longlong": st.integers(0, (1 << 64) - 1),
    "timestamp": st.integers(0, (1 << 64) - 1),
    "shortstr": short_texts,
    "longstr": st.binary(max_size=60),
    "table": tables,
}


def methods_of(
    kind: type[Method], narrower: dict[str, st.SearchStrategy[Any]] | None = None
) -> st.SearchStrategy[Method]:
    """Return a strategy for instances of one method; ``narrower`` replaces strategies of ``ARGUMENTS``."""
    strategies = ARGUMENTS | (narrower or {})
    values = [strategies[argument.kind] for argument in kind.row.arguments if argument.name]
    return st.tuples(*values).map(lambda arguments: kind(*arguments))


methods = st.sampled_from(list(METHODS.values())).flatmap(methods_of)
properties = st.fixed_dictionaries(
    {
        name: st.none() | strategy
        for name, strategy in {
            "content_type": short_texts,
            "content_encoding": short_texts,
            "headers": tables,
            "delivery_mode": ARGUMENTS["octet"],
            "priority": ARGUMENTS["octet"],
            "correlation_id": short_texts,
            "reply_to": short_texts,
            "expiration": short_texts,
            "message_id": short_texts,
            "timestamp": ARGUMENTS["timestamp"],
            "type": short_texts,
            "user_id": short_texts,
            "app_id": short_texts,
            "cluster_id": short_texts,
        }.items()
    }
).map(lambda values: Properties(**values))
