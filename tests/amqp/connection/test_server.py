"""The server's negotiation, from the protocol header to open, and its commands."""

from typing import Any

import pytest

from semq.amqp import ClientConnection, ConnectionLimits, ServerConnection, sasl
from semq.amqp import methods as m
from semq.amqp.codec import encode_method
from semq.amqp.errors import AccessRefused, InvalidPath, LocalMisuse, WrongProtocol
from semq.amqp.events import (
    Blocked,
    ConnectionClosed,
    ConnectionFailed,
    LoginOffered,
    MethodReceived,
    OpenRequested,
    SecretOffered,
    Tuned,
    Unblocked,
)
from semq.amqp.frames import HEARTBEAT_FRAME, frame
from semq.amqp.methods import Method
from semq.amqp.spec import FRAME_METHOD, PROTOCOL_HEADER
from semq.amqp.wire import Table
from tests.amqp.helpers import AnsweringServer, WirePair, octet_by_octet, opened, output, pamqp_frames


def method_bytes(method: Method, channel: int = 0) -> bytes:
    return frame(FRAME_METHOD, channel, encode_method(method))


def started(**arguments: Any) -> ServerConnection:
    server = AnsweringServer(**arguments)
    server.start(0)
    server.receive(PROTOCOL_HEADER, 0)
    return server


# Protocol header


def test_the_protocol_header_is_answered_with_start() -> None:
    server = started(server_properties={"product": "SEMQ"}, mechanisms=("EXTERNAL", "PLAIN"))
    ((channel, start),) = pamqp_frames(output(server))
    assert (channel, start.name) == (0, "Connection.Start")
    assert (start.version_major, start.version_minor) == (0, 9)
    assert start.server_properties["product"] == "SEMQ"
    assert start.server_properties["capabilities"]["basic.nack"] is True
    assert start.mechanisms in {"EXTERNAL PLAIN", b"EXTERNAL PLAIN"}


@pytest.mark.parametrize(
    "greeting",
    [
        b"AMQP\x01\x01\x09\x01",
        b"AMQP\x00\x00\x09\x00",
        b"AMQP\x03\x01\x00\x00",
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00",
        b"AMQX",
        b"\x00",
    ],
)
@pytest.mark.parametrize("cut", [lambda data: [data], octet_by_octet])
def test_another_protocol_header_is_answered_with_the_supported_one(greeting: bytes, cut: Any) -> None:
    server = AnsweringServer()
    server.start(0)
    (event,) = [event for part in cut(greeting) for event in server.receive(part, 0)]
    assert isinstance(event, ConnectionClosed)
    assert isinstance(event.error, WrongProtocol)
    assert not event.pause
    assert output(server) == PROTOCOL_HEADER
    assert server.is_closed


def test_the_protocol_header_may_arrive_with_the_next_frames() -> None:
    server = AnsweringServer()
    server.start(0)
    events = server.receive(PROTOCOL_HEADER + method_bytes(m.ConnectionStartOk()), 0)
    assert isinstance(events[0], LoginOffered)


# Login


def test_a_login_is_offered_to_the_owner() -> None:
    client_properties: Table = {"product": "pika", "capabilities": {"basic.nack": True, "connection.blocked": False}}
    server = started()
    events = server.receive(method_bytes(m.ConnectionStartOk(client_properties, "PLAIN", b"\0u\0p", "en_GB")), 0)
    assert events == [LoginOffered("PLAIN", b"\0u\0p", client_properties, "en_GB")]
    assert server.peer_properties == client_properties
    assert server.peer_capabilities == {"basic.nack"}


def test_a_mechanism_that_was_not_offered_is_refused() -> None:
    server = started()
    (failed,) = server.receive(method_bytes(m.ConnectionStartOk(mechanism="EXTERNAL")), 0)
    assert isinstance(failed, ConnectionFailed)
    assert failed.error.reply_code == 503
    assert failed.pause


def test_a_client_with_authentication_failure_close_is_told_that_its_login_is_refused() -> None:
    pair = WirePair()
    pair.flow()
    pair.server.refuse_login("no such user")
    at_server, at_client = pair.flow()
    for events, by_peer in ((at_server, False), (at_client, True)):
        (closed,) = events
        assert isinstance(closed, ConnectionClosed)
        assert isinstance(closed.error, AccessRefused)
        assert closed.by_peer is by_peer


def test_a_client_without_authentication_failure_close_is_not_told_that_its_login_is_refused() -> None:
    pair = WirePair(client=ClientConnection(client_properties={"capabilities": {}}))
    pair.flow()
    pair.server.refuse_login("no such user")
    assert pair.server.output_size == 0
    assert pair.server.next_deadline == 0
    (closed,) = pair.server.tick(0)
    assert isinstance(closed, ConnectionClosed)
    assert isinstance(closed.error, AccessRefused)
    assert closed.pause


def test_heartbeats_may_arrive_while_the_owner_decides() -> None:
    server = started()
    server.receive(method_bytes(m.ConnectionStartOk()), 0)
    assert server.receive(HEARTBEAT_FRAME, 0) == []


def test_output_after_garbage_in_the_negotiation_is_delayed() -> None:
    server = started()
    (closed,) = server.receive(bytes(20), 0)
    assert isinstance(closed, ConnectionClosed)
    assert closed.pause


