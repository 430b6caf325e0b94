"""Refused and withdrawn SQL submissions: their events and ledger lines, and the acts of operators on them.

The row keeps document and reason. The refusal has its own locator, used by the ledger and by ``semq failed``; a
submission that is tried again and accepted becomes a document with another locator. Used by ``sql_submissions`` and by
the operations ``failed.requeue`` and ``failed.remove``.
"""

from collections.abc import Callable, Sequence
from typing import Any

from semq.engine.core import Core, Step, with_why
from semq.engine.errors import Cancelled, NotThere
from semq.engine.ports import AppEvent
from semq.errors import SemqError
from semq.foreign_text import shortened
from semq.store.rows import Event, LedgerLine, Side, SubmissionRefusal, Submitted
from semq.store.unit import OpenSubmission, RefusedSubmissions, Unit
from semq.umx_t.address import Address, parse_address
from semq.umx_t.app_key import NO_KEY, AppKey, parse_app_key
from semq.umx_t.locator import LK0
from semq.umx_t.status import Outcome

DETAIL_MAX = 500  # characters
WITHDRAWN = "Withdrawn before it was accepted."
REJECTED = "REJECTED"


class Refuse(Step):
    """Refuse a row: reason, line of the ledger and event in one commit."""

    def __init__(
        self, core: Core, row: Submitted, error: SemqError, done: Callable[[LK0], None],
        failed: Callable[[Exception], None],
    ) -> None:  # fmt: skip
        super().__init__()
        self._done = done
        self._told_failed = failed
        self._core = core
        self._row = row
        self._reason = (error.code, error.text + facts_of(error))

    def decide(self, unit: Unit) -> None:
        self._events: list[Any] = []
        core, row, at = self._core, self._row, self._core.now_ms()
        lk0 = self._lk0 = core.new_lk0()
        unit.refused_submissions[row.row_id] = SubmissionRefusal(lk0, self._reason, at)
        unit.ledger.append(line(row, lk0, at, Event.REFUSED, " ".join(self._reason)))
        event = AppEvent(
            "failed", lk0, _target(row), _app_key(row), at, outcome=REJECTED, reason=self._reason, token=row.token,
            submission=row.row_id,
        )  # fmt: skip
        core.tell_event(unit, event, self._events)

    def committed(self) -> None:
        self._core.count("submission_refused")
        if self._events:
            self._core.events.publish(self._events)
        self._done(self._lk0)

    def failed(self, error: Exception) -> None:
        self._told_failed(error)


class Withdraw(Step):
    """Withdraw a waiting submission: it ends CANCELLED, with its own locator in ledger and event."""

    def __init__(
        self, core: Core, number: int, why: str, done: Callable[[LK0], None], failed: Callable[[Exception], None]
    ) -> None:
        super().__init__()
        self._core = core
        self._reason = (Cancelled.code, f"Withdrawn before it was accepted: {why}" if why else WITHDRAWN)
        self._done = done
        self._told_failed = failed
        self._query = OpenSubmission(number)
        self.needs.queries.add(self._query)

    def decide(self, unit: Unit) -> None:
        self._events: list[Any] = []
        core, at = self._core, self._core.now_ms()
        settled = {*unit.taken_submissions, *unit.refused_submissions}
        rows: list[Submitted] = [row for row in unit.found.get(self._query, ()) if row.row_id not in settled]
        if not rows:
            raise NotThere("No submission of this number waits (any more).", number=self._query.number)
        (row,) = rows
        lk0 = self._lk0 = core.new_lk0()
        unit.taken_submissions[row.row_id] = lk0
        unit.ledger.append(line(row, lk0, at, Event.REFUSED, " ".join(self._reason)))
        event = AppEvent(
            "failed", lk0, _target(row), _app_key(row), at, outcome=Outcome.CANCELLED.name, reason=self._reason,
            token=row.token, submission=row.row_id,
        )  # fmt: skip
        core.tell_event(unit, event, self._events)

    def committed(self) -> None:
        self._core.count("submission_withdrawn")
        if self._events:
            self._core.events.publish(self._events)
        self._done(self._lk0)

    def failed(self, error: Exception) -> None:
        self._told_failed(error)


class Mended(Step):
    """Requeue or remove refused submissions, on behalf of an operator. ``done`` gets names and numbers."""

    def __init__(
        self, core: Core, lk0s: Sequence[str], again: bool, why: str, done: Callable[[dict[str, int]], None],
        failed: Callable[[Exception], None],
    ) -> None:  # fmt: skip
        super().__init__()
        self._core = core
        self._again = again
        self._why = why
        self._done = done
        self._told_failed = failed
        self._query = RefusedSubmissions(tuple(lk0s))
        self.needs.queries.add(self._query)

    def decide(self, unit: Unit) -> None:
        settled = unit.requeued_submissions | unit.removed_submissions
        rows: list[Submitted] = [row for row in unit.found.get(self._query, ()) if row.row_id not in settled]
        self._numbers = {row.lk0: row.row_id for row in rows}
        if not rows:
            raise NotThere(
                "No refused submission has that name (any more).", id=shortened(" ".join(self._query.lk0s), 200)
            )
        for row in rows:
            (unit.requeued_submissions if self._again else unit.removed_submissions).add(row.row_id)
            said = with_why("to be tried again" if self._again else "removed", self._why)
            unit.ledger.append(line(row, row.lk0, self._core.now_ms(), Event.OPERATOR, said))

    def committed(self) -> None:
        self._done(self._numbers)

    def failed(self, error: Exception) -> None:
        self._told_failed(error)


def line(row: Submitted, lk0: LK0 | str, at: int, event: Event, detail: str) -> LedgerLine:
    """Return a ledger line about a refused submission."""
    target = _target(row)
    return LedgerLine(
        at, Side.SENDER, event, str(lk0), str(target or row.target)[:140], app_key=_app_key(row), size=row.size,
        detail=shortened(detail.replace("\0", "\N{REPLACEMENT CHARACTER}"), DETAIL_MAX),
    )  # fmt: skip


def facts_of(error: SemqError) -> str:
    """Return the facts of an error as text."""
    return str(error).removeprefix(f"{error.code} {error.text}")


def _target(row: Submitted) -> Address | None:
    try:
        return parse_address(row.target)
    except SemqError:
        return None


def _app_key(row: Submitted) -> AppKey:
    try:
        return parse_app_key(row.app_key) if row.app_key else NO_KEY
    except SemqError:
        return NO_KEY
