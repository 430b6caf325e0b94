"""Waiting for the end of documents: one subscription to events for all who wait, and a look at the node before and
between.

Events only wake early: a document may have ended before we listened, or while the connection was away, so its state
is asked for at the beginning, after every new connection, and now and then.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from semq.app.errors import NeverTold, NotDelivered, NotYetKnown
from semq.app.requests import Requests
from semq.app.subscription import Subscription
from semq.app.values import Event, Fate, reason_text
from semq.clock import Clock
from semq.errors import SemqError

LOOK_S = 5.0  # at most so long between two looks
SUBMISSION_S = 0.5  # the same at a submission of SQL, of which no event tells that it was accepted


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

    async def wait(self, name: str, timeout_s: float) -> Fate:
        """The end of one document. Raises NotDelivered, NotYetKnown, NeverTold, and what asking the node raises."""
        until = self._clock.monotonic() + timeout_s
        shown, fate = await self._look(name, until)
        if fate is None:
            await self._listen()
            shown, fate = await self._until_known(str(shown["lk0"]), until)
        if fate is None:
            facts = {"waits_for": reason_text(shown.get("reason"))} if "submission" in shown else {}
            raise NotYetKnown(lk0=shown["lk0"], waited_s=timeout_s, **facts)
        if not fate.is_delivered:
            raise NotDelivered(lk0=fate.lk0, outcome=fate.outcome, reason=fate.reason)
        return fate

    async def close(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _look(self, name: str, until: float) -> tuple[Mapping[str, Any], Fate | None]:
        """What the node knows of a document, and its end if it has ended. Raises NeverTold."""
        shown = await self._requests.operate("msg.show", {"id": name}, max(until - self._clock.monotonic(), 1.0))
        fate = read_fate(shown)
        if fate is None and is_never_told(shown):
            raise NeverTold(name=shown.get("name"), lk0=shown["lk0"])
        return shown, fate

    async def _until_known(self, lk0: str, until: float) -> tuple[Mapping[str, Any], Fate | None]:
        """The end of a document, if there is one in time, and what was seen of it last.

        A submission of SQL becomes a document with a name of its own, by which events tell of it.
        """
        known = self._expect(lk0)
        try:
            while True:
                shown, fate = await self._look(lk0, until)
                left = until - self._clock.monotonic()
                if fate is not None or left <= 0:
                    return shown, fate
                if shown["lk0"] != lk0:
                    self._forget(lk0, known)
                    lk0 = str(shown["lk0"])
                    known = self._expect(lk0)
                    continue  # it may have ended before we listened
                pause_s = SUBMISSION_S if "submission" in shown else LOOK_S
                done, _ = await asyncio.wait((known,), timeout=min(left, pause_s))
                if done:
                    return shown, known.result()
        finally:
            self._forget(lk0, known)

    def _expect(self, lk0: str) -> asyncio.Future[Fate]:
        known: asyncio.Future[Fate] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(lk0, []).append(known)
        return known

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


# What this node has recorded of a document that it received | how it has ended
RECEIVED = {"RECV": "DELIVERED", "DONE": "DELIVERED", "REJ": "REJECTED", "VOID": "CANCELLED"}


def read_fate(shown: Mapping[str, Any]) -> Fate | None:
    """How a document ended, from what a node knows of it; None while it has not."""
    outcome = shown.get("outcome")
    if not outcome and shown.get("side") == "inbound":
        outcome = RECEIVED.get(str(shown.get("status") or shown.get("last_event")))
    return Fate(str(shown["lk0"]), str(outcome), reason_text(shown.get("reason"))) if outcome else None


def is_never_told(shown: Mapping[str, Any]) -> bool:
    """Whether nobody will tell the node how a document ended: it only passed it on, or no receipt is asked for.

    What no queue holds and has no end in the ledger left without a row, which is kept only for a receipt.
    """
    if shown.get("direction") == "RELAYED" or shown.get("cleaned"):
        return True
    return shown.get("save_fwd") in (1, 2) and not shown.get("ack2")
