"""Waiting for outcomes, by one subscription to events for all callers, and by queries.

An event only shortens the wait. A document may have ended before the subscription, or during a lost connection, so its
state is queried at the beginning, and then regularly.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from semq.app.errors import NoReceiptRequested, NotDelivered, NotYetKnown
from semq.app.requests import Requests
from semq.app.subscription import Subscription
from semq.app.values import DocumentEvent, Fate, reason_text
from semq.clock import Clock
from semq.errors import SemqError

QUERY_S = 5.0  # longest time between two queries
GROUP_S = 0.5  # from the end of one member of a group to the next query
SUBMISSION_S = 0.5  # longest time between two queries about an SQL submission: its acceptance causes no event


class Watch:
    """The waiting callers, and their subscription to events."""

    def __init__(self, requests: Requests, events: Callable[[], Subscription[DocumentEvent]], clock: Clock) -> None:
        self._requests = requests
        self._events = events
        self._clock = clock
        # keyed by LK0; the result None: a member of the group has ended
        self._waiting: dict[str, list[asyncio.Future[Fate | None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def wait(self, name: str, timeout_s: float) -> Fate:
        """Wait for the outcome of one document.

        Raises NotDelivered, NotYetKnown, NoReceiptRequested, and the errors of ``look``.
        """
        until = self._clock.monotonic() + timeout_s
        record, fate = await self._read(name, until)
        if fate is None:
            await self._listen(until)
            record, fate = await self._until_known(str(record["lk0"]), until)
        if fate is None:
            facts = {"waits_for": reason_text(record.get("reason"))} if "submission" in record else {}
            raise NotYetKnown(name=record.get("name"), lk0=record["lk0"], waited_s=timeout_s, **facts)
        if not fate.is_delivered:
            raise NotDelivered(lk0=fate.lk0, outcome=fate.outcome, reason=fate.reason)
        return fate

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self, name: str, until: float) -> tuple[Mapping[str, object], Fate | None]:
        record = await self._requests.operate("msg.show", {"id": name}, max(until - self._clock.monotonic(), 1.0))
        fate = read_fate(record)
        if fate is None and has_no_outcome(record):
            raise NoReceiptRequested(name=record.get("name"), lk0=record["lk0"])
        return record, fate

    async def _until_known(self, lk0: str, until: float) -> tuple[Mapping[str, object], Fate | None]:
        """Return the last record of a document, and its outcome if there is one before ``until``.

        An accepted SQL submission becomes a document with another locator, which events use.
        """
        outcome = self._expect(lk0)
        try:
            while True:
                record, fate = await self._read(lk0, until)
                left_s = until - self._clock.monotonic()
                if fate is not None or left_s <= 0:
                    return record, fate
                if record["lk0"] != lk0:
                    self._forget(lk0, outcome)
                    lk0 = str(record["lk0"])
                    outcome = self._expect(lk0)
                    continue  # query again: the document may have ended before ``_expect``
                pause_s = SUBMISSION_S if "submission" in record else QUERY_S
                done, _ = await asyncio.wait((outcome,), timeout=min(left_s, pause_s))
                if done and (fate := outcome.result()) is not None:
                    return record, fate
                if done:  # a member of the group has ended
                    await asyncio.sleep(min(left_s, GROUP_S))
                    self._forget(lk0, outcome)
                    outcome = self._expect(lk0)
        finally:
            self._forget(lk0, outcome)

    def _expect(self, lk0: str) -> asyncio.Future[Fate | None]:
        outcome: asyncio.Future[Fate | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(lk0, []).append(outcome)
        return outcome

    async def _listen(self, until: float) -> None:
        """Follow events. If the subscription does not open in time, the caller has only its queries."""
        with suppress(TimeoutError):
            async with asyncio.timeout(until - self._clock.monotonic()), self._starting:
                if self._task is None or self._task.done():
                    events = self._events()
                    try:
                        await events.open()
                    except BaseException:
                        await events.aclose()
                        raise
                    self._task = asyncio.create_task(self._follow(events), name="semq watch")

    async def _follow(self, events: Subscription[DocumentEvent]) -> None:
        try:
            async for event in events:
                if event.is_final:
                    self._report(event.lk0, event.fate)
                    if event.group is not None:
                        self._report(event.group.lk0, None)
        except SemqError:
            return  # callers get the error from their own queries

    def _report(self, lk0: str, fate: Fate | None) -> None:
        for waiting in self._waiting.get(lk0, ()):
            if not waiting.done():
                waiting.set_result(fate)

    def _forget(self, lk0: str, outcome: "asyncio.Future[Fate | None]") -> None:
        waiting = self._waiting.get(lk0, [])
        waiting.remove(outcome)
        if not waiting:
            del self._waiting[lk0]


# Status, or last event in the ledger, of a received document at this node | its outcome. A void marker does not state
# its cause, so the outcome at the sender may differ from CANCELLED.
OUTCOME_OF_RECEIVED = {"RECV": "DELIVERED", "DONE": "DELIVERED", "REJ": "REJECTED", "VOID": "CANCELLED"}


def read_fate(record: Mapping[str, object]) -> Fate | None:
    """Return the outcome according to the node's record; None while there is none."""
    outcome = record.get("outcome")
    if not outcome and record.get("side") == "inbound":
        outcome = OUTCOME_OF_RECEIVED.get(str(record.get("status") or record.get("last_event")))
    return Fate(str(record["lk0"]), str(outcome), reason_text(record.get("reason"))) if outcome else None


def has_no_outcome(record: Mapping[str, object]) -> bool:
    """Return whether the node will never learn the outcome: it forwarded the document, or no receipt was requested.

    If the row was deleted (``cleaned``) without an outcome, no receipt was requested: a row is kept until its receipt
    arrives.
    """
    if record.get("direction") == "RELAYED" or record.get("cleaned"):
        return True
    return record.get("save_fwd") in (1, 2) and not record.get("ack2")
