"""One socket at a server: garbage, closes, pauses, silence, slow readers, floods."""

import asyncio
import logging
import socket
from contextlib import suppress
from typing import Any

import pytest

from semq.amqp import methods as m
from semq.amqp.codec import encode_method
from semq.amqp.events import ConnectionEvent, Delivered
from semq.amqp.frames import FRAME_HEAD, frame
from semq.amqp.limits import ConnectionLimits
from semq.amqp.spec import FRAME_BODY, FRAME_METHOD, PROTOCOL_HEADER
from semq.broker.limits import BrokerLimits
from semq.broker.session import BrokerSession
from semq.transport.client_channel import ClientChannel
from semq.transport.errors import LinkLost
from semq.transport.link import EVENTS_PER_READ, RECORD, SocketLink, join_small
from tests.broker.raw import RawClient
from tests.transport.pair import ServedLinks, header, pair
from tests.transport.publishing import publish_and_wait
from tests.transport.waiting_output import waiting_output
from tests.waiting import until


async def exchange_bytes(endpoints: ServedLinks, *pieces: bytes) -> bytes:
    """Send bytes, and return what the server answers until it closes the socket."""
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoints.server.port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x01\x01\x08\x00", b"\0" * 8, b"AMQP\x00\x00\x09\x02"]
)
async def test_a_wrong_protocol_header_is_answered_with_the_right_one_and_a_close(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with pair() as endpoints:
        neighbour = await endpoints.dial()
        with caplog.at_level(logging.WARNING):
            assert await exchange_bytes(endpoints, garbage) == PROTOCOL_HEADER
        assert neighbour.is_open
        assert "SEMQ-4" in caplog.text
        assert await exchange_bytes(endpoints, *(bytes([byte]) for byte in garbage)) == PROTOCOL_HEADER


@pytest.mark.parametrize("data", [b"\x09\0\0\0\0\0\0\xce", b"\x01\0\0\0\0\0\0\0", b"\x01\0\0\xff\xff\xff\xff"])
async def test_malformed_frames_close_the_connection(data: bytes) -> None:
    async with pair(connection=ConnectionLimits(close_s=0.1)) as endpoints:
        neighbour = await endpoints.dial()
        await exchange_bytes(endpoints, PROTOCOL_HEADER + data)
        assert neighbour.is_open


@pytest.mark.parametrize("claimed", [131_073, (1 << 32) - 1])
async def test_a_frame_that_claims_too_many_bytes_ends_the_connection_at_its_head(claimed: int) -> None:
    async with pair(connection=ConnectionLimits(close_s=3600)) as endpoints:
        loop = asyncio.get_running_loop()
        client = await asyncio.to_thread(lambda: RawClient(endpoints.server.port).log_in())
        await loop.run_in_executor(None, client.socket.sendall, FRAME_HEAD.pack(FRAME_BODY, 1, claimed))
        closed = await loop.run_in_executor(None, client.wait_closed)
        assert closed.error is not None
        assert closed.error.reply_code == 501
        assert await loop.run_in_executor(None, client.socket.recv, 100) == b""
        client.socket.close()


async def test_each_close_of_a_client_is_answered_until_the_client_ends_the_socket() -> None:
    close, answer = (
        frame(FRAME_METHOD, 0, encode_method(method)) for method in (m.ConnectionClose(200), m.ConnectionCloseOk())
    )
    async with pair() as endpoints:
        client = await asyncio.to_thread(lambda: RawClient(endpoints.server.port).log_in())
        client.socket.sendall(close)
        reply = await asyncio.to_thread(client.socket.recv, len(answer), socket.MSG_WAITALL)
        client.socket.sendall(close + close)
        reply += await asyncio.to_thread(client.socket.recv, 2 * len(answer), socket.MSG_WAITALL)
        assert reply == 3 * answer
        client.socket.shutdown(socket.SHUT_WR)
        assert await asyncio.to_thread(client.socket.recv, 100) == b""
        await until(lambda: not endpoints.server.sessions)
        client.socket.close()


async def test_a_failed_login_is_answered_only_after_the_pause() -> None:
    async with pair(pause_s=3600) as endpoints:
        dialling = asyncio.ensure_future(endpoints.dial(password="wrong", connect_s=5.0))
        await until(lambda: endpoints.server.counters.logins_refused > 0)
        await endpoints.dial()
        assert not dialling.done()
        (session,) = [session for session in endpoints.server.sessions if not session.is_open]
        session.link.abort()
        with pytest.raises(Exception, match="SEMQ-4910"):
            await dialling


async def test_a_client_that_does_not_finish_the_negotiation_is_dropped() -> None:
    async with pair(connection=ConnectionLimits(handshake_s=0.05)) as endpoints:
        assert await exchange_bytes(endpoints) == b""
        assert (await exchange_bytes(endpoints, PROTOCOL_HEADER)).startswith(b"\x01\0\0")
        await until(lambda: endpoints.server.sessions == {})


async def test_a_peer_gets_the_last_bytes_although_the_server_has_not_read_all_of_its_bytes() -> None:
    async with pair() as endpoints:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoints.server.port)
        writer.write(b"GET / HTTP/1.1\r\n")
        assert await reader.readexactly(8) == PROTOCOL_HEADER
        # If the server had closed its socket, the kernel would answer with a reset, which drops the bytes sent before.
        writer.write(b"x" * 100_000)
        assert await reader.read() == b""
        await until(lambda: endpoints.server.sessions == {})  # also for a peer that never closes its side
        writer.close()


