"""Refused and withdrawn submissions (by SQL, scheduled, in pieces): events, ledger lines, acts of operators on them.

The row of a refused submission keeps document and reason. The ledger and ``semq failed`` show the refusal under a
locator. A submission that is tried again and accepted becomes a document with another locator.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from semq.engine.core import Core, with_why
from semq.engine.errors import BodyUnreadable, Cancelled, NotThere
from semq.engine.ports import AppEvent, PreparedEvent
from semq.engine.sender.scheduling import envelope_of
from semq.errors import SemqError
from semq.foreign_text import shortened
from semq.store.rows import Event, LedgerLine, Reason, Side, SubmissionRefusal, Submitted
from semq.store.unit import Needs, OpenSubmission, RefusedSubmissions, Unit
from semq.store.work import COMMITTED, NO_NEEDS, Steps, work
from semq.umx_t.address import Address, parse_address
from semq.umx_t.app_key import NO_KEY, AppKey, parse_app_key
from semq.umx_t.locator import LK0, parse_lk0
from semq.umx_t.status import Outcome

DETAIL_MAX = 500  # characters
WITHDRAWN = "Withdrawn before it was sent."


@work
def refuse(core: Core, row: Submitted, error: SemqError, done: Callable[[LK0], None]) -> Steps:
    """Refuse a submission: reason, ledger line and event in one commit. ``done`` gets the LK0 of the refusal."""
    reason = (error.code, error.text + facts_of(error))
    unit = yield NO_NEEDS
    at, lk0 = core.now_ms(), _locator(core, row)
    unit.refused_submissions[row.row_id] = SubmissionRefusal(lk0, reason, at)
    events = _record_end(core, unit, row, lk0, at, Outcome.REJECTED.name, reason)
    yield COMMITTED
    core.count("submission_refused")
    if events:
        core.events.publish(events)
    done(lk0)


@work
def refuse_open(core: Core, number: int, error: SemqError, done: Callable[[None], None]) -> Steps:
    """Refuse submission ``number`` of a document in pieces, because one of its pieces cannot be delivered.

    Do nothing if the submission no longer waits.
    """
    query = OpenSubmission(number)
    unit = yield Needs(queries={query})
    rows = _unsettled(unit, query)
    reason, at = (error.code, error.text + facts_of(error)), core.now_ms()
    events: list[PreparedEvent] = []
    for row in rows:
        lk0 = _locator(core, row)
        unit.refused_submissions[row.row_id] = SubmissionRefusal(lk0, reason, at)
        events += _record_end(core, unit, row, lk0, at, Outcome.REJECTED.name, reason)
    yield COMMITTED
    core.count("submission_refused", len(rows))
    if events:
        core.events.publish(events)
    done(None)


@work
def withdraw(core: Core, number: int, why: str, done: Callable[[LK0], None]) -> Steps:
    """Withdraw a waiting submission: it ends CANCELLED, with a locator in ledger and event. Raises NotThere."""
    reason = (Cancelled.code, f"Withdrawn before it was sent: {why}" if why else WITHDRAWN)
    query = OpenSubmission(number)
    unit = yield Needs(queries={query})
    rows = _unsettled(unit, query)
    if not rows:
        raise NotThere("No submission of this number waits (any more).", number=number)
    (row,) = rows
    at, lk0 = core.now_ms(), _locator(core, row)
    unit.taken_submissions[row.row_id] = lk0
    if row.envelope and row.token:  # the application has received a confirm, and may submit the document again
        with suppress(BodyUnreadable):
            unit.register_cancelled(row.token, lk0, envelope_of(row).digest)
    events = _record_end(core, unit, row, lk0, at, Outcome.CANCELLED.name, reason)
    yield COMMITTED
    core.count("submission_withdrawn")
    if events:
        core.events.publish(events)
    done(lk0)


def _unsettled(unit: Unit, query: OpenSubmission) -> list[Submitted]:
    """Return the found row, unless earlier work of this unit has taken or refused it."""
    settled = {*unit.taken_submissions, *unit.refused_submissions}
    return [row for row in unit.found.get(query, ()) if row.row_id not in settled]


def _locator(core: Core, row: Submitted) -> LK0:
    """Return the locator under which a submission ends: a scheduled document has one, others get a new one."""
    return parse_lk0(row.lk0) if row.envelope else core.new_lk0()


def _record_end(
    core: Core, unit: Unit, row: Submitted, lk0: LK0, at: int, outcome: str, reason: Reason
) -> list[PreparedEvent]:
    """Write the ledger line of an ended submission, and return the prepared event about it."""
    unit.ledger.append(ledger_line(row, lk0, at, Event.REFUSED, " ".join(reason)))
    events: list[PreparedEvent] = []
    event = AppEvent(
        "failed", lk0, _target(row), _app_key(row), at, outcome=outcome, reason=reason, token=row.token,
        submission=row.row_id,
    )  # fmt: skip
    core.prepare_event(unit, event, events)
    return events


@work
def requeue_or_remove(
    core: Core, lk0s: Sequence[str], is_requeued: bool, why: str, done: Callable[[dict[str, int]], None]
) -> Steps:
    """Requeue or remove refused submissions for an operator. ``done`` gets their numbers by LK0.

    Raises NotThere if no refused submission has one of these LK0s.
    """
    query = RefusedSubmissions(tuple(lk0s))
    unit = yield Needs(queries={query})
    settled = unit.requeued_submissions | unit.removed_submissions
    rows: list[Submitted] = [row for row in unit.found.get(query, ()) if row.row_id not in settled]
    if not rows:
        raise NotThere("No refused submission has that name (any more).", id=shortened(" ".join(lk0s), 200))
    for row in rows:
        (unit.requeued_submissions if is_requeued else unit.removed_submissions).add(row.row_id)
        act = with_why("to be tried again" if is_requeued else "removed", why)
        unit.ledger.append(ledger_line(row, row.lk0, core.now_ms(), Event.OPERATOR, act))
    yield COMMITTED
    done({row.lk0: row.row_id for row in rows})


def ledger_line(row: Submitted, lk0: LK0 | str, at: int, event: Event, detail: str) -> LedgerLine:
    """Return a ledger line about a submission."""
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
