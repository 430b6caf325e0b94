"""Messages as tables and lines for people: which columns, and the words of the statuses. What nodes tell is JSON;
nothing is needed of it that might be absent.
"""

from collections.abc import Mapping
from typing import Any

from semq.cli.output import Column, brief, moment, size

LIST_COLUMNS: tuple[Column, ...] = (
    ("number", ">"),
    ("since", "<"),
    ("from / to", "<"),
    ("document", "<"),
    ("size", ">"),
    ("status", "<"),
)

# The statuses of the design | in words.
WORDS = {
    "SS_INIT": "waits to be sent",
    "SS_SENT": "sent",
    "SS_ACK_FWD": "forwarded by the hub",
    "SS_ACK": "stored at the hub",
    "SS_ACK2": "the receiver has it",
    "DELIVERED": "delivered",
    "REJECTED": "rejected",
    "CANCELLED": "cancelled",
    "LOST": "lost with a store of the hub",
    "UNKNOWN": "outcome unknown",
    "DROPPED": "dropped, the target was offline",
    "NEW": "waits for the application",
    "DONE": "the application has it",
    "PARKED": "set aside for a person",
}
TIMES = ("accepted_at", "received_at", "expires_at", "submitted_at", "ended_at", "at")


def status_of(row: Mapping[str, Any]) -> str:
    """One word for where a message stands."""
    for name in ("outcome", "ss_status", "app_status", "state", "status"):
        if row.get(name):
            return str(row[name])
    return ""


def list_row(row: Mapping[str, Any]) -> tuple[object, ...]:
    """A message in a list."""
    inbound = row.get("side") == "inbound"
    other = str(row.get("source" if inbound else "target", "")).removeprefix("1.")
    marks = [mark for mark in ("held", "parked", "void", "overdue") if row.get(mark)]
    return (
        row.get("id", row.get("object_id")),
        brief(row.get("at")),
        f"{'from' if inbound else 'to'} {other}",
        document(row),
        size(row.get("size")),
        " ".join([status_of(row), *marks]),
    )


def document(row: Mapping[str, Any]) -> str:
    """What a message is called in a list: type and key of its AppKey, all of it if it has no key, its locator without
    one.
    """
    app_key = str(row.get("app_key") or "")
    parts = app_key.split("/", 3)
    if len(parts) == 4 and parts[3]:
        return " ".join(part for part in (parts[1], parts[3]) if part)
    return app_key or str(row.get("lk0") or "")


def facts_of(shown: Mapping[str, Any]) -> dict[str, object]:
    """Everything about one message, with times and statuses in words."""
    facts: dict[str, object] = {}
    for name, value in shown.items():
        if value in (None, "", [], {}):
            continue
        if name in TIMES:
            facts[name] = moment(value)
        elif isinstance(value, bool):
            facts[name] = "yes" if value else "no"
        elif isinstance(value, list):
            facts[name] = " ".join(map(str, value))
        else:
            facts[name] = f"{value} ({WORDS[str(value)]})" if str(value) in WORDS else value
    return facts


def trace_line(line: Mapping[str, Any]) -> str:
    """One event of the ledger."""
    detail = f"{line.get('words', '')} ({line['detail']})" if line.get("detail") else line.get("words", "")
    attempt = f" attempt {line['att']}" if line.get("att") else ""
    node = f"{line['node']:<10}  " if line.get("node") else ""
    what = f"{line.get('side', ''):<8}  {line.get('event', ''):<10}{attempt}  {detail}"
    return f"{moment(line.get('at'))}  {node}{what}".rstrip()
