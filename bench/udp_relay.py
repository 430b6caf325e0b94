"""A UDP relay that loses, doubles, delays, alters and blocks datagrams, and changes its own port as a NAT does.

It listens at one port and passes datagrams on to a target, and answers back; each client has an upstream socket. Used
by ``./run bench datagrams`` and by tests.
"""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Any

LOOPBACK = "127.0.0.1"


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
        self._front, _ = await loop.create_datagram_endpoint(lambda: _End(self._arrived), (LOOPBACK, 0))

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
        upstream, _ = await loop.create_datagram_endpoint(lambda: _End(back), (LOOPBACK, 0))
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


class _End(asyncio.DatagramProtocol):
    def __init__(self, arrived: Any) -> None:
        self._arrived = arrived

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._arrived(data, addr)
