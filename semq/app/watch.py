"""Waiting for the end of documents: one subscription to events for all who wait, and a look at the node before and
between.

Events only wake early: a document may have ended before we listened, or while the connection was away, so its state
is asked for at the beginning, after every new connection, and now and then.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from semq.app.errors import NotDelivered, NotYetKnown
from semq.app.requests import Requests
from semq.app.subscription import Subscription
from semq.app.values import Event, Fate, reason_text
from semq.clock import Clock
from semq.errors import SemqError

LOOK_S = 5.0  # at most so long between two looks


class Watch:
    """Knows who waits for which document."""

    def __init__(self, requests: Requests, events: Callable[[], Subscription[Event]], clock: Clock) -> None:
        self._requests = requests
        self._events = events
        self._clock = clock
        self._waiting: dict[str, list[asyncio.Future[Fate]]] = {}
        self._subscription: Subscription[Event] | None = None
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def wait(self, lk0: str, timeout_s: float) -> Fate:
        """The end of one document. Raises NotDelivered, NotYetKnown, and what asking the node raises."""
        until = self._clock.monotonic() + timeout_s
        known: asyncio.Future[Fate] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(lk0, []).append(known)
        try:
            await self._listen()
            fate = await self._until_known(lk0, known, until)
        finally:
            self._forget(lk0, known)
        if fate is None:
            raise NotYetKnown(lk0=lk0, waited_s=timeout_s)
        if not fate.is_delivered:
            raise NotDelivered(lk0=lk0, outcome=fate.outcome, reason=fate.reason)
        return fate

    async def close(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _until_known(self, lk0: str, known: "asyncio.Future[Fate]", until: float) -> Fate | None:
        while True:
            left = until - self._clock.monotonic()
            if left <= 0:
                return None
            fate = read_fate(lk0, await self._requests.operate("msg.show", {"id": lk0}, max(left, 1.0)))
            if fate is not None:
                return fate
            done, _ = await asyncio.wait((known,), timeout=min(left, LOOK_S))
            if done:
                return known.result()

    async def _listen(self) -> None:
        async with self._starting:
            if self._task is None or self._task.done():
                self._subscription = await self._events().open()
                self._task = asyncio.create_task(self._hear(self._subscription), name="semq watch")

    async def _hear(self, events: Subscription[Event]) -> None:
        try:
            async for event in events:
                if event.is_final:
                    for waiting in self._waiting.get(event.lk0, ()):
                        if not waiting.done():
                            waiting.set_result(event.fate)
        except SemqError:
            return  # whoever waits looks by itself, and hears there what is wrong

    def _forget(self, lk0: str, known: "asyncio.Future[Fate]") -> None:
        waiting = self._waiting.get(lk0, [])
        waiting.remove(known)
        if not waiting:
            del self._waiting[lk0]


def read_fate(lk0: str, shown: dict[str, Any]) -> Fate | None:
    """How a document ended, from what its node knows of it; None while it has not."""
    outcome = shown.get("outcome")
    return Fate(lk0, str(outcome), reason_text(shown.get("reason"))) if outcome else None
