"""A TCP proxy that causes faults of a link: cuts, half-open connections, and those of ``LinkFaults``.

One ``Proxy`` listens on one port for the whole campaign; its target changes when a server restarts on another port.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

CHUNK = 64 * 1024


@dataclass(slots=True)
class LinkFaults:
    """The faults of a link; the defaults cause none."""

    delay_s: float = 0.0  #: pause before each chunk is passed on
    bytes_per_s: float = 0.0  #: 0: no limit
    write_bytes_max: int = 0  #: 0: no limit
    is_refusing: bool = False  #: new connections are reset
    is_silent_to_server: bool = False  #: bytes from the dialler are withheld, and so is the end of its connection
    is_silent_to_dialler: bool = False  #: bytes from the server are withheld, and so is the end of its connection


class Proxy:
    """One listening port, and the connections through it."""

    def __init__(self) -> None:
        self.faults = LinkFaults()
        self.target: tuple[str, int] | None = None  #: address of the server; None: connections are reset
        self.connections = 0  #: connections to the server so far
        self._open: set[_Pair] = set()
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=CHUNK)

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        await asyncio.gather(*(pair.copying_ended.wait() for pair in self._open))

    # ------------------------------------------------------------ faults

    def change(self, **faults: float | bool) -> None:
        """Change faults of all present and later connections."""
        for name, value in faults.items():
            setattr(self.faults, name, value)
        self._changed.set()
        self._changed = asyncio.Event()

    def clear(self) -> None:
        """End the faults in ``faults``, and pass on the withheld bytes."""
        self.change(**{name: getattr(LinkFaults(), name) for name in LinkFaults.__slots__})

    def cut(self) -> None:
        """Reset every connection on both sides."""
        for pair in list(self._open):
            pair.abort()

    def cut_after(self, size: int) -> None:
        """Close each open connection after ``size`` more bytes of both directions together, usually within a frame."""
        for pair in self._open:
            pair.bytes_left = size

    def half_open(self) -> None:
        """Reset the dialler's side of each connection; the server gets no notice."""
        for pair in list(self._open):
            pair.reset_dialler()

    # ------------------------------------------------------------ inside

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = self.target
        if self.faults.is_refusing or target is None:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*target, limit=CHUNK)
        except OSError:
            writer.transport.abort()
            return
        self.connections += 1
        pair = _Pair(writer, far_writer)
        self._open.add(pair)
        try:
            forward = self._copy(pair, reader, far_writer, lambda: self.faults.is_silent_to_server)
            backward = self._copy(pair, far_reader, writer, lambda: self.faults.is_silent_to_dialler)
            await asyncio.gather(forward, backward)
        finally:
            pair.abort()
            self._open.discard(pair)
            pair.copying_ended.set()

    async def _copy(
        self, pair: "_Pair", reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_silent: Callable[[], bool]
    ) -> None:
        """Copy one direction until it ends; then end both."""
        with suppress(OSError):
            while chunk := await reader.read(self.faults.write_bytes_max or CHUNK):
                if pair.is_half_open:
                    continue
                while is_silent() and not pair.ended.is_set():
                    await self._wait_for_change(pair)
                await self._delay(len(chunk))
                allowed = pair.allow(len(chunk))
                writer.write(chunk[:allowed])
                if allowed < len(chunk):
                    await writer.drain()
                    break
                await writer.drain()
        if not pair.is_half_open:
            pair.end()

    async def _delay(self, size: int) -> None:
        rate = self.faults.bytes_per_s
        pause = self.faults.delay_s + (size / rate if rate else 0.0)
        if pause:
            await asyncio.sleep(pause)

    async def _wait_for_change(self, pair: "_Pair") -> None:
        waits = [asyncio.ensure_future(self._changed.wait()), asyncio.ensure_future(pair.ended.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


class _Pair:
    """One connection: the dialler's socket and the server's."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self._near = near
        self._far = far
        self.bytes_left: int | None = None  #: bytes that still pass; None: no limit
        self.is_half_open = False  #: the dialler's side is closed, the server's side is open
        self.ended = asyncio.Event()  #: set when both sides are reset or closed
        self.copying_ended = asyncio.Event()  #: set when nothing is copied any more

    def allow(self, size: int) -> int:
        """Return how many of these bytes may still pass."""
        if self.bytes_left is None:
            return size
        allowed = min(self.bytes_left, size)
        self.bytes_left -= allowed
        return allowed

    def abort(self) -> None:
        self.ended.set()
        for writer in (self._near, self._far):
            _reset(writer)

    def end(self) -> None:
        """Close both sides when the written bytes are sent."""
        self.ended.set()
        for writer in (self._near, self._far):
            with suppress(OSError, RuntimeError):
                writer.close()

    def reset_dialler(self) -> None:
        self.is_half_open = True
        _reset(self._near)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection by RST instead of FIN: bytes under way are lost."""
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
