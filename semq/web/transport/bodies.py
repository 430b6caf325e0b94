"""Bodies of requests and answers: each reserves its bytes, so that memory and disk space are bounded.

A body whose length is not announced reserves the largest permitted length when its first part has come. ``connection``
disconnects clients that pause or are slow, so that their bytes become free.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from io import BytesIO

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from semq.errors import Unavailable
from semq.transport.spool import SpooledBody
from semq.web.errors import BadRequest, BodiesFull, BodyTooLarge

WAIT_S = 30.0  # longest wait for free memory
FIRST = 64 << 10  # bytes of a body before it reserves its whole length
CHUNK = 48 << 10  # bytes; a multiple of three: only the last chunk has padding in base64


class Reservation:
    """Bytes that one owner has reserved."""

    def __init__(self, budget: "ByteBudget", owner: str) -> None:
        self.size = 0
        self._budget = budget
        self._owner = owner

    async def wait_for(self, size: int) -> None:
        """Reserve ``size`` bytes; wait at most WAIT_S for them, then raise the error of the budget.

        Nothing is reserved during the wait: requests that wait for more bytes must not keep them from one another.
        """
        if size > self.size:
            self.release()
            self.size = await self._budget.wait_for(size, self._owner)

    def change(self, size: int) -> None:
        """Reserve ``size`` bytes without a wait. Raises the error of the budget, without a change."""
        self.size = self._budget.change(self.size, size, self._owner)

    def release(self, kept: int = 0) -> None:
        """Release the bytes except ``kept``; further calls are harmless."""
        if kept < self.size:
            self.change(kept)


class ByteBudget:
    """Bytes of memory or disk that requests reserve, in their order. A request for more than all bytes gets all.

    An owner (``Visitor.key``) that has reserved bytes gets more only if at least as many stay free as it then has: one
    owner gets at most half, two owners get at most two thirds, and something is free for each further one.
    """

    def __init__(self, size: int, full: type[Unavailable] = BodiesFull) -> None:
        """``full``: the error to raise if too few bytes are free."""
        self._full = full
        self._free = size
        self._size = size
        self._owned: Counter[str] = Counter()
        self._waiting: deque[tuple[int, str, asyncio.Future[None]]] = deque()  #: bytes | owner | end of the wait

    @asynccontextmanager
    async def reserved(self, size: int, owner: str) -> AsyncIterator[Reservation]:
        """Reserve bytes for a block of code. Wait for them at most WAIT_S, then raise ``full``."""
        reservation = await self.reserve(size, owner)
        try:
            yield reservation
        finally:
            reservation.release()

    async def reserve(self, size: int, owner: str) -> Reservation:
        """Return a reservation of bytes. Wait for them at most WAIT_S, then raise ``full``."""
        reservation = Reservation(self, owner)
        await reservation.wait_for(size)
        return reservation

    def reserve_now(self, size: int, owner: str) -> Reservation:
        """Return a reservation of bytes, without a wait. Raises ``full``."""
        reservation = Reservation(self, owner)
        reservation.change(size)
        return reservation

    def change(self, reserved: int, size: int, owner: str) -> int:
        """Reserve ``size`` instead of ``reserved`` bytes without a wait; return how many are reserved now.

        Raises ``full``, without a change.
        """
        size = min(size, self._size)
        more = size - reserved
        if more > 0 and (more > self._free or not self._may_have(more, owner) or self._is_turn_of_others()):
            raise self._full(retry_after_s=5)
        self._take(more, owner)
        if more < 0:
            self._admit()
        return size

    async def wait_for(self, size: int, owner: str) -> int:
        """Wait at most WAIT_S for bytes, then raise ``full``; return how many are reserved now."""
        size = min(size, self._size)
        if size <= self._free and self._may_have(size, owner) and not self._is_turn_of_others():
            self._take(size, owner)
            return size
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, owner, turn))
        try:
            async with asyncio.timeout(WAIT_S):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._take(-size, owner)
            elif (size, owner, turn) in self._waiting:  # ``_admit`` removes entries whose requests were cancelled
                self._waiting.remove((size, owner, turn))
            self._admit()
            if isinstance(error, TimeoutError):
                raise self._full(retry_after_s=5) from error
            raise
        return size

    def _may_have(self, more: int, owner: str) -> bool:
        """Whether the share of an owner permits that it gets more bytes."""
        owned = self._owned[owner]
        return not owned or owned + more <= self._free - more

    def _is_turn_of_others(self) -> bool:
        """Whether a request waits only because too few bytes are free."""
        return any(self._may_have(size, owner) for size, owner, _ in self._waiting)

    def _take(self, size: int, owner: str) -> None:
        self._free -= size
        self._owned[owner] += size
        if not self._owned[owner]:
            del self._owned[owner]

    def _admit(self) -> None:
        """Give bytes to waiting requests, in their order; those of an owner that has its share let others pass."""
        for entry in list(self._waiting):
            size, owner, turn = entry
            if turn.done():  # the request no longer waits
                self._waiting.remove(entry)
            elif self._may_have(size, owner):
                if size > self._free:
                    return
                self._waiting.remove(entry)
                self._take(size, owner)
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


def bounded(request: Request, at_most: int, space: Reservation | None = None, space_max: int | None = None) -> Request:
    """Return the request with a limit for its body: reading more bytes raises BodyTooLarge.

    Raises BodyTooLarge, BadRequest for an announced length that is too large or not a number.

    ``space``: memory for the body. A body that has more than FIRST bytes reserves its whole length there, but at most
    ``space_max``. The first bytes are in the buffers of the connection anyway, so that a slow body costs no more.
    """
    whole = min(announced(request, at_most), at_most if space_max is None else space_max)
    size = 0

    async def receive() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > at_most:
            raise BodyTooLarge(at_most=at_most)
        if space is not None:
            await space.wait_for(whole if size > FIRST else min(size, whole))
        return message

    return Request(request.scope, receive)


async def read_body(request: Request) -> bytes:
    """Read a body. Raises BodyTooLarge, BadRequest if the client disconnects."""
    body = BytesIO()  # not a list of parts: joining the list would copy them
    try:
        async for part in request.stream():
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
