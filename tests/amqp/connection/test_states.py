"""Each cell of the grids, tried with real connections."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from semq.amqp import ClientConnection, ServerConnection
from semq.amqp import methods as m
from semq.amqp.codec import encode_method
from semq.amqp.connection.states import (
    CLIENT,
    CLIENT_CHANNEL,
    SERVER,
    SERVER_CHANNEL,
    Cell,
    ChannelState,
    ConnectionState,
    read_grid,
)
from semq.amqp.errors import CommandInvalid, ConnectionException, ContentTooLarge, FrameError
from semq.amqp.events import ConnectionClosed, ConnectionEvent, ConnectionFailed
from semq.amqp.frames import frame
from semq.amqp.methods import Method
from semq.amqp.spec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, PROTOCOL_HEADER
from tests.amqp.helpers import WirePair, header_of

AnyConnection: TypeAlias = ServerConnection | ClientConnection


def octets(method: Method, channel: int = 0) -> bytes:
    return frame(FRAME_METHOD, channel, encode_method(method))


# Each step leads to its state from the state before.

LOGIN = m.ConnectionStartOk()
SERVER_STEPS: list[tuple[ConnectionState, Callable[[ServerConnection], object]]] = [
    (ConnectionState.START_SENT, lambda server: server.receive(PROTOCOL_HEADER, 0)),
    (ConnectionState.LOGIN_RECEIVED, lambda server: server.receive(octets(LOGIN), 0)),
    (ConnectionState.TUNE_SENT, lambda server: server.accept_login()),
    (ConnectionState.TUNED, lambda server: server.receive(octets(m.ConnectionTuneOk()), 0)),
    (ConnectionState.OPEN_RECEIVED, lambda server: server.receive(octets(m.ConnectionOpen()), 0)),
    (ConnectionState.OPEN, lambda server: server.accept_open()),
    (ConnectionState.FAILED, lambda server: server.fail(FrameError("wrong"))),
    (ConnectionState.CLOSE_REQUESTED, lambda server: server.receive(octets(m.ConnectionClose()), 0)),
    (ConnectionState.CLOSING, lambda server: server.close()),
]
CLIENT_STEPS: list[tuple[ConnectionState, Callable[[ClientConnection], object]]] = [
    (ConnectionState.HEADER_SENT, lambda client: None),
    (ConnectionState.LOGIN_SENT, lambda client: client.receive(octets(m.ConnectionStart()), 0)),
    (ConnectionState.OPEN_SENT, lambda client: client.receive(octets(m.ConnectionTune()), 0)),
    (ConnectionState.OPEN, lambda client: client.receive(octets(m.ConnectionOpenOk()), 0)),
    (ConnectionState.CLOSING, lambda client: client.close()),
]


def server_in(state: ConnectionState) -> ServerConnection:
    server = ServerConnection()
    server.start(0)
    for reached, step in SERVER_STEPS:
        if reached is ConnectionState.FAILED and state is not reached:
            continue
        step(server)
        if reached is state:
            break
    server.take_output()
    return server


def client_in(state: ConnectionState) -> ClientConnection:
    client = ClientConnection()
    client.start(0)
    for reached, step in CLIENT_STEPS:
        step(client)
        if reached is ConnectionState.OPEN:
            client.send(0, m.ConnectionUpdateSecret(b"new"))  # so that update-secret-ok is a reply
        if reached is state:
            break
    client.take_output()
    return client


METHODS_BY_WORD: dict[str, Method] = {
    "start": m.ConnectionStart(),
    "start-ok": LOGIN,
    "secure": m.ConnectionSecure(),
    "secure-ok": m.ConnectionSecureOk(),
    "tune": m.ConnectionTune(),
    "tune-ok": m.ConnectionTuneOk(),
    "open": m.ConnectionOpen(),
    "open-ok": m.ConnectionOpenOk(),
    "close": m.ConnectionClose(),
    "close-ok": m.ConnectionCloseOk(),
    "blocked": m.ConnectionBlocked("memory"),
    "unblocked": m.ConnectionUnblocked(),
    "update-secret": m.ConnectionUpdateSecret(b"x"),
    "update-secret-ok": m.ConnectionUpdateSecretOk(),
}


def check_cell(
    connection: AnyConnection, state: ConnectionState, word: str, cell: Cell[ConnectionState], on_channel: Method
) -> None:
    data = octets(on_channel, 1) if word == "channel" else octets(METHODS_BY_WORD[word])
    events = connection.receive(data, 0)
    if cell.error is not None:
        check_refused(connection, events, cell.error, before_start=state is ConnectionState.HEADER_SENT)
    elif not cell.action:
        assert (events, connection.output_size, connection._state) == ([], 0, state)
    else:
        assert connection._state is (cell.state or state)
        assert not any(isinstance(event, ConnectionFailed) for event in events)
        assert events or connection.output_size or cell.action == "repeated"


def check_refused(
    connection: AnyConnection,
    events: list[ConnectionEvent],
    error: type[ConnectionException],
    before_start: bool = False,
) -> None:
    (event,) = events
    if before_start:
        assert isinstance(event, ConnectionClosed)
        assert connection.is_closed
    else:
        assert isinstance(event, ConnectionFailed)
        if connection._state is ConnectionState.FAILED:
            connection.connection_error(event.error)  # the owner of a server answers in turn
        assert connection._state is ConnectionState.CLOSING
        assert connection.output_size
    assert type(event.error) is error


SERVER_CELLS = [(state, word) for state, row in SERVER.items() for word in row]
CLIENT_CELLS = [(state, word) for state, row in CLIENT.items() for word in row]


@pytest.mark.parametrize(("state", "word"), SERVER_CELLS)
def test_a_server_accepts_the_methods_of_its_state(state: ConnectionState, word: str) -> None:
    server = server_in(state)
    assert server._state is state
    check_cell(server, state, word, SERVER[state][word], m.ChannelOpen())


@pytest.mark.parametrize(("state", "word"), CLIENT_CELLS)
def test_a_client_accepts_the_methods_of_its_state(state: ConnectionState, word: str) -> None:
    client = client_in(state)
    assert client._state is state
    if state is ConnectionState.OPEN and word == "channel":
        client.open_channel(1)
    check_cell(client, state, word, CLIENT[state][word], m.ChannelOpenOk())


def test_every_state_has_a_row_with_all_methods() -> None:
    assert set(SERVER) | set(CLIENT) == set(ConnectionState) - {
        ConnectionState.NEW,
        ConnectionState.CLOSE_RECEIVED,
        ConnectionState.CLOSED,
    }
    assert set(CLIENT_CHANNEL) | set(SERVER_CHANNEL) == set(ChannelState)
    for grid in (SERVER, CLIENT):
        assert len({frozenset(row) for row in grid.values()}) == 1
    for channel_grid in (SERVER_CHANNEL, CLIENT_CHANNEL):
        assert len({frozenset(row) for row in channel_grid.values()}) == 1


# Channels


def at_channel(role: str, state: ChannelState) -> AnyConnection:
    pair = WirePair(ServerConnection()).negotiate()
    if state not in {ChannelState.NONE, ChannelState.OPENING}:
        pair.client.open_channel()
        pair.flow()
    if state is ChannelState.OPENING:
        pair.client.open_channel()
    connection = pair.server if role == "S" else pair.client
    if state is ChannelState.CLOSING:
        connection.close_channel(1)
    elif state is ChannelState.FAILED:
        pair.server._fail_channel(pair.server._channels[1], ContentTooLarge("x"))
        pair.server._take_events()
    elif state in {ChannelState.CLOSE_REQUESTED, ChannelState.CROSSED}:
        connection.receive(octets(m.ChannelClose(), 1), 0)
        if state is ChannelState.CROSSED:
            connection.close_channel(1)
    connection.take_output()
    return connection


CHANNEL_METHODS: dict[str, Method] = {
    "open": m.ChannelOpen(),
    "open-ok": m.ChannelOpenOk(),
    "flow": m.ChannelFlow(False),
    "close": m.ChannelClose(),
    "close-ok": m.ChannelCloseOk(),
}
# a method outside class channel that each role may receive
OTHER: dict[str, Method] = {"S": m.QueueDeclare("q"), "C": m.BasicCancel("c", True)}
GRIDS = {"S": SERVER_CHANNEL, "C": CLIENT_CHANNEL}
CHANNEL_CELLS = [(role, state, word) for role, grid in GRIDS.items() for state, row in grid.items() for word in row]
IGNORING = {ChannelState.FAILED, ChannelState.CLOSE_REQUESTED, ChannelState.CLOSING, ChannelState.CROSSED}


@pytest.mark.parametrize(("role", "state", "word"), CHANNEL_CELLS)
def test_a_channel_accepts_the_methods_of_its_state(role: str, state: ChannelState, word: str) -> None:
    connection, cell = at_channel(role, state), GRIDS[role][state][word]
    method = OTHER[role] if word == "other" else CHANNEL_METHODS[word]
    events = connection.receive(octets(method, 1), 0)
    if connection.peer not in method.row.senders:
        expected: type[ConnectionException] | None = None if state in IGNORING else CommandInvalid
    else:
        expected = cell.error
    if expected is not None:
        check_refused(connection, events, expected)
        return
    assert connection.is_open
    channel = connection._channels.get(1)
    assert (channel.state if channel else ChannelState.NONE) is (cell.state or state)
    assert bool(events or connection.output_size) == bool(cell.action)


@pytest.mark.parametrize("kind", [FRAME_HEADER, FRAME_BODY])
@pytest.mark.parametrize(("role", "state"), [(role, state) for role, grid in GRIDS.items() for state in grid])
def test_content_frames_are_accepted_in_the_states_of_other_methods(role: str, state: ChannelState, kind: int) -> None:
    connection = at_channel(role, state)
    payload = header_of(b"x").raw if kind == FRAME_HEADER else b"x"
    events = connection.receive(frame(kind, 1, payload), 0)
    cell = GRIDS[role][state]["other"]
    if cell.error is not None:
        check_refused(connection, events, cell.error)
    elif state in IGNORING:
        assert (events, connection.output_size) == ([], 0)
    else:
        assert events[0].error.reply_code == 505  # type: ignore[attr-defined]


# The reader of grids


@pytest.mark.parametrize(
    "text",
    [
        "state open\nNOWHERE .",
        "state open\nOPEN NOWHERE:action",
        "state open\nOPEN !999",
        "state open close\nOPEN .",
    ],
)
def test_an_unknown_word_in_a_grid_is_refused(text: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        read_grid(text, ChannelState)


def test_every_action_of_the_grids_has_a_method() -> None:
    for role, grid in ((ServerConnection, SERVER), (ClientConnection, CLIENT)):
        actions = {cell.action for row in grid.values() for cell in row.values()} - {"", "traffic"}
        assert [action for action in actions if not hasattr(role, f"_on_{action}")] == []
        actions = {cell.action for row in role.channel_grid.values() for cell in row.values()} - {""}
        assert [action for action in actions if not hasattr(role, f"_on_channel_{action}")] == []
