"""The socket: foreign bytes, a port in use, and sizes that this machine does not send."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from semq.clock import SystemClock, draw_secret
from semq.datagrams.counts import DatagramCounts
from semq.datagrams.errors import DatagramPortTaken
from semq.datagrams.port import DatagramPort
from semq.datagrams.session import DatagramTimes, Transmission
from semq.umx_t.records import ChannelRecord
from tests.waiting import until

LOOPBACK = ("127.0.0.1", 0)


@pytest.fixture
async def port() -> Any:
    made = DatagramPort(SystemClock(), DatagramTimes())
    made.open(socket.AF_INET, LOOPBACK)
    yield made
    made.close()


@pytest.fixture
def stranger() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(LOOPBACK)
        made.setblocking(False)
        yield made


async def test_foreign_bytes_are_counted_and_not_answered(port: DatagramPort, stranger: socket.socket) -> None:
    for datagram in (b"", b"x", bytes(1500), b"\xa1" * 60):
        stranger.sendto(datagram, ("127.0.0.1", port.number))
    await until(lambda: port.strangers == 4)
    with pytest.raises(BlockingIOError):
        stranger.recv(1)


async def test_sessions_are_served_until_they_end(port: DatagramPort) -> None:
    received: list[ChannelRecord] = []
    hub = port.begin(DatagramCounts(), received.append, lambda one: True)
    node = port.begin(DatagramCounts(), received.append, lambda one: True)
    other = DatagramPort(SystemClock(), DatagramTimes())
    other.open(socket.AF_INET, LOOPBACK)
    far = other.begin(DatagramCounts(), received.append, lambda one: True)
    hub.offer(draw_secret, "", port.number)
    far.accept(received[0], ("127.0.0.1", port.number))
    await until(lambda: hub.open_channel is not None and far.open_channel is not None)
    port.end(hub)
    port.end(node)
    assert hub.open_channel is None
    before = port.strangers
    channel = far.open_channel
    assert channel is not None
    sealed = channel.seal(b"\1")
    assert sealed is not None
    other.transmit(sealed[1], ("127.0.0.1", port.number))
    await until(lambda: port.strangers > before)
    other.close()


async def test_a_port_in_use_is_an_error_with_its_address(port: DatagramPort) -> None:
    other = DatagramPort(SystemClock(), DatagramTimes())
    with pytest.raises(DatagramPortTaken) as caught:
        other.open(socket.AF_INET, ("127.0.0.1", port.number))
    assert caught.value.facts["port"] == port.number
    assert not other.is_open


async def test_datagrams_that_the_machine_does_not_send_are_reported(port: DatagramPort) -> None:
    assert port.transmit(bytes(66_000), ("127.0.0.1", port.number)) is Transmission.TOO_LARGE
    assert port.transmit(b"x", ("127.0.0.1", 0)) is Transmission.FULL
    port.close()
    assert port.transmit(b"x", LOOPBACK) is Transmission.FULL
    assert port.number == 0


async def test_it_listens_on_ipv6(stranger: socket.socket) -> None:
    made = DatagramPort(SystemClock(), DatagramTimes())
    made.open(socket.AF_INET6, ("::", 0))
    stranger.sendto(b"x", ("127.0.0.1", made.number))
    await until(lambda: made.strangers == 1)
    made.close()


async def test_a_closed_port_can_be_opened_for_addresses_of_another_kind(port: DatagramPort) -> None:
    assert port.family == socket.AF_INET
    port.close()
    port.open(socket.AF_INET6, ("::1", 0))
    assert port.family == socket.AF_INET6