async def test_the_link_of_a_silent_peer_ends_and_the_link_of_an_answering_peer_remains() -> None:
    async with pair(connection=ConnectionLimits(heartbeat=1)) as endpoints:
        silent, answering = await endpoints.dial(), await endpoints.dial()
        silent.link._turn = MutedTurn()  # type: ignore[assignment]  # its heartbeats are never written
        silent.link.flush = lambda: None  # type: ignore[method-assign]
        error = await asyncio.wait_for(silent.wait_closed(), 10)
        assert error is not None
        assert answering.is_open


class MutedTurn:
    """A turn that never ends."""

    def mark(self, link: object) -> None:
        """Do nothing."""


async def test_output_for_a_slow_reader_is_bounded_and_others_are_not_delayed() -> None:
    async with pair(limits=BrokerLimits(output_bytes=64 * 1024)) as endpoints:
        slow, fast = await endpoints.dial(), await endpoints.dial()
        publisher = await (await endpoints.dial()).open_channel()
        await publisher.confirm_select()
        for name in ("slow", "fast"):
            await publisher.declare_queue(name)
            await publisher.bind_queue(name, "amq.fanout")
        channels = [await link.open_channel() for link in (slow, fast)]
        slow_consumer, fast_consumer = (DeliveryCounter(channel) for channel in channels)
        await channels[0].consume("slow", slow_consumer)
        await channels[1].consume("fast", fast_consumer)
        slow.link.pause_reading("test")
        body = bytes(64 * 1024)
        for _ in range(400):
            assert await publish_and_wait(publisher, "amq.fanout", "", header(body), body)
        await fast_consumer.until(400)
        (session,) = [s for s in endpoints.server.sessions if s.info.peer.port == local_port(slow.link)]
        assert not session.is_writable
        assert waiting_output(session.link) < 2_000_000
        slow.link.resume_reading("test")
        await slow_consumer.until(400)


