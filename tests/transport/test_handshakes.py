"""TLS handshakes: sockets are counted and limited in time during the handshake; failed handshakes are logged."""

import asyncio
import errno
import logging
import os
import socket
import ssl
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from semq.pki.authority import Authority
from semq.pki.errors import WrongName
from semq.pki.tls import client_context, server_context
from semq.transport import handshakes
from semq.transport.errors import DialFailed, NotTrusted
from semq.transport.handshakes import Handshakes
from semq.transport.listener import Listener
from semq.transport.peer import PeerInfo
from semq.transport.places import PlaceLimits, Places
from tests.pki.people import DAY, NOW, authority, ring, trust
from tests.transport.pair import ServedLinks, pair
from tests.waiting import until

OURS = authority()


@pytest.fixture
def server(tmp_path: Path) -> ssl.SSLContext:
    return server_context(trust(OURS), ring(tmp_path / "hub", OURS, "2.hub"))


def client(folder: Path, by: Authority = OURS, **dates: object) -> ssl.SSLContext:
    return client_context(trust(OURS), ring(folder / "a", by, **dates))  # type: ignore[arg-type]


def listener_of(endpoints: ServedLinks) -> Listener:
    assert isinstance(endpoints.server.listener, Listener)
    return endpoints.server.listener


async def reason_of_refusal(endpoints: ServedLinks, caplog: pytest.LogCaptureFixture, context: ssl.SSLContext) -> str:
    """Return the reason why a handshake failed, as logged by the listener."""
    with caplog.at_level(logging.WARNING, "semq.transport.handshakes"), pytest.raises(DialFailed):
        await endpoints.dial(tls=context)
    await until(lambda: endpoints.server.figures().handshakes_failed)
    assert endpoints.server.figures().connections == 0
    return caplog.text


async def test_both_sides_know_the_certificate_of_the_peer_after_the_handshake(
    tmp_path: Path, server: ssl.SSLContext
) -> None:
    seen: list[PeerInfo] = []
    async with pair(tls=server) as endpoints:
        link = await endpoints.dial(tls=client(tmp_path), check=seen.append)
        assert link.is_open
        assert seen[0].certificate is not None
        (session,) = endpoints.server.sessions
        assert session.info.peer.certificate is not None


