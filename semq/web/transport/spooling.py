"""Bodies of requests: small bodies in memory, large ones in temporary files.

The files have no name, and are deleted after the request or when the process ends. No further bytes are read from the
client while a block is written.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from starlette.requests import ClientDisconnect, Request

from semq.transport.spool import SpooledBody
from semq.web.errors import BadRequest, SpoolFull
from semq.web.transport.bodies import ByteBudget, bounded

IN_MEMORY = 1 << 20  # bytes of the largest body without a file; larger bodies are written in blocks of this size


@asynccontextmanager
async def kept_body(
    request: Request, at_most: int, memory: ByteBudget, disk: ByteBudget, owner: str
) -> AsyncIterator[bytes | SpooledBody]:
    """Read a body and keep it until the end of the ``async with``.

    Raises BodyTooLarge, BodiesFull, SpoolFull, BadRequest.
    """
    async with memory.reserved(0, owner) as space, AsyncExitStack() as files:
        yield await _read(bounded(request, at_most, space, IN_MEMORY), disk, owner, files)


async def _read(request: Request, disk: ByteBudget, owner: str, files: AsyncExitStack) -> bytes | SpooledBody:
    block = bytearray()
    spooled: SpooledBody | None = None
    try:
        async for part in request.stream():
            block += part
            if len(block) > IN_MEMORY:
                spooled = spooled or await _in_thread(SpooledBody)
                await _write(spooled, block, disk, owner, files)
    except ClientDisconnect as error:
        raise BadRequest("The client disconnected before the end of the body.") from error
    if spooled is None:
        return bytes(block)
    await _write(spooled, block, disk, owner, files)
    return spooled


async def _write(spooled: SpooledBody, block: bytearray, disk: ByteBudget, owner: str, files: AsyncExitStack) -> None:
    files.callback(disk.reserve_now(len(block), owner).release)
    await _in_thread(_append, spooled, bytes(block))
    block.clear()


def _append(spooled: SpooledBody, data: bytes) -> None:
    spooled.add(data)
    spooled.flush()


async def _in_thread(function: Any, *arguments: object) -> Any:
    try:
        return await asyncio.to_thread(function, *arguments)
    except OSError as error:
        raise SpoolFull(fault=error.strerror, retry_after_s=30) from error
