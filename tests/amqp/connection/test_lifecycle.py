"""Start, heartbeats, deadlines, and every way in which a connection or a channel ends."""

import pytest

from semq.amqp import ClientConnection, ConnectionLimits, ServerConnection
from semq.amqp import methods as m
from semq.amqp.codec import encode_method
from semq.amqp.errors import (
    AmqpError,
    Blame,
    ConnectionForced,
    FrameError,
    InternalError,
    LocalMisuse,
    NotFound,
    PeerGone,
    PeerSilent,
    PreconditionFailed,
    TooSlow,
)
from semq.amqp.events import ChannelClosed, ChannelReleased, ConnectionClosed, ConnectionEvent
from semq.amqp.frames import HEARTBEAT_FRAME, frame
from semq.amqp.spec import FRAME_METHOD
from tests.amqp.helpers import AnsweringServer, WirePair, open_channels, opened, output, pamqp_frames

BEATING = ConnectionLimits(heartbeat=10)


def closed(events: list[ConnectionEvent]) -> ConnectionClosed:
    (event,) = events
    assert isinstance(event, ConnectionClosed)
    return event


def due(connection: ServerConnection | ClientConnection) -> float | None:
    return connection.next_deadline


# Starting


def test_a_connection_is_started_once() -> None:
    server = AnsweringServer()
    with pytest.raises(LocalMisuse):
        server.receive(b"AMQP", 0)
    server.start(0)
    with pytest.raises(LocalMisuse):
        server.start(0)


def test_a_slow_negotiation_is_given_up() -> None:
    for connection in (
        AnsweringServer(ConnectionLimits(handshake_s=3)),
        ClientConnection(ConnectionLimits(handshake_s=3)),
    ):
        connection.start(100)
        assert due(connection) == 103
        assert connection.tick(102.9) == []
        event = closed(connection.tick(103))
        assert isinstance(event.error, TooSlow)
        assert not event.pause
        assert due(connection) is None
        assert connection.tick(104) == []


def test_a_finished_negotiation_has_no_deadline() -> None:
    pair = opened(ConnectionLimits(heartbeat=0), ConnectionLimits(heartbeat=0))
    assert pair.client.next_deadline is None
    assert pair.server.next_deadline is None
    assert pair.server.tick(1e9) == []


# Heartbeats


def test_heartbeats_are_sent_when_there_is_no_other_output() -> None:
    pair = opened(BEATING)
    assert pair.server.heartbeat == pair.client.heartbeat == 10
    assert pair.server.next_deadline == 5
    assert pair.server.tick(4.9) == []
    assert pair.server.output_size == 0
    pair.server.tick(5)
    assert output(pair.server) == HEARTBEAT_FRAME
    assert pair.server.next_deadline == 10


def test_any_output_counts_as_a_heartbeat() -> None:
    pair = opened(BEATING)
    pair.client.receive(HEARTBEAT_FRAME, 4)
    pair.client.ack(1, 1)
    pair.client.take_output()
    assert pair.client.next_deadline == 9


def test_any_byte_counts_as_a_sign_of_life() -> None:
    pair = opened(BEATING)
    pair.server.receive(b"\x08", 19)  # an incomplete frame
    pair.server.tick(20)
    assert not pair.server.is_closed
    event = closed(pair.server.tick(39))
    assert isinstance(event.error, PeerSilent)
    assert not event.by_peer


def test_heartbeats_continue_while_closing() -> None:
    pair = opened(BEATING, ConnectionLimits(close_s=100))
    pair.client.close()
    output(pair.client)
    pair.client.tick(5)
    assert output(pair.client) == HEARTBEAT_FRAME
    assert isinstance(closed(pair.client.tick(20)).error, PeerSilent)


# Closing by connection.close


def test_a_client_closes_its_connection_in_an_orderly_way() -> None:
    pair = opened()
    pair.client.close()
    assert pair.client.next_deadline == 10
    at_server, at_client = pair.flow()
    assert at_server == [ConnectionClosed(None, True, False)]
    assert at_client == [ConnectionClosed(None, False, False)]
    assert pair.client.is_closed
    assert pair.server.is_closed


def test_both_sides_may_close_the_connection_at_once() -> None:
    pair = opened()
    pair.client.close()
    pair.server.close(320, "stopping")
    at_server, at_client = pair.flow()
    assert at_server == [ConnectionClosed(None, False, False)]
    assert at_client == [ConnectionClosed(None, False, False)]


def test_a_forced_close_by_the_server_is_reported_at_both_sides() -> None:
    pair = opened()
    pair.server.connection_error(ConnectionForced("stopping"))
    at_server, at_client = pair.flow()
    client_event, server_event = closed(at_client), closed(at_server)
    assert isinstance(client_event.error, ConnectionForced)
    assert client_event.error.text == "CONNECTION_FORCED - stopping"
    assert client_event.error.blame is Blame.LOCAL
    assert client_event.by_peer
    assert isinstance(server_event.error, ConnectionForced)
    assert not server_event.by_peer


def test_after_close_everything_but_close_ok_is_ignored() -> None:
    pair = opened()
    pair.server.close()
    pair.client.send(1, m.QueueDeclare("q"))
    data = output(pair.client) + frame(FRAME_METHOD, 1, b"nonsense") + frame(3, 9, b"x") + frame(2, 0, b"")
    assert pair.server.receive(data, 0) == []
    pair.client.close_channel(1)  # before connection.close has arrived
    assert pair.server.receive(output(pair.client), 0) == []
    output(pair.server)
    assert closed(pair.server.receive(frame(FRAME_METHOD, 0, encode_method(m.ConnectionCloseOk())), 0)).error is None
    assert pair.server.receive(b"anything", 0) == []
    assert pair.server.output_size == 0


