"""Failed documents: received ones that are parked, sent ones that the receiver, the hub or its operator refused, and
refused submissions. Read-only.

The error of a document is in the last ledger line about its parking or refusal.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, and_, func, or_, select
from sqlalchemy.sql.elements import ColumnElement

from semq.answers.messages import MessageRow
from semq.store.rows import Event
from semq.store.tables import Columns, semq_ledger
from semq.store.views.ended import DAY_MS, NEAR_DAYS
from semq.store.views.messages import NAMES, RETURNED
from semq.store.views.names import find_messages
from semq.store.views.pages import Condition, Subset
from semq.store.views.submissions import IS_REFUSED

# side | column | its value | required code of the reason; empty: any
_FAILED = (
    ("inbound", "app_status", "PARKED", ""),
    ("outbound", "outcome", "REJECTED", ""),
    ("outbound", "outcome", "UNKNOWN", RETURNED),
)


def _of_queue(side: str) -> Condition:
    """Return the condition for the rows of a queue, by their columns."""
    rows = [row[1:] for row in _FAILED if row[0] == side]

    def condition(c: Columns) -> ColumnElement[bool]:
        return or_(
            *(
                and_(c[column] == NAMES[column][state], *([c.reason_code == code] if code else []))
                for column, state, code in rows
            )
        )

    return condition


FAILED = Subset(outbound=_of_queue("outbound"), inbound=_of_queue("inbound"), submitted=IS_REFUSED)


def find_failed(connection: Connection, name: str) -> list[MessageRow]:
    """Return the failed documents that a name may denote, the newest first, as ``with_errors`` does."""
    return with_errors(connection, [row for row in find_messages(connection, name) if is_failed(row)])


def is_failed(row: MessageRow) -> bool:
    """Return whether a row of a queue, or a group of rows (``census``), has failed."""
    code = (row.get("reason") or [""])[0]
    return any(
        row["side"] == side and row.get(column) == state and needed in ("", code)
        for side, column, state, needed in _FAILED
    )


def with_errors(connection: Connection, rows: Sequence[MessageRow]) -> list[MessageRow]:
    """Return the rows, each with its last ``error`` and the time ``failed_at``, from the ledger."""
    if not rows:
        return []
    c = semq_ledger.c
    # A constant, which keeps older partitions out of the plan; earlier than the rows, for a clock that was put back.
    since_ms = min(row["at"] for row in rows) - NEAR_DAYS * DAY_MS
    sent = (Event.REJECTED, Event.REFUSED, Event.UNKNOWN)
    events = {Event.PARKED: "inbound", **dict.fromkeys(sent, "outbound")}
    query = select(c.lk0, c.event, c.at, c.detail).where(
        c.lk0.in_([row["lk0"] for row in rows]), c.event.in_(events), c.at >= func.to_timestamp(since_ms / 1000)
    )
    errors: dict[tuple[str, str], MessageRow] = {
        (events[Event(line.event)], line.lk0): {
            "error": line.detail.strip(),
            "failed_at": round(line.at.timestamp() * 1000),
        }
        for line in connection.execute(query.order_by(c.number))
    }
    unknown: MessageRow = {"error": "", "failed_at": None}
    return [
        {**row, "error": " ".join(row["reason"] or ())}
        if "submission" in row
        else {**row, **errors.get((row["side"], row["lk0"]), unknown)}
        for row in rows
    ]
