"""A UDP relay that loses, doubles, delays, alters and blocks datagrams, and changes its own port as a NAT does.

It has one listening port, and one socket towards the target for each client. Tests use it in their event loop; ``./run
bench datagrams`` starts it as a process:

    python -m bench.udp_relay TARGET_PORT LOSS      prints its port, and ends when its standard input ends
"""

import asyncio
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

LOOPBACK = "127.0.0.1"
SO_RCVBUFFORCE = 33  # an option of Linux, which Python does not name
BUFFER_BYTES = 8 << 20  # receive buffer of the kernel, if permitted


def free_udp_port() -> int:
    """Return a UDP port of the loopback address that is free now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


@dataclass(slots=True)
class DatagramFaults:
    """The faults; the defaults cause none. The first four are shares of the datagrams, from 0 to 1."""

    loss: float = 0.0
    double: float = 0.0
    late: float = 0.0  #: passed on after the next datagram
    alter: float = 0.0  #: one bit is changed
    size_max: int = 65_535  #: larger datagrams are lost
    is_blocked: bool = False  #: all datagrams are lost


class UdpRelay:
    """A relay with one listening port."""

    def __init__(self, target_port: int, faults: DatagramFaults | None = None) -> None:
        self.faults = faults or DatagramFaults()
        self.passed, self.lost = 0, 0
        self.answers = 0  #: number of the target's answers to ``send_to_target``
        self.recorded: list[bytes] = []  #: the last 100 datagrams of clients, as they arrived
        self._target = (LOOPBACK, target_port)
        self._chance = Random(1)
        self._front: asyncio.DatagramTransport | None = None
        self._upstream: dict[Any, asyncio.DatagramTransport] = {}
        self._waiting: dict[Any, list[bytes]] = {}  # by client, until its upstream socket is open
        self._tasks: set[asyncio.Task[None]] = set()
        self._late: tuple[asyncio.DatagramTransport, bytes, Any] | None = None  # socket, datagram, addressee

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._front, _ = await loop.create_datagram_endpoint(
            lambda: _DatagramProtocol(self._on_datagram), sock=_socket()
        )

    @property
    def port(self) -> int:
        assert self._front is not None
        return int(self._front.get_extra_info("sockname")[1])

    def aim(self, port: int) -> None:
        self._target = (LOOPBACK, port)

    def stop(self) -> None:
        if self._front is not None:
            self._front.close()
        self.rebind()

    def rebind(self) -> None:
        """Use other ports towards the target from now on."""
        for upstream in self._upstream.values():
            upstream.close()
        self._upstream.clear()

    def send_to_target(self, datagram: bytes) -> None:
        """Send a datagram of no client: from the listening port to the target."""
        assert self._front is not None
        self._front.sendto(datagram, self._target)

    def _on_datagram(self, datagram: bytes, client: Any) -> None:
        if client == self._target:
            self.answers += 1
            return
        self.recorded = [*self.recorded[-99:], datagram]
        upstream = self._upstream.get(client)
        if upstream is not None and not upstream.is_closing():
            self._pass(upstream, datagram, self._target)
        elif client in self._waiting:
            self._waiting[client].append(datagram)
        else:
            self._waiting[client] = [datagram]
            task = asyncio.get_running_loop().create_task(self._connect(client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self, client: Any) -> None:
        def pass_back(datagram: bytes, _: Any) -> None:
            if self._front is not None:
                self._pass(self._front, datagram, client)

        loop = asyncio.get_running_loop()
        upstream, _ = await loop.create_datagram_endpoint(lambda: _DatagramProtocol(pass_back), sock=_socket())
        self._upstream[client] = upstream
        for datagram in self._waiting.pop(client):
            self._pass(upstream, datagram, self._target)

    def _pass(self, transport: asyncio.DatagramTransport, datagram: bytes, to: Any) -> None:
        faults, chance = self.faults, self._chance.random
        if faults.is_blocked or len(datagram) > faults.size_max or chance() < faults.loss:
            self.lost += 1
            return
        if chance() < faults.alter:
            bit = self._chance.randrange(len(datagram) * 8)
            changed = bytearray(datagram)
            changed[bit // 8] ^= 1 << bit % 8
            datagram = bytes(changed)
        self.passed += 1
        late, self._late = self._late, None
        if late is None and chance() < faults.late:
            self._late = (transport, datagram, to)
            return
        transport.sendto(datagram, to)
        if chance() < faults.double:
            transport.sendto(datagram, to)
        if late is not None and not late[0].is_closing():
            late[0].sendto(*late[1:])


def _socket() -> socket.socket:
    """Return a UDP socket on a free port, with a large receive buffer."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setblocking(False)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    with suppress(OSError):  # only root may exceed the limit of the system
        udp.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    udp.bind((LOOPBACK, 0))
    return udp


class _DatagramProtocol(asyncio.DatagramProtocol):
    def __init__(self, on_datagram: Callable[[bytes, Any], None]) -> None:
        self._on_datagram = on_datagram

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._on_datagram(data, addr)


async def _relay(target_port: int, loss: float) -> None:
    relay = UdpRelay(target_port, DatagramFaults(loss=loss))
    await relay.start()
    print(relay.port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    relay.stop()


if __name__ == "__main__":
    asyncio.run(_relay(int(sys.argv[1]), float(sys.argv[2])))
