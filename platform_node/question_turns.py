"""Turns for questions about messages, so that many questions of one institution do not delay those of others.

The questions of one asker wait in a queue, and the askers take turns. The length of a queue and the time of waiting are
limited.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from semq.clock import Clock
from semq.errors import Unavailable

WAITING_MAX = 4  # questions of one asker
WAIT_S = 2.5  # shorter than the time limit of those who ask


class ShareUsed(Unavailable):
    """More questions of this institution wait for their turn than its share allows."""

    code = "SEMQ-1282"
    remedy = "Wait for the earlier answers, then ask again; the ledger of your own node can be read at any time."


class QuestionTurns:
    """Waiting questions by asker, and the order of turns."""

    def __init__(self, clock: Clock, at_once: int, per_second: float = 0.0) -> None:
        """``at_once``: turns at the same time. ``per_second``: turns that begin in a second, after the first
        ``at_once``; 0: any number.
        """
        self._clock = clock
        self._at_once = at_once
        self._interval_s = 1 / per_second if per_second else 0.0
        # Time of the next turn at an even rate; up to ``at_once`` - 1 turns may begin before it.
        self._due = clock.monotonic()
        self._under_way = 0
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  #: by asker, in the order of their next turns
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def turn(self, asker: str) -> AsyncIterator[None]:
        """Wait for a turn, which lasts until the end of the ``with`` block. Raises ShareUsed."""
        queue = self._waiting.get(asker, ())
        if len(queue) >= WAITING_MAX:
            raise ShareUsed(asker=asker, waiting=len(queue))
        turn_began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(asker, deque()).append(turn_began)
        self._begin_due_turns()
        try:
            try:
                async with asyncio.timeout(WAIT_S):
                    await turn_began
            except TimeoutError:
                raise ShareUsed(f"No turn came within {WAIT_S:g} s.", asker=asker) from None
            yield
        finally:
            if turn_began.done() and not turn_began.cancelled():
                self._end()  # even if its asker has stopped waiting
            else:
                self._forget(asker, turn_began)

    def _end(self) -> None:
        self._under_way -= 1
        self._begin_due_turns()

    def _forget(self, asker: str, turn_began: "asyncio.Future[None]") -> None:
        queue = self._waiting.get(asker)
        if queue is not None and turn_began in queue:
            queue.remove(turn_began)
            if not queue:
                del self._waiting[asker]

    def _begin_due_turns(self) -> None:
        while self._waiting and self._under_way < self._at_once:
            wait_s = self._due - (self._at_once - 1) * self._interval_s - self._clock.monotonic()
            if wait_s > 0:
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(wait_s, self._timer_ended)
                return
            turn_began = self._next()
            if not turn_began.done():  # else the asker has stopped waiting
                self._due = max(self._due, self._clock.monotonic()) + self._interval_s
                self._under_way += 1
                turn_began.set_result(None)

    def _timer_ended(self) -> None:
        self._timer = None
        self._begin_due_turns()

    def _next(self) -> "asyncio.Future[None]":
        """Return the first question of the next asker, whose further questions wait for a later turn."""
        asker = next(iter(self._waiting))
        queue = self._waiting.pop(asker)
        turn_began = queue.popleft()
        if queue:
            self._waiting[asker] = queue
        return turn_began
