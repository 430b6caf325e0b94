"""A UDP relay that loses, doubles, delays, alters and blocks datagrams, and changes its own port as a NAT does.

It listens at one port and passes datagrams on to a target, and answers back; each client has an upstream socket. Tests
use it in their event loop; ``./run bench datagrams`` starts it as a process:

    python -m bench.udp_relay TARGET_PORT LOSS      prints its port, and ends when its input ends
"""

import asyncio
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

LOOPBACK = "127.0.0.1"
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 8 << 20  # receive buffer of the kernel, if permitted; datagrams that do not fit are lost, too


def free_udp_port() -> int:
    """Return a UDP port of the loopback address that is free now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind((LOOPBACK, 0))
        return int(one.getsockname()[1])


@dataclass(slots=True)
class DatagramFaults:
    """The faults, as parts of the datagrams; the defaults cause none."""

    loss: float = 0.0
    double: float = 0.0
    late: float = 0.0  #: passed on after the next datagram
    alter: float = 0.0  #: one bit is changed
    size_max: int = 65_535  #: larger ones are lost
    is_blocked: bool = False


class UdpRelay:
    """One listening port."""

    def __init__(self, target_port: int, faults: DatagramFaults | None = None, seed: int = 1) -> None:
        self.faults = faults or DatagramFaults()
        self.passed, self.lost = 0, 0
        self.answers = 0  #: datagrams of the target to ``send_to_target``
        self.recorded: list[bytes] = []  #: the last datagrams towards the target
        self._target = (LOOPBACK, target_port)
        self._chance = Random(seed)
        self._front: asyncio.DatagramTransport | None = None
        self._upstream: dict[Any, asyncio.DatagramTransport] = {}
        self._making: dict[Any, list[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: tuple[asyncio.DatagramTransport, bytes, Any] | None = None

    async def start(self) -> None:
        """Listen on a free port."""
        loop = asyncio.get_running_loop()
        self._front, _ = await loop.create_datagram_endpoint(lambda: _End(self._arrived), sock=_socket())

    @property
    def port(self) -> int:
        """The port at which it listens."""
        assert self._front is not None
        return int(self._front.get_extra_info("sockname")[1])

    def aim(self, port: int) -> None:
        """Pass datagrams on to another port from now on."""
        self._target = (LOOPBACK, port)

    def stop(self) -> None:
        """Close all sockets."""
        if self._front is not None:
            self._front.close()
        self.rebind()

    def rebind(self) -> None:
        """Use other ports towards the target from now on."""
        for upstream in self._upstream.values():
            upstream.close()
        self._upstream.clear()

    def send_to_target(self, datagram: bytes) -> None:
        """Send bytes of our own to the target, from the listening port."""
        assert self._front is not None
        self._front.sendto(datagram, self._target)

    def _arrived(self, datagram: bytes, client: Any) -> None:
        if client == self._target:
            self.answers += 1
            return
        self.recorded = [*self.recorded[-99:], datagram]
        upstream = self._upstream.get(client)
        if upstream is not None and not upstream.is_closing():
            self._pass(upstream, datagram, self._target)
        elif client in self._making:
            self._making[client].append(datagram)
        else:
            self._making[client] = [datagram]
            task = asyncio.get_running_loop().create_task(self._connect(client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self, client: Any) -> None:
        def back(datagram: bytes, _: Any) -> None:
            if self._front is not None:
                self._pass(self._front, datagram, client)

        loop = asyncio.get_running_loop()
        upstream, _ = await loop.create_datagram_endpoint(lambda: _End(back), sock=_socket())
        self._upstream[client] = upstream
        for datagram in self._making.pop(client):
            self._pass(upstream, datagram, self._target)

    def _pass(self, way: asyncio.DatagramTransport, datagram: bytes, to: Any) -> None:
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
        held, self._held = self._held, None
        if held is None and chance() < faults.late:
            self._held = (way, datagram, to)
            return
        way.sendto(datagram, to)
        if chance() < faults.double:
            way.sendto(datagram, to)
        if held is not None and not held[0].is_closing():
            held[0].sendto(*held[1:])


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    with suppress(OSError):  # for root on Linux, beyond the limit of the system
        made.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    made.bind((LOOPBACK, 0))
    return made


class _End(asyncio.DatagramProtocol):
    def __init__(self, arrived: Any) -> None:
        self._arrived = arrived

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._arrived(data, addr)


async def _relay(target_port: int, loss: float) -> None:
    relay = UdpRelay(target_port, DatagramFaults(loss=loss))
    await relay.start()
    print(relay.port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    relay.stop()


if __name__ == "__main__":
    asyncio.run(_relay(int(sys.argv[1]), float(sys.argv[2])))
