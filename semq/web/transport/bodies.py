"""Bodies of requests in bounded memory: the bytes of all requests in progress are counted, and further ones wait.

A body whose length is not announced counts as the largest one. Clients that pause are disconnected (``connection``),
which limits the wait of the others.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from semq.web.errors import BadRequest, BodyTooLarge, TooManyRequests

WAIT_S = 30.0  # for memory


class Memory:
    """A number of bytes that requests share, first come, first served."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._size = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def reserved(self, size: int) -> AsyncIterator[None]:
        """Reserve bytes, perhaps after a wait. Raises TooManyRequests after WAIT_S."""
        size = min(size, self._size)
        await self._take(size)
        try:
            yield
        finally:
            self._free += size
            self._wake()

    async def _take(self, size: int) -> None:
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
            else:
                self._waiting.remove((size, turn))
            self._wake()
            if isinstance(error, TimeoutError):
                raise TooManyRequests("The bodies of other requests fill the memory.", retry_after_s=5) from error
            raise

    def _wake(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._free:
            size, turn = self._waiting.popleft()
            if turn.done():  # it stopped waiting
                continue
            self._free -= size
            turn.set_result(None)


def announced(request: Request, at_most: int) -> int:
    """Return the number of bytes to reserve for a body. Raises BodyTooLarge, BadRequest."""
    length = request.headers.get("content-length")
    if length is None:
        return at_most
    if not length.isdecimal():
        raise BadRequest("Content-Length is not a number.")
    if int(length) > at_most:
        raise BodyTooLarge(bytes=int(length), at_most=at_most)
    return int(length)


def bounded(request: Request, at_most: int) -> Request:
    """Return the request with a limit of its body, however its length is announced. Reading raises BodyTooLarge."""
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
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > at_most:
                raise BodyTooLarge(at_most=at_most)
            parts.append(part)
    except ClientDisconnect as error:
        raise BadRequest("The client disconnected before the end of the body.") from error
    return parts[0] if len(parts) == 1 else b"".join(parts)
