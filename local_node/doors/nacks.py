"""Nacked documents: the reasons of their nacks, in the log and as events ``refused``.

A basic.nack has no field for a reason. With ``reply_to`` the publisher receives the reason at that address; then there
is neither a line in the log nor an event. The log gets at most one line in ``QUIET_S`` seconds for each error code
and target node, unless there are more than ``REASONS_MAX`` of these. Documents beyond ``EVENTS_MAX`` in a turn are only
counted.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import structlog

from semq.engine.core import Core
from semq.engine.local_engine import LocalEngine
from semq.engine.ports import AppEvent
from semq.errors import SemqError, Unavailable
from semq.foreign_text import shortened
from semq.store.work import COMMITTED, NO_NEEDS, Steps, work
from semq.transport.turn import Turn
from semq.umx_t.address import Address
from semq.umx_t.app_key import AppKey

EVENTS_MAX = 1000
REASONS_MAX = 1000  # remembered pairs of error code and node
QUIET_S = 10.0
log = structlog.get_logger("semq.submit")


class NackedDocument(NamedTuple):
    """The facts that reports about a nacked document contain."""

    target: Address
    app_key: AppKey
    token: str


class Nacks:
    """The documents nacked in this turn."""

    def __init__(self, engine: Callable[[], LocalEngine], turn: Turn) -> None:
        self._engine = engine
        self._turn = turn
        self._waiting: list[tuple[NackedDocument, SemqError]] = []
        self._nacked_count = 0
        self._logged: dict[tuple[str, Address], float] = {}  #: time of the last line, by error code and node

    def note(self, document: NackedDocument, error: Exception) -> None:
        reported = error if isinstance(error, SemqError) else Unavailable(fault=shortened(repr(error), 200))
        if not self._nacked_count:
            self._turn.before_flush(self._report)
        self._nacked_count += 1
        if len(self._waiting) < EVENTS_MAX:
            self._waiting.append((document, reported))

    def _report(self) -> None:
        core = self._engine().core
        waiting, self._waiting = self._waiting, []
        count, self._nacked_count = self._nacked_count, 0
        core.count("nacked", count)
        for document, error in waiting:
            self._log(core.now(), document, error)
        at = core.now_ms()
        events = [
            AppEvent(
                "refused",
                None,
                document.target,
                document.app_key,
                at,
                reason=(error.code, error.text),
                token=document.token,
            )
            for document, error in waiting
        ]
        core.post(_write_events(core, events))

    def _log(self, now: float, document: NackedDocument, error: SemqError) -> None:
        code_and_target = (error.code, document.target.node)
        if now - self._logged.get(code_and_target, now - QUIET_S) < QUIET_S:
            return
        if len(self._logged) >= REASONS_MAX:
            self._logged.clear()
        self._logged[code_and_target] = now
        log.warning(
            "document_nacked", target=str(document.target), app_key=str(document.app_key), token=document.token,
            error=error.advice(),
        )  # fmt: skip


@work
def _write_events(core: Core, events: list[AppEvent]) -> Steps:
    unit = yield NO_NEEDS
    prepared: list[Any] = []
    for event in events:
        core.prepare_event(unit, event, prepared)
    yield COMMITTED
    if prepared:
        core.events.publish(prepared)
