"""Dialling: accepted and refused logins, and the errors if no connection is made."""

import asyncio
import logging
import socket

import pytest

from semq.amqp import methods as m
from semq.amqp.codec import encode_method
from semq.amqp.errors import AccessRefused, CommandInvalid, NotAllowed
from semq.amqp.frames import frame
from semq.amqp.spec import FRAME_METHOD
from semq.clock import SystemClock
from semq.transport.client import ClientLink
from semq.transport.dialer import DialConfig, dial
from semq.transport.errors import DialFailed, ForeignBroker
from semq.transport.peer import PeerInfo
from semq.transport.turn import Turn
from tests.transport.pair import pair


async def test_dial_opens_the_virtual_host_and_close_ends_the_link_without_an_error() -> None:
    async with pair() as endpoints:
        link = await endpoints.dial(client_properties={"node": "10008"})
        assert link.machine.peer_properties["product"] == "SEMQ"
        (session,) = endpoints.server.sessions
        assert session.info.client_properties["node"] == "10008"
        assert session.info.client_properties["product"] == "SEMQ"
        await link.close()
        assert await link.wait_closed() is None
        await link.close()


async def test_a_refused_login_raises_the_error_of_the_server() -> None:
    async with pair() as endpoints:
        with pytest.raises(AccessRefused):
            await endpoints.dial(password="wrong")
        with pytest.raises(CommandInvalid, match="does not offer EXTERNAL"):  # the client has no certificate
            await endpoints.dial(password=None)
        with pytest.raises(NotAllowed, match="vhost nowhere not found"):
            await endpoints.dial(virtual_host="nowhere")


async def test_a_closed_port_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(DialFailed) as caught:
        await dial(DialConfig("127.0.0.1", port, user="a", password="b"), SystemClock(), Turn())
    assert caught.value.facts["port"] == port
    assert caught.value.facts["cause"].startswith("Connect")  # the text of the error, without the name of its class


async def test_a_dial_that_is_cancelled_when_the_socket_connects_ends_the_link(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sockets, lost = list[socket.socket](), asyncio.Event()

    def answer_and_cancel(_: PeerInfo) -> None:
        sockets.append(listening.accept()[0])
        sockets[0].sendall(frame(FRAME_METHOD, 0, encode_method(m.ConnectionStart())))  # the client has output for it
        dialling.cancel()

    monkeypatch.setattr(ClientLink, "link_lost", lambda *_: lost.set())
    with socket.create_server(("127.0.0.1", 0)) as listening, caplog.at_level(logging.ERROR):
        port = listening.getsockname()[1]
        config = DialConfig("127.0.0.1", port, user="a", password="b", check=answer_and_cancel)
        dialling = asyncio.ensure_future(dial(config, SystemClock(), Turn()))
        async with asyncio.timeout(10):
            with pytest.raises(asyncio.CancelledError):
                await dialling
            await lost.wait()
    sockets[0].close()
    assert not caplog.text


async def test_another_broker_is_named_before_the_login() -> None:
    async with pair(properties={"product": "RabbitMQ", "version": "3.10.8"}) as endpoints:
        with pytest.raises(ForeignBroker) as caught:
            await endpoints.dial(product="SEMQ", password="wrong")
        assert caught.value.facts == {"product": "RabbitMQ", "version": "3.10.8"}
        await (await endpoints.dial()).close()  # a dialler without a required product is accepted


@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_a_server_of_another_protocol_is_reported(answer: bytes | None) -> None:
    """``answer`` is what the server sends before it closes the connection; None: it sends nothing, and stays open."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if answer is not None:
            writer.write(answer)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    config = DialConfig("127.0.0.1", port, user="a", password="b", connect_s=0.2)
    with pytest.raises(Exception, match="SEMQ-4"):
        await dial(config, SystemClock(), Turn())
    for writer in writers:
        writer.close()
    server.close()
    await server.wait_closed()
