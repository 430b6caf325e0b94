"""Server-sent events: the wire format, and a response that sends a heartbeat while nothing happens."""

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.responses import StreamingResponse

HEARTBEAT_S = 15.0  # longest time without a byte
RETRY_MS = 2000  # pause of the browser before it connects again
_closing: set[asyncio.Task[None]] = set()  # keeps the tasks alive until they end


def event(name: str, data: str, id: str = "") -> str:
    """Return one event; the browser sends ``id`` as Last-Event-ID when it reconnects."""
    lines = [f"id: {_one_line(id)}"] if id else []
    lines += [f"event: {_one_line(name)}"] if name else []
    lines += [f"data: {line}" for line in data.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return "\n".join(lines) + "\n\n"


def _one_line(text: str) -> str:
    return "".join(text.splitlines()).replace("\0", "")


async def with_heartbeat(events: AsyncIterator[str], on_end: Callable[[], None]) -> AsyncIterator[str]:
    """Yield events, and a comment after each HEARTBEAT_S without one: proxies then keep the connection open.

    Call ``on_end`` at the end.
    """
    upcoming: asyncio.Future[str] | None = None
    try:
        yield f"retry: {RETRY_MS}\n\n"
        while True:
            upcoming = upcoming or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait((upcoming,), timeout=HEARTBEAT_S)
            if not done:
                yield ": still here\n\n"
                continue
            finished, upcoming = upcoming, None
            try:
                yield finished.result()
            except StopAsyncIteration:
                return
    finally:
        on_end()
        # In a task of its own: if the browser has disconnected, the present task is cancelled and cannot wait.
        closing = asyncio.get_running_loop().create_task(_close(events, upcoming))
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)


async def _close(events: AsyncIterator[str], upcoming: asyncio.Future[str] | None) -> None:
    if upcoming is not None:
        upcoming.cancel()
        await asyncio.gather(upcoming, return_exceptions=True)
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()


def stream(events: AsyncIterator[str], on_end: Callable[[], None] = lambda: None) -> StreamingResponse:
    """Return a response of server-sent events; ``on_end`` is called at the end of the stream."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(with_heartbeat(events, on_end), media_type="text/event-stream", headers=headers)
