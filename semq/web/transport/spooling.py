"""Bodies of requests: small ones in memory, large ones in temporary files without a name, which end with the process.

A body is written block by block as it arrives, in a thread, and the client is not read from meanwhile. The bytes of all
files are counted, and the disk may be full before that: the request is then refused, and nothing was submitted.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from starlette.requests import ClientDisconnect, Request

from semq.transport.spool import SpooledBody
from semq.web.errors import BadRequest, BodyTooLarge, SpoolFull
from semq.web.transport.bodies import Amount, announced

IN_MEMORY = 1 << 20  # bytes of the largest body that is not written to a file, and of a block


@asynccontextmanager
async def kept_body(request: Request, at_most: int, memory: Amount, disk: Amount) -> AsyncIterator[bytes | SpooledBody]:
    """Read a body and keep it until the end of the block.

    Raises BodyTooLarge, BodiesFull, SpoolFull, BadRequest if the client disconnects.
    """
    size = announced(request, at_most)
    async with memory.reserved(min(size, IN_MEMORY)), AsyncExitStack() as files:
        yield await _read(request, at_most, disk, files)


async def _read(request: Request, at_most: int, disk: Amount, files: AsyncExitStack) -> bytes | SpooledBody:
    block = bytearray()
    spooled: SpooledBody | None = None
    try:
        async for part in request.stream():
            block += part
            if len(block) + (0 if spooled is None else len(spooled)) > at_most:
                raise BodyTooLarge(at_most=at_most)
            if len(block) > IN_MEMORY:
                spooled = spooled or await _in_thread(SpooledBody)
                await _write(spooled, block, disk, files)
    except ClientDisconnect as error:
        raise BadRequest("The client disconnected before the end of the body.") from error
    if spooled is None:
        return bytes(block)
    await _write(spooled, block, disk, files)
    return spooled


async def _write(spooled: SpooledBody, block: bytearray, disk: Amount, files: AsyncExitStack) -> None:
    files.callback(disk.take_at_once(len(block)))
    await _in_thread(_added, spooled, bytes(block))
    block.clear()


def _added(spooled: SpooledBody, data: bytes) -> None:
    spooled.add(data)
    spooled.flush()


async def _in_thread(function: Any, *given: Any) -> Any:
    try:
        return await asyncio.to_thread(function, *given)
    except OSError as error:
        raise SpoolFull(fault=error.strerror, retry_after_s=30) from error