async def test_a_client_that_ends_the_handshake_is_logged_with_the_likely_reason(
    tmp_path: Path, server: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    others = authority("other")
    distrusting = client_context(trust(others), ring(tmp_path / "a", others))
    async with pair(tls=server) as endpoints:
        output = await reason_of_refusal(endpoints, caplog, distrusting)
        assert "may not trust the authority of this node's certificate" in output


@pytest.mark.parametrize(("at", "error_class"), [(NOW, NotTrusted), (NOW - 100 * DAY, DialFailed)])
async def test_only_a_server_of_an_unknown_authority_is_reported_as_one(
    tmp_path: Path, at: datetime, error_class: type[DialFailed]
) -> None:
    by = authority("other") if error_class is NotTrusted else OURS
    context = server_context(trust(OURS), ring(tmp_path / "hub", by, "2.hub", at=at))
    async with pair(tls=context) as endpoints:
        with pytest.raises(DialFailed) as caught:
            await endpoints.dial(tls=client(tmp_path))
        assert type(caught.value) is error_class


@pytest.mark.parametrize(
    ("by", "at", "reason"),
    [
        (OURS, NOW - 100 * DAY, "certificate has expired"),
        (OURS, NOW + 10 * DAY, "certificate is not yet valid"),
        (authority(), NOW, "certificate verify failed"),
    ],
    ids=["expired", "not yet valid", "wrong authority"],
)
async def test_the_log_has_the_reason_of_a_failed_handshake(
    tmp_path: Path, server: ssl.SSLContext, caplog: pytest.LogCaptureFixture, by: Authority, at: object, reason: str
) -> None:
    async with pair(tls=server) as endpoints:
        output = await reason_of_refusal(endpoints, caplog, client(tmp_path, by, at=at))
        assert reason in output
        assert "127.0.0.1" in output


async def test_a_downgrade_is_refused(tmp_path: Path, server: ssl.SSLContext, caplog: pytest.LogCaptureFixture) -> None:
    old = client(tmp_path)
    old.minimum_version = ssl.TLSVersion.TLSv1_2
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with pair(tls=server) as endpoints:
        assert "PROTOCOL" in await reason_of_refusal(endpoints, caplog, old)


async def test_plain_amqp_at_a_tls_port_is_refused(server: ssl.SSLContext, caplog: pytest.LogCaptureFixture) -> None:
    async with pair(tls=server) as endpoints:
        with caplog.at_level(logging.WARNING, "semq.transport.handshakes"), pytest.raises(DialFailed):
            await endpoints.dial()
        assert "TLS handshake with 127.0.0.1 failed: the peer spoke plain AMQP, " in caplog.text
        assert "(_ssl.c" in caplog.text.partition("amqps://")[2]  # the text of OpenSSL is a detail behind the sentence


async def test_sockets_without_a_handshake_are_counted_and_time_out(server: ssl.SSLContext) -> None:
    async with pair(tls=server, connections_max=2, handshake_s=0.3) as endpoints:
        silent = [socket.create_connection(("127.0.0.1", endpoints.server.port)) for _ in range(3)]
        listener = listener_of(endpoints)
        await until(lambda: listener.places.displaced == 1 and listener.handshakes_failed == 2)
        assert len(listener.places) == 0
        for connection in silent:
            connection.close()


async def test_stopping_does_not_wait_for_a_handshake(server: ssl.SSLContext) -> None:
    async with pair(tls=server) as endpoints:
        with socket.create_connection(("127.0.0.1", endpoints.server.port)):
            await until(lambda: len(listener_of(endpoints).places))
            async with asyncio.timeout(60):
                await endpoints.server.stop(10.0)


class StoppingPlaces(Places):
    """Stops the handshakes between the acceptance of a socket and the first step of its handshake."""

    handshakes: Handshakes

    def have_room(self, address: str) -> bool:
        asyncio.get_running_loop().call_soon(self.handshakes.stop)
        return super().have_room(address)


async def test_a_handshake_that_is_stopped_before_its_first_step_closes_its_socket(server: ssl.SSLContext) -> None:
    places = StoppingPlaces(lambda: PlaceLimits(1, 1))
    places.handshakes = Handshakes(places, server, 10.0, asyncio.Protocol)
    await places.handshakes.start("127.0.0.1", 0, 16)
    with socket.create_connection(("127.0.0.1", places.handshakes.port or 0)) as client:
        client.setblocking(False)
        async with asyncio.timeout(60):
            assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
    assert len(places) == 0


async def test_handshakes_begin_again_after_the_machine_ran_out_of_descriptors(
    server: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "PAUSE_S", 0.02)
    async with pair(tls=server) as endpoints:
        failures = iter([errno.EMFILE, errno.ENFILE, errno.ECONNABORTED])
        accept = socket.socket.accept

        def failing(listening: socket.socket) -> Any:
            if (number := next(failures, None)) is not None:
                raise OSError(number, os.strerror(number))
            return accept(listening)

        monkeypatch.setattr(socket.socket, "accept", failing)
        with socket.create_connection(("127.0.0.1", endpoints.server.port)):
            await until(lambda: len(listener_of(endpoints).places))
        assert next(failures, None) is None


async def test_a_recorded_connection_cannot_be_replayed(tmp_path: Path, server: ssl.SSLContext) -> None:
    recorded = bytearray()

    async with pair(tls=server) as endpoints:

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", endpoints.server.port)

            async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, keep: bool) -> None:
                while data := await source.read(65536):
                    if keep:
                        recorded.extend(data)
                    sink.write(data)
                sink.close()

            await asyncio.gather(pump(reader, there_writer, True), pump(there_reader, writer, False))

        proxy = await asyncio.start_server(forward, "127.0.0.1", 0)
        async with proxy:
            link = await endpoints.dial(tls=client(tmp_path), port=proxy.sockets[0].getsockname()[1])
            await link.open_channel()
            await link.close()
            accepted_before = endpoints.server.figures().connections_accepted
            reader, writer = await asyncio.open_connection("127.0.0.1", endpoints.server.port)
            writer.write(bytes(recorded))
            async with asyncio.timeout(60):
                while await reader.read(65536):
                    pass
            writer.close()
            assert endpoints.server.figures().connections_accepted == accepted_before


async def test_nothing_is_sent_to_a_peer_with_an_unexpected_name(tmp_path: Path, server: ssl.SSLContext) -> None:
    def refuse(peer: PeerInfo) -> None:
        raise WrongName(expected="2.other")

    async with pair(tls=server) as endpoints:
        with pytest.raises(WrongName):
            await endpoints.dial(tls=client(tmp_path), check=refuse)
        await until(lambda: not endpoints.server.sessions)
