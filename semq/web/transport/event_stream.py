"""Server-sent events: the wire format, and a response that sends a heartbeat while nothing happens."""

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.responses import StreamingResponse

HEARTBEAT_S = 15.0
_closing: set[asyncio.Task[None]] = set()
RETRY_MS = 2000  # pause of the browser before it connects again


def event(name: str, data: str, id: str = "") -> str:  # the field's own name
    """Return one event; the browser sends ``id`` as Last-Event-ID when it reconnects."""
    lines = [f"id: {_one_line(id)}"] if id else []
    lines += [f"event: {_one_line(name)}"] if name else []
    lines += [f"data: {line}" for line in data.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return "\n".join(lines) + "\n\n"


def _one_line(text: str) -> str:
    return "".join(text.splitlines()).replace("\0", "")


async def with_heartbeat(events: AsyncIterator[str], ended: Callable[[], None]) -> AsyncIterator[str]:
    """Yield events, and a comment when there is none for a while, which shows that the connection works. Call ``ended``
    at the end.
    """
    coming: asyncio.Future[str] | None = None
    try:
        yield f"retry: {RETRY_MS}\n\n"
        while True:
            coming = coming or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait((coming,), timeout=HEARTBEAT_S)
            if not done:
                yield ": still here\n\n"
                continue
            finished, coming = coming, None
            try:
                yield finished.result()
            except StopAsyncIteration:
                return
    finally:
        ended()
        # In a task of its own: this one is cancelled when the browser has gone, and then each further wait in it, too.
        closing = asyncio.get_running_loop().create_task(_close(events, coming))
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)


async def _close(events: AsyncIterator[str], coming: asyncio.Future[str] | None) -> None:
    if coming is not None:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()


def stream(events: AsyncIterator[str], ended: Callable[[], None] = lambda: None) -> StreamingResponse:
    """Return a response of events."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(with_heartbeat(events, ended), media_type="text/event-stream", headers=headers)
