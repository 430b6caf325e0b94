"""Turns for questions about messages, so that many questions of one institution do not delay those of others. There is
one ``QuestionTurns`` for each party with a limited rate of answers (the node at the other end, the hub's own ledger).
Questions wait by asker, and askers take turns; the number of waiting questions of one asker and the time of waiting are
limited. Used by ``questions`` and ``ask_exchange``.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from semq.clock import Clock
from semq.errors import Unavailable

WAITING_MAX = 4  # questions of one asker
WAIT_S = 2.5  # less than the time for which an asker waits for the answer


class ShareUsed(Unavailable):
    """More questions of this institution wait for their turn than its share allows."""

    code = "SEMQ-1282"
    remedy = "Wait for the earlier answers, then ask again; your own ledger answers at any time."


class QuestionTurns:
    """Waiting questions by asker, and the order of turns."""

    def __init__(self, clock: Clock, at_once: int, a_second: float = 0.0) -> None:
        """``a_second``: number of turns that begin in a second, after the first ``at_once``; 0: any number."""
        self._clock = clock
        self._at_once = at_once
        self._apart_s = 1 / a_second if a_second else 0.0
        self._due = clock.monotonic()  # the time of the next turn if turns were evenly spread
        self._under_way = 0
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  #: by asker, in the order of their next turns
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def turn(self, asker: str) -> AsyncIterator[None]:
        """Wait for a turn, which lasts until the end of the ``with`` block. Raises ShareUsed."""
        queue = self._waiting.get(asker, ())
        if len(queue) >= WAITING_MAX:
            raise ShareUsed(asker=asker, waiting=len(queue))
        begins: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(asker, deque()).append(begins)
        self._give()
        try:
            try:
                async with asyncio.timeout(WAIT_S):
                    await begins
            except TimeoutError:
                raise ShareUsed(f"No turn came within {WAIT_S:g} s.", asker=asker) from None
            yield
        finally:
            if begins.done() and not begins.cancelled():
                self._end()  # also a turn that began at the moment at which its asker stopped waiting
            else:
                self._forget(asker, begins)

    def _end(self) -> None:
        self._under_way -= 1
        self._give()

    def _forget(self, asker: str, begins: "asyncio.Future[None]") -> None:
        queue = self._waiting.get(asker)
        if queue is not None and begins in queue:
            queue.remove(begins)
            if not queue:
                del self._waiting[asker]

    def _give(self) -> None:
        """Begin the turns that are due."""
        while self._waiting and self._under_way < self._at_once:
            wait_s = self._due - (self._at_once - 1) * self._apart_s - self._clock.monotonic()
            if wait_s > 0:
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(wait_s, self._give_again)
                return
            begins = self._next()
            if not begins.done():  # otherwise its asker has stopped waiting in this turn of the loop
                self._due = max(self._due, self._clock.monotonic()) + self._apart_s
                self._under_way += 1
                begins.set_result(None)

    def _give_again(self) -> None:
        self._timer = None
        self._give()

    def _next(self) -> "asyncio.Future[None]":
        """Return the first question of the asker whose turn it is; the asker then waits behind the others."""
        asker = next(iter(self._waiting))
        queue = self._waiting.pop(asker)
        begins = queue.popleft()
        if queue:
            self._waiting[asker] = queue
        return begins
