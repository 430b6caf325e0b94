"""Rows that Postgres refused, by rule, in bounded memory: for the log, health and status.

A trigger, a constraint or a policy that somebody has added to a table can refuse a row with any SQLSTATE. The document
of the row fails, with the reason, and nothing else.
"""

import logging

import psycopg
from msgspec import Struct

from semq.answers.status import RefusedRowState
from semq.clock import Clock
from semq.foreign_text import shortened
from semq.store.postgres.errors import RowRefused, StaleRow
from semq.store.postgres.pipeline import StatementRefused
from semq.store.postgres.statements import STALE

KEPT_MAX = 100
TEXT_MAX, RULE_MAX = 300, 100  # characters
SHOWN_S = 86_400  # health shows the last day

# Classes of SQLSTATE caused by one piece of work or by chance: data, constraints, deadlocks, sizes, locks, functions.
BLAMES_ONE_PIECE = ("22", "23", "2F", "38", "39", "40", "44", "54", "55", "P0", "SQ")
# Functions of Postgres with errors of class 54 about the whole server: no ids, or no place for notifications, is left.
OF_SERVER = ("GetNewTransactionId", "GetNewMultiXactId", "PreCommit_Notify")
# Functions of Postgres that refuse one row with any SQLSTATE: RAISE in a trigger, policies of rows.
OF_ROW = ("exec_stmt_raise", "ExecWithCheckOptions")
# Classes of SQLSTATE about the server, also if a trigger meets them: connections, resources, interventions, faults.
BLAMES_SERVER = ("08", "53", "57", "58", "F0", "XX")

log = logging.getLogger(__name__)


def blames_one_piece(refusal: StatementRefused) -> bool:
    """Whether a single piece of work is to blame, so that the store goes on.

    A context shows that Postgres raised the error in a function, such as a trigger, or for a row of a COPY. Without it,
    an error of another class is one of the statement, which fails for every row: a missing table, right or column.
    """
    group = refusal.sqlstate[:2]
    if refusal.function in OF_SERVER:
        return False
    if refusal.function in OF_ROW or group in BLAMES_ONE_PIECE:
        return True
    return bool(refusal.context) and group not in BLAMES_SERVER


def typed_error(refusal: StatementRefused) -> RowRefused | StaleRow:
    """Return the error of a piece of work whose row was refused."""
    if refusal.sqlstate == STALE:
        return StaleRow(fault=refusal.text)
    facts = {"table": refusal.table, "constraint": refusal.constraint, "context": refusal.context.partition("\n")[0]}
    return RowRefused(
        sqlstate=refusal.sqlstate, fault=refusal.text, **{name: fact for name, fact in facts.items() if fact}
    )


def row_refused(error: Exception) -> RowRefused | None:
    """Return the error of a query outside of the writer whose row was refused; None for any other fault."""
    cause = getattr(error, "orig", None) or error  # SQLAlchemy adds the statement and a link
    if not isinstance(cause, psycopg.Error) or not cause.sqlstate:
        return None
    diag = cause.diag
    facts = (diag.message_primary, diag.table_name, diag.constraint_name, diag.source_function, diag.context)
    refusal = StatementRefused(cause.sqlstate, *(fact or "" for fact in facts))
    typed = typed_error(refusal) if blames_one_piece(refusal) else None
    return typed if isinstance(typed, RowRefused) and not typed.is_passing else None


class RefusedRows(Struct):
    """Rows that one rule refused."""

    count: int
    last: int  #: milliseconds since 1970 UTC
    text: str  #: of the newest refusal


class Refusals:
    """The refused rows of a store since the start of the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[tuple[str, str], RefusedRows] = {}  #: by SQLSTATE and rule

    def note(self, error: RowRefused) -> None:
        """Log and count the refusal of a row."""
        log.error("a row was refused: %s", error)
        facts = error.facts
        rule = " ".join(shortened(str(facts[name]), RULE_MAX) for name in ("table", "constraint") if name in facts)
        key = str(facts.get("sqlstate", "")), rule or shortened(str(facts.get("context", "")), RULE_MAX)
        if key not in self._seen and len(self._seen) >= KEPT_MAX:
            key = ("", "")
        last, text = int(self._clock.wall().timestamp() * 1000), shortened(str(facts.get("fault", "")), TEXT_MAX)
        seen = self._seen.setdefault(key, RefusedRows(0, last, text))
        seen.count, seen.last, seen.text = seen.count + 1, last, text

    def recent(self) -> list[RefusedRowState]:
        """Return the refusals of the last day by SQLSTATE and rule (table and constraint, or trigger), the newest
        first."""
        since = (self._clock.wall().timestamp() - SHOWN_S) * 1000
        ordered = sorted(self._seen.items(), key=lambda item: -item[1].last)
        return [
            RefusedRowState(sqlstate=sqlstate, rule=rule, count=s.count, last=s.last, text=s.text)
            for (sqlstate, rule), s in ordered
            if s.last >= since
        ]