async def test_a_flooding_connection_is_read_in_turns_with_other_connections() -> None:
    """Without turns, the event loop of nodes would read up to 32 times in a row from a socket."""
    async with pair() as endpoints:
        flooding, modest = [
            await asyncio.to_thread(lambda: RawClient(endpoints.server.port).log_in()) for _ in range(2)
        ]
        received: list[tuple[object, int]] = []
        for session in endpoints.server.sessions:
            process = session.process

            def process_and_record(
                events: list[ConnectionEvent], session: BrokerSession = session, process: Any = process
            ) -> None:
                received.append((session, len(events)))
                process(events)

            session.process = process_and_record  # type: ignore[method-assign]
        request = b"\x01\0\x01" + (11).to_bytes(4) + b"\0\x3c\0\x0a" + bytes(7) + b"\xce"  # basic.qos
        flooding.socket.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                flooding.socket.send(request * 10_000)
        await until(lambda: len(received) > 1)  # after the first read with too many requests, reads are smaller
        reads_before = len(received)
        modest.socket.sendall(request)
        await until(lambda: any(session is not received[0][0] for session, _ in received))
        others = [number for number, (session, _) in enumerate(received) if session is not received[0][0]]
        assert others[0] - reads_before <= 3
        assert max(count for _, count in received[1:]) <= 2 * EVENTS_PER_READ
        for client in (flooding, modest):
            client.socket.close()


def local_port(link: SocketLink) -> int:
    return int(link._transport.get_extra_info("sockname")[1])


class DeliveryCounter:
    """A consumer that counts and acknowledges deliveries."""

    def __init__(self, channel: ClientChannel) -> None:
        self.channel = channel
        self.count = 0
        self._news = asyncio.Event()

    def __call__(self, batch: list[Delivered]) -> None:
        self.count += len(batch)
        self.channel.ack(batch[-1].delivery_tag, multiple=True)
        self._news.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20):
            while self.count < count:
                self._news.clear()
                await self._news.wait()


@pytest.mark.parametrize("sent", [b"", PROTOCOL_HEADER], ids=["nothing", "header"])
@pytest.mark.parametrize("close_s", [0.1, 60.0])
async def test_a_peer_that_does_not_answer_a_close_is_dropped(sent: bytes, close_s: float) -> None:
    async with pair(connection=ConnectionLimits(close_s=close_s)) as endpoints:
        with socket.create_connection(("127.0.0.1", endpoints.server.port)) as deaf:
            deaf.sendall(sent)
            await until(lambda: bool(endpoints.server.sessions))
            await asyncio.wait_for(endpoints.server.stop(0.3), 10)
            assert endpoints.server.sessions == {}


async def test_a_peer_that_disconnects_during_the_pause_is_forgotten() -> None:
    async with pair(pause_s=0.1) as endpoints:
        for _ in range(3):
            dialling = asyncio.ensure_future(endpoints.dial(password="wrong"))
            await until(lambda: any(not session.is_open for session in endpoints.server.sessions))
            dialling.cancel()
        await until(lambda: not endpoints.server.sessions)


async def test_a_closed_channel_ignores_late_answers() -> None:
    async with pair() as endpoints:
        link = await endpoints.dial()
        channel = await link.open_channel()
        await channel.declare_queue("q", exclusive=True)
        for _ in range(100):
            channel.publish("", "q", header(b"1"), b"1", mandatory=True)
            channel.publish("", "nowhere", header(b"1"), b"1", mandatory=True)
        asking = asyncio.ensure_future(channel.get("q"))
        await asyncio.sleep(0)
        channel.close()
        with pytest.raises(LinkLost):
            await asking
        other = await link.open_channel()
        assert (await other.declare_queue("q", passive=True)).message_count == 100


def test_small_pieces_are_joined_for_tls_and_large_pieces_are_unchanged() -> None:
    large = bytes(RECORD)
    pieces: list[bytes | memoryview] = [b"a", memoryview(b"b"), b"c" * (RECORD - 2), large, b"d", large, b"e"]
    together = list(join_small(pieces))
    assert b"".join(together) == b"".join(pieces)
    assert [len(piece) for piece in together] == [RECORD, RECORD, RECORD + 1, 1]
    assert together[1] is large
    assert list(join_small([])) == []
