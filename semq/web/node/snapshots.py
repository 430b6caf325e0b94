"""Answers shared by all viewers: made at most once in so many seconds, for any number of requests."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from semq.clock import Clock


class Snapshots:
    """The latest answers by name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[float, Any]] = {}
        self._making: dict[str, asyncio.Task[Any]] = {}

    async def get(self, name: str, seconds: float, make: Callable[[], Awaitable[Any]]) -> Any:
        """Return an answer that is not older than ``seconds``; concurrent callers wait for one ``make``.

        Raises what ``make`` raises; a failure is not kept.
        """
        kept = self._kept.get(name)
        if kept is not None and self._clock.monotonic() - kept[0] < seconds:
            return kept[1]
        making = self._making.get(name)
        if making is None:
            making = asyncio.ensure_future(self._make(name, make))
            self._making[name] = making
            making.add_done_callback(lambda done: self._made(name, done))
        return await asyncio.shield(making)

    def _made(self, name: str, done: "asyncio.Future[Any]") -> None:
        self._making.pop(name, None)
        if not done.cancelled():
            done.exception()  # marks it as retrieved: all callers may have been cancelled

    async def _make(self, name: str, make: Callable[[], Awaitable[Any]]) -> Any:
        made = await make()
        self._kept[name] = self._clock.monotonic(), made
        return made
