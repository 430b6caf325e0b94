"""The client's negotiation, and the channels that it opens."""

import pytest

from semq.amqp import ClientConnection, ConnectionLimits, sasl
from semq.amqp import methods as m
from semq.amqp.codec import encode_method
from semq.amqp.errors import AmqpError, LocalMisuse, WrongProtocol
from semq.amqp.events import ChannelOpened, ConnectionClosed, ConnectionFailed, Opened, Started, Tuned
from semq.amqp.frames import frame
from semq.amqp.methods import Method
from semq.amqp.spec import FRAME_METHOD, PROTOCOL_HEADER
from semq.amqp.wire import Table
from tests.amqp.helpers import octet_by_octet, open_channels, opened, output, pamqp_frames


def method_bytes(method: Method, channel: int = 0) -> bytes:
    return frame(FRAME_METHOD, channel, encode_method(method))


def started(limits: ConnectionLimits | None = None, mechanism: str = "PLAIN") -> ClientConnection:
    client = ClientConnection(limits, mechanism=mechanism, response=sasl.plain("u", "p"), virtual_host="umx")
    client.start(0)
    return client


def test_a_client_begins_with_the_header() -> None:
    assert output(started()) == PROTOCOL_HEADER


def test_a_client_negotiates_mechanism_limits_and_host() -> None:
    client = started(ConnectionLimits(frame_max=8192, channel_max=7, heartbeat=30))
    output(client)
    properties: Table = {"product": "RabbitMQ", "capabilities": {"basic.nack": True}}
    events = client.receive(method_bytes(m.ConnectionStart(0, 9, properties, b"AMQPLAIN PLAIN", b"en_US")), 1)
    assert events == [Started(properties, ("AMQPLAIN", "PLAIN"), ("en_US",))]
    assert client.peer_capabilities == {"basic.nack"}
    ((_, start_ok),) = pamqp_frames(output(client))
    assert start_ok.mechanism == "PLAIN"
    assert start_ok.client_properties["capabilities"]["consumer_cancel_notify"] is True
    assert client.receive(method_bytes(m.ConnectionTune(2047, 131072, 60)), 2) == [Tuned(8192, 7, 30)]
    (_, tune_ok), (_, open_) = pamqp_frames(output(client))
    assert (tune_ok.channel_max, tune_ok.frame_max, tune_ok.heartbeat) == (7, 8192, 30)
    assert open_.virtual_host == "umx"
    assert client.receive(method_bytes(m.ConnectionOpenOk()), 3) == [Opened()]
    assert client.is_open
    assert client.next_deadline == 17  # half a heartbeat after tune-ok


def error_after(client: ClientConnection, data: bytes) -> AmqpError:
    (event,) = client.receive(data, 0)
    assert isinstance(event, ConnectionClosed | ConnectionFailed)
    assert not event.pause
    assert event.error is not None
    return event.error


def test_a_server_that_answers_with_another_header_is_refused() -> None:
    assert isinstance(error_after(started(), b"AMQP\x00\x01\x00\x00"), WrongProtocol)
    client = started()
    (event,) = [event for part in octet_by_octet(b"AMQP\x00\x01\x00\x00") for event in client.receive(part, 0)]
    assert isinstance(event, ConnectionClosed)


def test_a_server_that_does_not_use_amqp_is_refused() -> None:
    assert error_after(started(), b"HTTP/1.1 400 Bad Request").reply_code == 501
    client = started()
    client.receive(method_bytes(m.ConnectionStart()), 0)
    assert error_after(client, b"AMQP\x00\x00\x09\x01").reply_code == 501  # a protocol header after start


def test_a_server_of_another_version_is_refused() -> None:
    assert error_after(started(), method_bytes(m.ConnectionStart(version_major=8, version_minor=0))).reply_code == 540


def test_a_server_without_the_mechanism_of_the_client_is_refused() -> None:
    assert (
        error_after(started(mechanism="EXTERNAL"), method_bytes(m.ConnectionStart(mechanisms=b"PLAIN \xff"))).reply_code
        == 503
    )


def test_a_frame_max_below_the_minimum_is_refused() -> None:
    client = started()
    client.receive(method_bytes(m.ConnectionStart()), 0)
    assert error_after(client, method_bytes(m.ConnectionTune(0, 100, 0))).reply_code == 530


def test_a_challenge_is_refused() -> None:
    client = started()
    client.receive(method_bytes(m.ConnectionStart()), 0)
    assert error_after(client, method_bytes(m.ConnectionSecure(b"?"))).reply_code == 503


def test_a_login_larger_than_the_initial_frame_max_is_not_sent() -> None:
    client = ClientConnection(response=bytes(9000))
    client.start(0)
    error = error_after(client, method_bytes(m.ConnectionStart()))
    assert isinstance(error, LocalMisuse)
    assert error.reply_code == 541


# Channels


def test_the_lowest_free_number_is_opened() -> None:
    pair = opened(channels=3)
    assert open_channels(pair.client) == [1, 2, 3]
    pair.client.close_channel(2)
    pair.flow()
    assert pair.client.open_channel() == 2
    assert pair.client.open_channel(9) == 9
    assert pair.flow()[1] == [ChannelOpened(2), ChannelOpened(9)]


@pytest.mark.parametrize("number", [0, 1, 6, -1])
def test_channel_numbers_outside_the_limits_cannot_be_opened(number: int) -> None:
    pair = opened(ConnectionLimits(channel_max=5))
    with pytest.raises(LocalMisuse):
        pair.client.open_channel(number)


def test_no_channel_can_be_opened_above_channel_max() -> None:
    pair = opened(ConnectionLimits(channel_max=2), channels=2)
    with pytest.raises(LocalMisuse):
        pair.client.open_channel()


def test_a_connection_that_is_not_open_has_no_channels() -> None:
    with pytest.raises(LocalMisuse):
        started().open_channel()


def test_a_server_may_refuse_a_channel() -> None:
    pair = opened(channels=0)
    number = pair.client.open_channel()
    output(pair.client)
    pair.client.receive(method_bytes(m.ChannelClose(504, "no more"), number), 0)
    assert open_channels(pair.client) == []
    assert pair.client.open_channel() == number


def test_a_channel_that_is_opening_can_be_closed() -> None:
    pair = opened(channels=0)
    pair.client.close_channel(pair.client.open_channel())
    pair.flow()
    assert open_channels(pair.client) == open_channels(pair.server) == []
