"""TLS handshakes of a listener: accepts sockets and hands over those whose handshake has succeeded.

Needed because asyncio's servers neither count nor log sockets during the handshake, nor limit its time: here each
socket is counted from the start, has a time limit, and is logged when its handshake fails. Owned by ``listener``.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Protocol

log = logging.getLogger(__name__)

PAUSE_S = 0.5  # after the machine has run out of file descriptors
OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Gate(Protocol):
    """The counter of sockets."""

    def knock(self, address: str) -> bool:
        """Count a new socket; return False if there are too many."""

    def knocked(self, address: str) -> None:
        """Note that its handshake has ended, with or without success."""


class Handshakes:
    """The listening sockets of a TLS port, and the handshakes in progress."""

    def __init__(
        self, gate: Gate, tls: ssl.SSLContext, handshake_s: float, make: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self.failed = 0
        self._gate = gate
        self.tls = tls
        self._handshake_s = handshake_s
        self._make = make
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int, backlog: int) -> None:
        """Bind, listen and accept. Raises OSError if the port is in use."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, number, _, address in dict.fromkeys(found):
                self._sockets.append(_listening(socket.socket(family, kind, number), address, backlog))
        except OSError:
            self.stop()
            raise
        for one in self._sockets:
            self._run(self._accept(one))

    @property
    def port(self) -> int | None:
        """The listening port."""
        return int(self._sockets[0].getsockname()[1]) if self._sockets else None

    def stop(self) -> None:
        """Stop accepting, and drop the sockets whose handshake is in progress."""
        for task in self._tasks:
            task.cancel()
        for one in self._sockets:
            one.close()
        self._sockets.clear()

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, name = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in OUT_OF_DESCRIPTORS:
                    log.warning("cannot accept a connection: %s", error)
                    await asyncio.sleep(PAUSE_S)
                continue  # otherwise the socket was closed before it was accepted (accept(2))
            address = str(name[0]) if isinstance(name, tuple) else ""
            if self._gate.knock(address):
                self._run(self._shake(accepted, address))
            else:
                accepted.close()

    async def _shake(self, accepted: socket.socket, address: str) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make, accepted, ssl=self.tls, ssl_handshake_timeout=self._handshake_s
            )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            self.failed += 1
            log.warning("TLS handshake with %s failed: %s", address, error)
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise
        finally:
            self._gate.knocked(address)


def _listening(made: socket.socket, address: Any, backlog: int) -> socket.socket:
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if made.family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(backlog)
    except OSError:
        made.close()
        raise
    return made
