"""Waiting for states that no event reports."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 180.0  # long enough for a busy machine
PAUSE_S_MIN, PAUSE_S_MAX = 0.001, 0.05
# Shortest pause below PAUSE_S_MAX, as a multiple of the duration of the condition: many conditions query a database.
PAUSE_FACTOR = 3


async def until(condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Wait until ``condition`` (plain or async) returns something true; return it. Raises TimeoutError."""
    pause_s = PAUSE_S_MIN
    async with asyncio.timeout(patience_s):
        while True:
            begun = time.monotonic()
            value = condition()
            value = await value if inspect.isawaitable(value) else value
            if value:
                return value
            pause_s = min(max(pause_s, PAUSE_FACTOR * (time.monotonic() - begun)), PAUSE_S_MAX)
            await asyncio.sleep(pause_s)
            pause_s *= 2


def until_sync(condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Wait as ``until`` does, without an event loop, for a plain function."""
    begun = time.monotonic()
    end, pause_s = begun + patience_s, PAUSE_S_MIN
    while not (value := condition()):
        now = time.monotonic()
        if now > end:
            raise TimeoutError
        pause_s = min(max(pause_s, PAUSE_FACTOR * (now - begun)), PAUSE_S_MAX)
        time.sleep(pause_s)
        pause_s *= 2
        begun = time.monotonic()
    return value
