"""TLS handshakes of a listener: accepts sockets, and passes each to its protocol after a successful handshake.

asyncio's servers neither count nor log sockets during the handshake. Here each socket has a place from the start.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial

from semq.transport.places import Places
from semq.transport.tls_files import TlsFiles, present

log = logging.getLogger(__name__)

PAUSE_S = 0.5  # pause in accepting after the machine has run out of file descriptors or memory
OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
WITHOUT_TLS = "the peer spoke plain AMQP, or something else without TLS, at a TLS port: its address must begin amqps://"
HTTP = "the peer spoke HTTP at a TLS port for AMQP"
CAUSES = {  # reason of OpenSSL | what happened
    "WRONG_VERSION_NUMBER": WITHOUT_TLS,
    "PACKET_LENGTH_TOO_LONG": WITHOUT_TLS,
    "HTTP_REQUEST": HTTP,
    "HTTPS_PROXY_REQUEST": HTTP,
    "UNSUPPORTED_PROTOCOL": "the peer offers no version of TLS that this node accepts (tls.minimum)",
    "CERTIFICATE_VERIFY_FAILED": "this node does not accept the certificate of the peer",
}


class _Handshake:
    """A socket in its handshake."""

    def __init__(self, began_at: float) -> None:
        self.waits_since = began_at
        self.task: asyncio.Task[bool] | None = None

    def displace(self) -> None:
        assert self.task is not None
        self.task.cancel()


class Handshakes:
    """The listening sockets of a TLS port, and the handshakes in progress."""

    def __init__(
        self,
        places: Places,
        tls: ssl.SSLContext | TlsFiles,
        handshake_s: float,
        make: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self.failed = 0
        self._places = places
        self.tls: ssl.SSLContext | TlsFiles = tls
        self._handshake_s = handshake_s
        self._make = make
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[bool]] = set()

    async def start(self, host: str, port: int, backlog: int) -> None:
        """Bind, listen and accept. Raises OSError if the port is in use."""
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, number, _, address in dict.fromkeys(addresses):
                self._sockets.append(_listening_socket(socket.socket(family, kind, number), address, backlog))
        except OSError:
            self.stop()
            raise
        for listening in self._sockets:
            loop.add_reader(listening, self._accept, listening)

    @property
    def port(self) -> int | None:
        """The listening port; None while no socket listens."""
        return int(self._sockets[0].getsockname()[1]) if self._sockets else None

    def stop(self) -> None:
        """Stop accepting, and drop the sockets whose handshake is in progress."""
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.remove_reader(listening)
            listening.close()
        self._sockets.clear()
        for task in self._tasks:
            task.cancel()

    def _accept(self, listening: socket.socket) -> None:
        try:
            accepted, name = listening.accept()
        except OSError as error:
            if error.errno in OUT_OF_RESOURCES:
                log.warning("cannot accept a connection: %s", error)
                self._pause(listening)
            return  # otherwise the peer closed the socket before it was accepted (accept(2))
        accepted.setblocking(False)
        address = str(name[0]) if isinstance(name, tuple) else ""
        if not self._places.have_room(address):
            accepted.close()
            return
        loop = asyncio.get_running_loop()
        handshake = _Handshake(loop.time())
        self._places.take(handshake, address)  # if it succeeds, the protocol takes another place
        handshake.task = loop.create_task(self._handshake(accepted, address))
        self._tasks.add(handshake.task)
        handshake.task.add_done_callback(partial(self._ended, accepted, handshake))

    def _pause(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)

        def resume() -> None:
            if listening in self._sockets:
                loop.add_reader(listening, self._accept, listening)

        loop.call_later(PAUSE_S, resume)

    async def _handshake(self, accepted: socket.socket, address: str) -> bool:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make, accepted, ssl=present(self.tls), ssl_handshake_timeout=self._handshake_s
            )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            self.failed += 1
            log.warning("TLS handshake with %s failed: %s", address, _cause(error))
            return False
        return True

    def _ended(self, accepted: socket.socket, handshake: _Handshake, task: asyncio.Task[bool]) -> None:
        """Close a socket whose handshake failed, also if the task was cancelled before its first step."""
        self._tasks.discard(task)
        self._places.leave(handshake)
        if task.cancelled() or task.exception() is not None or not task.result():
            accepted.close()


def _cause(error: OSError | TimeoutError) -> str:
    """Return what happened in a failed handshake, with the text of OpenSSL as a detail."""
    if not str(error):  # the peer has closed the socket, which most clients do without an alert
        return "the peer ended it; it may not trust the authority of this node's certificate"
    reason = error.reason if isinstance(error, ssl.SSLError) else ""
    return f"{CAUSES[reason]} ({error})" if reason in CAUSES else str(error)


def _listening_socket(unbound: socket.socket, address: tuple[object, ...], backlog: int) -> socket.socket:
    try:
        unbound.setblocking(False)
        unbound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if unbound.family == socket.AF_INET6:
            unbound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        unbound.bind(address)
        unbound.listen(backlog)
    except OSError:
        unbound.close()
        raise
    return unbound
