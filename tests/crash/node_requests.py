"""Requests to nodes that may die at any step, repeated until they are answered; effects of revocations."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from semq.app import Client, RefusedByNode
from semq.errors import SemqError
from tests.crash.armed.process import CrashProcess

PATIENCE_S = 120.0  # for one request, with all its repetitions
RETRY_S = 0.3
REVOKED_S_MAX = 30.0  # a live link ends within seconds; the limit allows for a busy machine and a killed hub
T = TypeVar("T")


async def repeat_until_done(act: Callable[[], Awaitable[T]]) -> T:
    """Call ``act`` until it succeeds. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await act()
            except (SemqError, OSError):
                await asyncio.sleep(RETRY_S)


async def ask(node: CrashProcess | Callable[[], CrashProcess], operation: str, **arguments: Any) -> Any:
    """Request an operation until it is answered; return the answer. Raises TimeoutError.

    ``node``: a process, or a function that returns the process to ask.
    """

    async def act() -> Any:
        process = node if isinstance(node, CrashProcess) else node()
        async with Client(process.url, patience_s=10.0) as client:
            return await client.request(operation, arguments)

    return await repeat_until_done(act)


async def revoke_and_measure(hub: CrashProcess, address: str) -> float:
    """Revoke the certificates of a node; return the seconds until its link has ended."""
    await ask(hub, "cert.revoke", which=address, why="test")
    started = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        while await _is_online(hub, address):  # noqa: ASYNC110  (another process ends it)
            await asyncio.sleep(RETRY_S)
    return time.monotonic() - started


async def until_no_direct_link(node: CrashProcess, to: str, is_excused: Callable[[], bool]) -> None:
    """Wait until a node has no direct link with a partner, or ``is_excused()``. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_excused() and (await ask(node, "node.status"))["direct"][to]["link"] == "up":  # noqa: ASYNC110
            await asyncio.sleep(RETRY_S)


async def _is_online(hub: CrashProcess, address: str) -> bool:
    return any(row["node"] == address and row["online"] for row in await ask(hub, "nodes.list"))


async def ask_or_refused(node: CrashProcess, operation: str, **arguments: Any) -> str:
    """Request an operation until it is answered; return the reason of a refusal, or an empty text."""
    refusal = ""

    async def act() -> Any:
        nonlocal refusal
        async with Client(node.url, patience_s=10.0) as client:
            try:
                return await client.request(operation, arguments)
            except RefusedByNode as error:
                refusal = str(error)
                return None

    await repeat_until_done(act)
    return refusal
