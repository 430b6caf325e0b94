"""The socket: bytes of strangers, sessions and the ids of their channels, a port in use, sizes that cannot be sent."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from semq.answers.status import DatagramCounts
from semq.clock import SystemClock, draw_secret
from semq.datagrams.errors import DatagramAddressUnusable
from semq.datagrams.port import DatagramPort
from semq.datagrams.session import DatagramTimes, Transmission
from semq.umx_t.records import ChannelRecord
from tests.datagrams.test_session import document
from tests.waiting import until

LOOPBACK = ("127.0.0.1", 0)


@pytest.fixture
async def port() -> Any:
    udp_port = DatagramPort(SystemClock(), DatagramTimes())
    udp_port.open(socket.AF_INET, LOOPBACK)
    yield udp_port
    udp_port.close()


@pytest.fixture
def stranger() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp_socket:
        udp_socket.bind(LOOPBACK)
        udp_socket.setblocking(False)
        yield udp_socket


async def test_foreign_bytes_are_counted_and_not_answered(port: DatagramPort, stranger: socket.socket) -> None:
    for datagram in (b"", b"x", bytes(1500), b"\xa1" * 60):
        stranger.sendto(datagram, ("127.0.0.1", port.number))
    await until(lambda: port.strangers == 4)
    with pytest.raises(BlockingIOError):
        stranger.recv(1)


async def test_sessions_are_served_until_they_end(port: DatagramPort) -> None:
    received: list[ChannelRecord] = []
    hub = port.begin(DatagramCounts(), received.append, lambda document: True)
    unused = port.begin(DatagramCounts(), received.append, lambda document: True)
    node_port = DatagramPort(SystemClock(), DatagramTimes())
    node_port.open(socket.AF_INET, LOOPBACK)
    node = node_port.begin(DatagramCounts(), received.append, lambda document: True)
    hub.offer(draw_secret, "", port.number)
    node.accept(received[0], ("127.0.0.1", port.number))
    await until(lambda: hub.open_channel is not None and node.open_channel is not None)
    port.end(hub)
    port.end(unused)
    assert hub.open_channel is None
    strangers_before = port.strangers
    channel = node.open_channel
    assert channel is not None
    sealed = channel.seal(b"\1")
    assert sealed is not None
    node_port.transmit(sealed[1], ("127.0.0.1", port.number))
    await until(lambda: port.strangers > strangers_before)
    node_port.close()


async def test_a_port_in_use_is_an_error_with_its_address(port: DatagramPort) -> None:
    second_port = DatagramPort(SystemClock(), DatagramTimes())
    with pytest.raises(DatagramAddressUnusable) as caught:
        second_port.open(socket.AF_INET, ("127.0.0.1", port.number))
    assert caught.value.facts["port"] == port.number
    assert not second_port.is_open


async def test_datagrams_that_the_machine_does_not_send_are_reported(port: DatagramPort) -> None:
    assert port.transmit(bytes(66_000), ("127.0.0.1", port.number)) is Transmission.TOO_LARGE
    assert port.transmit(b"x", ("127.0.0.1", 0)) is Transmission.FULL
    port.close()
    assert port.transmit(b"x", LOOPBACK) is Transmission.FULL
    assert port.number == 0


async def test_a_port_on_ipv6_also_receives_over_ipv4(stranger: socket.socket) -> None:
    ipv6_port = DatagramPort(SystemClock(), DatagramTimes())
    ipv6_port.open(socket.AF_INET6, ("::", 0))
    stranger.sendto(b"x", ("127.0.0.1", ipv6_port.number))
    await until(lambda: ipv6_port.strangers == 1)
    ipv6_port.close()


async def test_a_closed_port_can_be_opened_for_addresses_of_another_kind(port: DatagramPort) -> None:
    assert port.family == socket.AF_INET
    port.close()
    port.open(socket.AF_INET6, ("::1", 0))
    assert port.family == socket.AF_INET6


async def test_a_channel_id_in_use_is_not_taken_over_by_another_session(port: DatagramPort) -> None:
    """A peer that knows the id of another peer's channel offers a channel with the same id."""
    records: list[ChannelRecord] = []
    hub_port = DatagramPort(SystemClock(), DatagramTimes())
    hub_port.open(socket.AF_INET, LOOPBACK)
    hub = hub_port.begin(DatagramCounts(), records.append, lambda document: True)
    hub.offer(draw_secret, "", hub_port.number)
    node = port.begin(DatagramCounts(), records.append, lambda document: True)
    node.accept(records[0], ("127.0.0.1", hub_port.number))
    await until(lambda: node.open_channel is not None)
    hostile = port.begin(DatagramCounts(), records.append, lambda document: True)
    hostile.accept(ChannelRecord(id=records[0].id, secret="ff" * 32), ("127.0.0.1", 9))
    await until(lambda: hub.open_channel is not None)
    assert hub.send(document())
    await until(lambda: node.counts.received == 1)
    port.end(hostile)
    assert hub.send(document())
    await until(lambda: node.counts.received == 2)
    hub_port.close()
