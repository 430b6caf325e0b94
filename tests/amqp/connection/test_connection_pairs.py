"""Conversations between a server and a client, with the bytes divided into pieces of many sizes."""

import pytest

from semq.amqp import ClientConnection, ConnectionLimits
from semq.amqp import methods as m
from semq.amqp.content import Properties
from semq.amqp.errors import NotFound
from semq.amqp.events import ConnectionEvent
from tests.amqp.helpers import AnsweringServer, Cut, WirePair, amqplain, header_of, in_one_piece, octet_by_octet

LIMITS = ConnectionLimits(frame_max=4096, heartbeat=0)
BODY = bytes(range(256)) * 20  # more than one frame


def conversation(cut: Cut) -> list[tuple[str, ConnectionEvent]]:
    pair = WirePair(
        AnsweringServer(LIMITS),
        ClientConnection(LIMITS, mechanism="AMQPLAIN", response=amqplain("u", "p")),
        cut,
    )
    received: list[tuple[str, ConnectionEvent]] = []

    def carry() -> None:
        at_server, at_client = pair.flow()
        received.extend(("server", event) for event in at_server)
        received.extend(("client", event) for event in at_client)

    server, client = pair.server, pair.client
    carry()
    server.accept_login()
    carry()
    server.accept_open()
    carry()
    first, second = client.open_channel(), client.open_channel()
    carry()
    client.send(first, m.ConfirmSelect())
    client.send(second, m.QueueDeclare("", exclusive=True, arguments={"x-expires": 60_000}))
    carry()
    server.send(first, m.ConfirmSelectOk())
    server.send(second, m.QueueDeclareOk("amq.gen-1", 0, 0))
    carry()
    header = header_of(BODY, Properties(message_id="m", headers={"@SaveFwd": 3, "deep": {"a": [1, "x", None]}}))
    for channel in (first, second):
        client.publish(channel, "e", "key", header, BODY, mandatory=True)
        client.publish(channel, "e", "key", header_of(b""), b"")
        client.publish(channel, "e", "key", header_of(b"s"), b"s")
    carry()
    server.send_content(first, m.BasicReturn(312, "NO_ROUTE", "e", "key"), header, BODY)
    server.ack(first, 2, True)
    server.nack(first, 3)
    server.deliver(second, "tag", 1, True, "e", "key", header, BODY)
    carry()
    client.ack(second, 1)
    client.send(second, m.ChannelFlow(False))
    client.send(second, m.BasicGet("nowhere"))
    carry()
    server.channel_error(second, NotFound("no queue 'nowhere'", 60, 70))
    client.close_channel(second)
    carry()
    client.send(0, m.ConnectionUpdateSecret(b"s", "r"))
    carry()
    server.accept_secret()
    server.block("disk")
    server.unblock()
    carry()
    client.close()
    server.close()
    carry()
    assert server.is_closed
    assert client.is_closed
    return received


def side(events: list[tuple[str, ConnectionEvent]], name: str) -> list[ConnectionEvent]:
    return [event for role, event in events if role == name]


EXPECTED = conversation(in_one_piece)


def test_the_conversation_has_these_events() -> None:
    assert [type(event).__name__ for event in side(EXPECTED, "server")] == [
        "LoginOffered",
        "Tuned",
        "OpenRequested",
        "ChannelOpened",
        "ChannelOpened",
        "MethodReceived",
        "MethodReceived",
        *["Published"] * 6,
        "Acked",
        "FlowChanged",
        "MethodReceived",
        "ChannelReleased",
        "SecretOffered",
        "ConnectionClosed",
    ]
    assert [type(event).__name__ for event in side(EXPECTED, "client")] == [
        "Started",
        "Tuned",
        "Opened",
        "ChannelOpened",
        "ChannelOpened",
        "MethodReceived",
        "MethodReceived",
        "Returned",
        "Acked",
        "Nacked",
        "Delivered",
        "MethodReceived",
        "ChannelReleased",
        "MethodReceived",
        "Blocked",
        "Unblocked",
        "ConnectionClosed",
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 11, 64, 1000, 4095, 4096, 4097])
def test_input_in_pieces_of_any_size_gives_the_same_events(size: int) -> None:
    def cut(data: bytes) -> list[bytes]:
        return [data[at : at + size] for at in range(0, len(data), size)]

    events = conversation(cut if size > 1 else octet_by_octet)
    for name in ("server", "client"):
        assert side(events, name) == side(EXPECTED, name)


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_input_cut_in_two_gives_the_same_events(start: int) -> None:
    for at in range(start, start + 100, 3):
        events = conversation(lambda data, at=at: [data[:at], data[at:]])  # type: ignore[misc]
        for name in ("server", "client"):
            assert side(events, name) == side(EXPECTED, name)
