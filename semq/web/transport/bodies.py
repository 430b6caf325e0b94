"""Bodies of requests and answers: each reserves its bytes, so that memory and disk space are bounded.

A body whose length is not announced reserves the largest permitted length. ``connection`` disconnects clients that
pause, so that their bytes become free.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from semq.errors import Unavailable
from semq.transport.spool import SpooledBody
from semq.web.errors import BadRequest, BodiesFull, BodyTooLarge

WAIT_S = 30.0  # longest wait for free memory
CHUNK = 48 << 10  # bytes; a multiple of three: only the last chunk has padding in base64


class Release(Protocol):
    """A function that releases reserved bytes; further calls are harmless."""

    def __call__(self, kept: int = 0) -> None:
        """``kept``: bytes that stay reserved."""


class ByteBudget:
    """Bytes of memory or disk, reserved in the order of the requests. A request for more than all bytes gets all."""

    def __init__(self, size: int, full: type[Unavailable] = BodiesFull) -> None:
        """``full``: the error to raise if too few bytes are free."""
        self._full = full
        self._free = size
        self._size = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()  #: number of bytes | end of the wait for them

    @asynccontextmanager
    async def reserved(self, size: int) -> AsyncIterator["Release"]:
        """Reserve bytes for a block of code; yield the function that releases some of them early.

        Wait for free bytes at most WAIT_S, then raise ``full``.
        """
        release = await self.reserve(size)
        try:
            yield release
        finally:
            release()

    async def reserve(self, size: int) -> "Release":
        """Reserve bytes; return the function that releases them. Wait at most WAIT_S, then raise ``full``."""
        size = min(size, self._size)
        await self._wait(size)
        return self._release_function(size)

    def reserve_now(self, size: int) -> "Release":
        """Reserve bytes without a wait; return the function that releases them. Raises ``full``."""
        return self._release_function(self.change_now(0, size))

    def change_now(self, reserved: int, size: int) -> int:
        """Reserve ``size`` instead of ``reserved`` bytes without a wait; return how many are reserved now.

        Raises ``full``, without a change.
        """
        size = min(size, self._size)
        if size > reserved and (self._waiting or size - reserved > self._free):
            raise self._full(retry_after_s=5)
        self._free += reserved - size
        self._admit()
        return size

    def _release_function(self, size: int) -> "Release":
        reserved = size

        def release(kept: int = 0) -> None:
            nonlocal reserved
            released = max(reserved - kept, 0)
            if released:
                reserved -= released
                self._free += released
                self._admit()

        return release

    async def _wait(self, size: int) -> None:
        if not self._waiting and size <= self._free:
            self._free -= size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout(WAIT_S):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._free += size
            elif (size, turn) in self._waiting:  # ``_admit`` removes entries whose requests were cancelled
                self._waiting.remove((size, turn))
            self._admit()
            if isinstance(error, TimeoutError):
                raise self._full(retry_after_s=5) from error
            raise

    def _admit(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._free:
            size, turn = self._waiting.popleft()
            if turn.done():  # the request no longer waits
                continue
            self._free -= size
            turn.set_result(None)


def announced(request: Request, at_most: int) -> int:
    """Return the announced length of a body, or ``at_most`` without one. Raises BodyTooLarge, BadRequest."""
    length = request.headers.get("content-length")
    if length is None:
        return at_most
    if not length.isdecimal():
        raise BadRequest("Content-Length is not a number.")
    if int(length) > at_most:
        raise BodyTooLarge(bytes=int(length), at_most=at_most)
    return int(length)


def bounded(request: Request, at_most: int) -> Request:
    """Return the request with a limit for its body: reading more bytes raises BodyTooLarge."""
    size = 0

    async def receive() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > at_most:
            raise BodyTooLarge(at_most=at_most)
        return message

    return Request(request.scope, receive)


async def read_body(request: Request, at_most: int) -> bytes:
    """Read a body. Raises BodyTooLarge, BadRequest if the client disconnects."""
    body, size = BytesIO(), 0  # not a list of parts: joining the list would copy them
    try:
        async for part in request.stream():
            size += len(part)
            if size > at_most:
                raise BodyTooLarge(at_most=at_most)
            body.write(part)
    except ClientDisconnect as error:
        raise BadRequest("The client disconnected before the end of the body.") from error
    return body.getvalue()


class ChunkedResponse(StreamingResponse):
    """An answer that is sent in chunks. ``on_end`` is called at its end, also after a failure."""

    def __init__(
        self,
        chunks: Iterable[bytes] | AsyncIterator[bytes],
        size: int | None,
        headers: dict[str, str],
        media_type: str,
        on_end: Callable[[], None],
        status: int = 200,
    ) -> None:
        length = {} if size is None else {"content-length": str(size)}
        content = chunks if isinstance(chunks, AsyncIterator) else _one_by_one(chunks)
        super().__init__(content, status, headers | length, media_type)
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()


async def _one_by_one(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks in the event loop; Starlette would use a thread."""
    for chunk in chunks:
        yield chunk


def chunks_of(body: bytes | SpooledBody) -> Iterator[bytes]:
    """Yield a body in chunks."""
    if isinstance(body, SpooledBody):
        yield from body.blocks(CHUNK)
        return
    for begin in range(0, len(body), CHUNK):
        yield body[begin : begin + CHUNK]
