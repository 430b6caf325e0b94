"""View of failed documents: received ones that are parked, sent ones that the receiver, the hub or its operator
refused, and refused submissions. Read-only.

The error of a document is in the last ledger line about its parking or refusal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, select

from semq.store.rows import Event
from semq.store.tables import semq_ledger
from semq.store.views.messages import RETURNED, Filter, list_messages
from semq.store.views.names import find_messages
from semq.store.views.submissions import REFUSED

# side | column | its value | required code of the reason; empty: any
FAILED = (
    ("inbound", "app_status", "PARKED", ""),
    ("outbound", "outcome", "REJECTED", ""),
    ("outbound", "outcome", "UNKNOWN", RETURNED),
)


def list_failed(connection: Connection, wanted: Filter, name: str = "") -> list[dict[str, Any]]:
    """Return the rows that have failed, the newest first, each with ``error`` and ``failed_at``.

    ``wanted.state`` is ignored. ``name``: only rows that this name may denote; then only ``wanted.limit`` is used.
    """
    if name:
        rows = [row for row in find_messages(connection, name, wanted.limit) if is_failed(row)]
    else:
        rows = []
        if wanted.side == "submitted":
            rows += list_messages(connection, replace(wanted, state=REFUSED))
        for side, _, state, code in FAILED:
            if wanted.side in ("all", side) and (not code or not wanted.code or wanted.code == code):
                rows += list_messages(connection, replace(wanted, side=side, state=state, code=code or wanted.code))
        rows = list({(row["side"], row["id"]): row for row in rows}.values())
        rows = sorted((row for row in rows if is_failed(row)), key=lambda row: row["at"], reverse=True)
    rows = rows[: wanted.limit]
    errors = errors_of(connection, [row["lk0"] for row in rows])
    return [row | errors.get((row["side"], row["lk0"]), {"error": "", "failed_at": None}) for row in rows]


def is_failed(row: Mapping[str, Any]) -> bool:
    """Return whether a row of a queue, or a group of rows (``census``), has failed."""
    code = (row.get("reason") or [""])[0]
    return any(
        row["side"] == side and row.get(column) == state and needed in ("", code)
        for side, column, state, needed in FAILED
    )


def errors_of(connection: Connection, lk0s: Sequence[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return from the ledger the last error of each message, with its time; keyed by side and LK0."""
    c = semq_ledger.c
    sent = (Event.REJECTED, Event.REFUSED, Event.UNKNOWN)
    events = {Event.PARKED: "inbound", **dict.fromkeys(sent, "outbound")}
    lines = connection.execute(
        select(c.lk0, c.event, c.at, c.detail).where(c.lk0.in_(lk0s), c.event.in_(events)).order_by(c.at, c.number)
    )
    return {
        (events[Event(line.event)], line.lk0): {
            "error": line.detail.strip(),
            "failed_at": round(line.at.timestamp() * 1000),
        }
        for line in lines
    }
