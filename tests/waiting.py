"""Waiting for states that no event reports: states of nodes, rows of databases, lines of files."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 180.0  # long enough for a busy machine
PAUSE_S_MIN, PAUSE_S_MAX = 0.001, 0.05


async def until(condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Wait until ``condition`` (plain or async) returns something true, and return it. Raises TimeoutError."""
    pause_s = PAUSE_S_MIN
    async with asyncio.timeout(patience_s):
        while True:
            value = condition()
            value = await value if inspect.isawaitable(value) else value
            if value:
                return value
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)


def until_sync(condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Wait like ``until``, but without an event loop and with a plain function."""
    end, pause_s = time.monotonic() + patience_s, PAUSE_S_MIN
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, PAUSE_S_MAX)
    return value