def test_a_connection_whose_close_is_not_answered_ends_after_a_time() -> None:
    pair = opened(ConnectionLimits(close_s=2, heartbeat=0))
    pair.server.close()
    assert pair.server.next_deadline == 2
    assert isinstance(closed(pair.server.tick(2)).error, TooSlow)


def test_a_connection_whose_error_is_not_answered_by_its_owner_ends_after_a_time() -> None:
    pair = opened(ConnectionLimits(close_s=2, heartbeat=0))
    pair.server.fail(FrameError("wrong"))
    assert pair.server.next_deadline == 2
    assert "the close was not completed in time" in str(closed(pair.server.tick(2)).error)


def test_closing_again_does_nothing() -> None:
    pair = opened()
    pair.client.close()
    size = pair.client.output_size
    pair.client.close()
    pair.client.connection_error(InternalError("x"))
    pair.client.close_channel(1)
    pair.client.channel_error(1, NotFound("x"))
    assert pair.client.output_size == size
    pair.flow()
    pair.client.close()
    assert pair.client.output_size == 0


def test_a_long_text_of_a_close_is_cut() -> None:
    pair = opened()
    pair.client.close(200, "é" * 300)
    _, frame_ = pamqp_frames(output(pair.client))[0]
    assert frame_.reply_text == "é" * 127


@pytest.mark.parametrize("connection", [AnsweringServer(), ClientConnection()])
def test_a_connection_closed_before_connection_start_sends_nothing_more(
    connection: ServerConnection | ClientConnection,
) -> None:
    connection.start(0)
    connection.take_output()
    connection.close()
    assert connection.is_closed
    assert connection.output_size == 0
    assert connection.next_deadline == 0  # an event waits
    assert closed(connection.tick(1)).error is None


# Closing of the socket without connection.close


def test_a_closed_socket_ends_an_open_connection_as_peer_gone() -> None:
    pair = opened()
    event = closed(pair.server.receive_eof(1))
    assert isinstance(event.error, PeerGone)
    assert pair.server.receive_eof(2) == []


def test_a_closed_socket_ends_a_closing_connection_with_the_reason_of_the_close() -> None:
    pair = opened()
    pair.server.connection_error(InternalError("broken"))
    assert isinstance(closed(pair.server.receive_eof(1)).error, InternalError)
    pair.client.close()
    assert closed(pair.client.receive_eof(1)).error is None


# Channels


def test_either_side_may_close_a_channel() -> None:
    for by_client in (True, False):
        pair = opened(channels=2)
        (pair.client if by_client else pair.server).close_channel(1, text="done")
        at_server, at_client = pair.flow()
        assert (at_client if by_client else at_server) == [ChannelReleased(1)]
        assert (at_server if by_client else at_client) == [ChannelClosed(1, True, None)]
        assert open_channels(pair.client) == open_channels(pair.server) == [2]


def test_a_channel_error_names_the_method() -> None:
    pair = opened(channels=2)
    pair.server.channel_error(1, NotFound("no queue 'q'", 50, 10))
    at_server, at_client = pair.flow()
    (event,) = at_client
    assert isinstance(event, ChannelClosed)
    assert isinstance(event.error, NotFound)
    assert event.error.ids == (50, 10)
    assert event.error.text == "NOT_FOUND - no queue 'q'"
    assert at_server == [ChannelReleased(1)]
    assert open_channels(pair.client) == [2]


def test_both_sides_may_close_a_channel_at_once() -> None:
    pair = opened()
    pair.server.channel_error(1, PreconditionFailed("x"))
    pair.client.close_channel(1)
    at_server, at_client = pair.flow()
    assert at_server == [ChannelReleased(1)]
    assert at_client == [ChannelReleased(1)]
    assert pair.client.open_channel() == 1


def test_a_hard_error_on_a_channel_closes_the_connection() -> None:
    pair = opened()
    pair.server.channel_error(1, InternalError("x"))
    assert isinstance(closed(pair.flow()[1]).error, InternalError)


def test_a_soft_error_may_close_the_connection() -> None:
    pair = opened()
    pair.server.connection_error(NotFound("x"))
    assert isinstance(closed(pair.flow()[1]).error, NotFound)


def test_an_unknown_reply_code_is_kept() -> None:
    pair = opened(channels=2)
    pair.server.close_channel(1, 499, "odd")
    (event,) = pair.flow()[1]
    assert isinstance(event, ChannelClosed)
    assert event.error is not None
    assert event.error.reply_code == 499
    pair.server.close(599, "odder")
    error = closed(pair.flow()[1]).error
    assert isinstance(error, AmqpError)
    assert error.reply_code == 599


def test_a_channel_number_is_free_again() -> None:
    pair: WirePair = opened()
    for _ in range(3):
        pair.client.close_channel(1)
        pair.flow()
        assert pair.client.open_channel() == 1
        pair.flow()
    assert open_channels(pair.server) == [1]


def test_an_end_that_the_owner_has_not_answered_stays_the_reason() -> None:
    for is_requested in (True, False):
        pair = WirePair(server=ServerConnection()).negotiate()
        if is_requested:
            pair.client.close()
        else:
            pair.server.fail(FrameError("wrong"))
        pair.feed(pair.server, output(pair.client))
        pair.server.accept_channel_close(7)  # of a channel that is not open
        pair.server.fail(FrameError("another"))
        if not is_requested:
            pair.server.accept_close()  # nothing was requested
        oversized = b"\x01\x00\x00" + (1 << 30).to_bytes(4, "big")
        assert pair.server.receive(oversized, 0.0) == []
        ended = closed(pair.server.receive_eof(0.0))
        assert ended.by_peer is is_requested
