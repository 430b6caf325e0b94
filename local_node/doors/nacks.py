"""Nacked documents: the reasons of their nacks, in the log and as events ``refused``.

A basic.nack has no field for a reason. With ``reply_to`` the publisher receives the reason at that address; then there
is neither a line in the log nor an event. For each error code and target node there is at most one line in the log in
``QUIET_S`` seconds, and one event in ``EVENT_S``, which has the number of documents and their tokens; beyond
``REASONS_MAX`` of these pairs, the oldest is forgotten.
"""

from collections.abc import Callable
from typing import NamedTuple

import structlog

from semq.broker.timers import Timers
from semq.engine.core import Core
from semq.engine.local_engine import LocalEngine
from semq.engine.ports import AppEvent, PreparedEvent
from semq.errors import SemqError, semq_error
from semq.service.engine_handle import EngineHandle
from semq.store.work import COMMITTED, NO_NEEDS, Steps, work
from semq.umx_t.address import Address
from semq.umx_t.app_key import AppKey

FIRST_S = 0.05
LONGEST_S = 5.0
FORGET_S = 30.0
ROUNDS_MAX = 10_000  # remembered pairs of user and target


class _Round:
    """The nacks that are sent at the same time."""

    __slots__ = ("at", "delay_s")

    def __init__(self) -> None:
        self.at = float("-inf")
        self.delay_s = 0.0


class NackDelays:
    """The delays of all publishers: a publisher that repeats a nacked document at once is slowed down.

    The nacks of one user and target are delayed by ``FIRST_S``, twice as long after each further round, up to
    ``LONGEST_S``. An accepted document, or ``FORGET_S`` without a nack, starts again. The delayed documents count as
    being published: a client that does not wait for its confirms is no longer read at the limit of its connection.
    """

    def __init__(self, timers: Timers, now: Callable[[], float]) -> None:
        """``now``: the clock of ``timers``."""
        self._timers = timers
        self._now = now
        self._rounds: dict[tuple[str, Address], _Round] = {}

    def delay(self, user: str, node: Address, nack: Callable[[], None]) -> None:
        """Call ``nack`` after the delay of this user and target."""
        now = self._now()
        current = self._rounds.pop((user, node), None)
        if current is None or now - current.at > FORGET_S:
            current = _Round()
        if now >= current.at:
            current.delay_s = min(2 * current.delay_s or FIRST_S, LONGEST_S)
            current.at = now + current.delay_s
        if len(self._rounds) >= ROUNDS_MAX:
            del self._rounds[next(iter(self._rounds))]
        self._rounds[user, node] = current
        self._timers.at(current.at, nack)

    def note_accepted(self, user: str, node: Address) -> None:
        """Note that a document of this user to this target is accepted."""
        if self._rounds:
            self._rounds.pop((user, node), None)


REASONS_MAX = 1000  # remembered pairs of error code and node
TOKENS_MAX = 100  # named in one event
QUIET_S = 10.0
EVENT_S = 1.0
log = structlog.get_logger("semq.submit")


class NackedDocument(NamedTuple):
    """The facts that reports about a nacked document contain."""

    target: Address
    app_key: AppKey
    token: str


class _Reason:
    """The documents that were nacked for one reason and target since the last event."""

    __slots__ = ("count", "error", "event_at", "first", "is_due", "logged_at", "tokens")

    def __init__(self) -> None:
        self.first: NackedDocument | None = None
        self.error: SemqError | None = None
        self.count = 0
        self.tokens: list[str] = []
        self.event_at = 0.0  # earliest time of the next event
        self.logged_at = float("-inf")
        self.is_due = False  # a timer is set

    def add(self, document: NackedDocument, error: SemqError) -> None:
        self.first = self.first or document
        self.error = error
        self.count += 1
        if document.token and len(self.tokens) < TOKENS_MAX and document.token not in self.tokens:
            self.tokens.append(document.token)

    def take_event(self, at: int) -> AppEvent:
        assert self.first is not None
        assert self.error is not None
        event = AppEvent(
            "refused", None, self.first.target, self.first.app_key, at, reason=(self.error.code, self.error.text),
            token=self.first.token, count=self.count, tokens=tuple(self.tokens),
        )  # fmt: skip
        self.first, self.count, self.tokens, self.is_due = None, 0, [], False
        return event


class Nacks:
    """The nacked documents that are not reported yet."""

    def __init__(self, engine: EngineHandle[LocalEngine], timers: Timers, now: Callable[[], float]) -> None:
        """``now``: the clock of ``timers``."""
        self._engine = engine
        self._now = now
        self._timers = timers
        self._reasons: dict[tuple[str, Address], _Reason] = {}

    def note(self, document: NackedDocument, error: Exception) -> None:
        reported = semq_error(error)
        core = self._engine.current.core
        core.count("nacked")
        now = self._now()
        reason = self._reason(reported.code, document.target.node)
        reason.add(document, reported)
        if now - reason.logged_at >= QUIET_S:
            reason.logged_at = now
            log.warning(
                "document_nacked", target=str(document.target), app_key=str(document.app_key), token=document.token,
                error=reported.advice(),
            )  # fmt: skip
        if now >= reason.event_at:
            self._report(reason)
        elif not reason.is_due:
            reason.is_due = True
            self._timers.at(reason.event_at, lambda: self._report(reason))

    def _reason(self, code: str, node: Address) -> _Reason:
        reason = self._reasons.get((code, node))
        if reason is None:
            if len(self._reasons) >= REASONS_MAX:
                del self._reasons[next(iter(self._reasons))]
            reason = self._reasons[code, node] = _Reason()
        return reason

    def _report(self, reason: _Reason) -> None:
        if not reason.count:
            return
        core = self._engine.current.core
        reason.event_at = self._now() + EVENT_S
        core.post(_write_event(core, reason.take_event(core.now_ms())))


@work
def _write_event(core: Core, event: AppEvent) -> Steps:
    unit = yield NO_NEEDS
    prepared: list[PreparedEvent] = []
    core.prepare_event(unit, event, prepared)
    yield COMMITTED
    if prepared:
        core.events.publish(prepared)
