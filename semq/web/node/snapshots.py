"""Answers that visitors share: each is made at most once in a given time."""

import asyncio
from collections.abc import Awaitable, Callable

from semq.clock import Clock


class Snapshots:
    """The latest answers, keyed by name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: dict[str, tuple[float, object]] = {}
        self._making: dict[str, asyncio.Task[object]] = {}

    async def get(self, name: str, seconds: float, make: Callable[[], Awaitable[object]]) -> object:
        """Return an answer that is not older than ``seconds``; concurrent callers wait for one ``make``.

        Raises the errors of ``make``.
        """
        if name in self._answers:
            made_at, answer = self._answers[name]
            if self._clock.monotonic() - made_at < seconds:
                return answer
        making = self._making.get(name)
        if making is None:
            making = asyncio.ensure_future(self._make(name, make))
            self._making[name] = making
            making.add_done_callback(lambda done: self._forget_task(name, done))
        return await asyncio.shield(making)

    def _forget_task(self, name: str, done: "asyncio.Future[object]") -> None:
        self._making.pop(name, None)
        if not done.cancelled():
            done.exception()  # marks the exception as retrieved: all callers may have been cancelled

    async def _make(self, name: str, make: Callable[[], Awaitable[object]]) -> object:
        answer = await make()
        self._answers[name] = self._clock.monotonic(), answer
        return answer