def test_a_frame_above_the_initial_maximum_is_refused() -> None:
    server = started(limits=ConnectionLimits(initial_frame_max=5000))
    (closed,) = server.receive(method_bytes(m.ConnectionStartOk(response=bytes(5000))), 0)
    assert isinstance(closed, ConnectionClosed)
    assert closed.error is not None
    assert closed.error.reply_code == 501
    assert closed.pause


@pytest.mark.parametrize("size", [8, 1, 3])
def test_the_protocol_header_of_0_9_is_taken_for_0_9_1(size: int) -> None:
    server = AnsweringServer()
    server.start(0)
    data = b"AMQP\x01\x01\x00\x09"
    assert [event for at in range(0, 8, size) for event in server.receive(data[at : at + size], 0)] == []
    ((channel, start),) = pamqp_frames(output(server))
    assert (channel, start.name, start.version_major, start.version_minor) == (0, "Connection.Start", 0, 9)


# Tune and open


def receive_login(server: ServerConnection) -> None:
    server.receive(method_bytes(m.ConnectionStartOk()), 0)
    server.accept_login()
    server.take_output()


def test_the_negotiated_limits_apply_from_tune_ok_on() -> None:
    server = started(limits=ConnectionLimits(frame_max=8192, channel_max=5, heartbeat=20))
    server.receive(method_bytes(m.ConnectionStartOk()), 0)
    output(server)
    server.accept_login()
    ((_, tune),) = pamqp_frames(output(server))
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (5, 8192, 20)
    assert server.receive(method_bytes(m.ConnectionTuneOk(3, 4096, 7)), 50) == [Tuned(4096, 3, 7)]
    assert (server.frame_max, server.channel_max, server.heartbeat) == (4096, 3, 7)
    assert server.next_deadline == 10  # deadline of the negotiation


def test_limits_above_the_offer_are_not_allowed() -> None:
    server = started(limits=ConnectionLimits(frame_max=8192))
    receive_login(server)
    (failed,) = server.receive(method_bytes(m.ConnectionTuneOk(10, 8193, 0)), 0)
    assert isinstance(failed, ConnectionFailed)
    assert failed.error.reply_code == 530


def test_without_a_limit_the_highest_channel_number_is_65535() -> None:
    pair = opened(ConnectionLimits(channel_max=0), ConnectionLimits(channel_max=0), channels=0)
    assert pair.client.open_channel(65535) == 65535
    assert len(pair.flow()[0]) == 1


def test_a_virtual_host_can_be_refused() -> None:
    pair = WirePair(client=ClientConnection(virtual_host="nowhere"))
    pair.flow()
    pair.server.accept_login()
    assert pair.flow()[0][-1] == OpenRequested("nowhere")
    pair.server.connection_error(InvalidPath("no such virtual host", 10, 40))
    (closed,) = pair.flow()[1]
    assert isinstance(closed, ConnectionClosed)
    assert isinstance(closed.error, InvalidPath)
    assert closed.error.ids == (10, 40)


@pytest.mark.parametrize("command", ["accept_login", "accept_open", "accept_secret"])
def test_an_answer_at_the_wrong_time_is_misuse(command: str) -> None:
    with pytest.raises(LocalMisuse):
        getattr(started(), command)()
    with pytest.raises(LocalMisuse):
        getattr(opened().server, command)()


def test_a_refusal_of_a_login_at_the_wrong_time_is_misuse() -> None:
    with pytest.raises(LocalMisuse):
        opened().server.refuse_login("x")


# Open


def test_a_client_is_informed_that_it_is_blocked_and_unblocked() -> None:
    pair = opened()
    assert pair.server.block("low on disk")
    assert pair.server.unblock()
    assert pair.flow()[1] == [Blocked("low on disk"), Unblocked()]


def test_a_client_is_informed_that_its_consumer_is_cancelled() -> None:
    pair = opened()
    assert pair.server.cancel_consumer(1, "c")
    assert pair.flow()[1] == [MethodReceived(1, m.BasicCancel("c", True))]


def test_methods_unknown_to_the_client_are_not_sent() -> None:
    pair = opened(client_properties={"capabilities": {}})
    assert not pair.server.block("low on disk")
    assert not pair.server.unblock()
    assert not pair.server.cancel_consumer(1, "c")
    assert pair.server.output_size == 0


def test_a_closing_connection_gets_no_notices() -> None:
    pair = opened()
    pair.server.close()
    output(pair.server)
    assert not pair.server.block("low on disk")


def test_a_secret_is_renewed() -> None:
    pair = opened()
    pair.client.send(0, m.ConnectionUpdateSecret(b"new", "expired"))
    assert pair.flow()[0] == [SecretOffered(b"new", "expired")]
    pair.server.accept_secret()
    with pytest.raises(LocalMisuse):
        pair.server.accept_secret()
    assert pair.flow()[1] == [MethodReceived(0, m.ConnectionUpdateSecretOk())]


def test_a_login_that_arrives_octet_by_octet_is_accepted() -> None:
    pair = opened(cut=octet_by_octet, response=sasl.plain("u", "p"))
    assert pair.server.is_open
