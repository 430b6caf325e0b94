"""Messages as tables and lines. Every field of a node's answer may be absent."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from semq.cli.output.printer import Output
from semq.cli.output.table import Column
from semq.cli.output.values import as_text, brief_time, counted, moment, node_name
from semq.moments import in_local
from semq.sizes import size
from semq.umx_t.short_name import short_name

LIST_COLUMNS: tuple[Column, ...] = (
    ("name", "<"),
    ("since", "<"),
    ("from / to", "<"),
    ("document", "<"),
    ("size", ">"),
    ("status", "<"),
)
MEMBER_COLUMNS: tuple[Column, ...] = (("name", "<"), ("to", "<"), ("status", "<"), ("reason", "<"))
# Facts that repeat others, or are for programs only.
LEFT_OUT = ("at", "id", "error", "stuck", "cleaned", "direction", "proved", "members")
FIRST = (
    "name",
    "lk0",
    "side",
    "source",
    "target",
    "app_key",
    "outcome",
    "ended_at",
    "state",
    "waits_since",
    "ss_status",
    "app_status",
    "reason",
)


def name_of(row: Mapping[str, Any]) -> str:
    """Return the short name of a message, made from its locator if the node is too old to state it."""
    return str(row.get("name") or short_name(str(row.get("lk0") or "")) or row.get("lk0") or "")


def status_of(row: Mapping[str, Any]) -> str:
    """Return one word for the state of a message."""
    for name in ("outcome", "ss_status", "app_status", "state", "status"):
        if row.get(name):
            return str(row[name])
    return ""


def print_rows(
    out: Output,
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    cells: Callable[[dict[str, Any]], tuple[object, ...]],
) -> None:
    """Print rows as a table; if they come from several stores of a hub, with their stores."""
    if any("store" in row for row in rows):
        out.table((*columns, ("store", "<")), ((*cells(dict(row)), row.get("store", "")) for row in rows))
    else:
        out.table(columns, (cells(dict(row)) for row in rows))


def list_row(row: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a message as a row of a list."""
    inbound = row.get("side") == "inbound"
    marks = [mark for mark in ("piece", "held", "parked", "void", "overdue") if row.get(mark)]
    return (
        name_of(row),
        brief_time(row.get("at")),
        f"{'from' if inbound else 'to'} {node_name(row.get('source' if inbound else 'target', ''))}",
        document(row),
        size(row.get("size")),
        " ".join(filter(None, [status_of(row), pieces_of(row), *marks, brief_time(row.get("not_before"))])),
    )


def pieces_of(row: Mapping[str, Any]) -> str:
    """Return how many of its pieces the receiver has, for a document in pieces that is on its way."""
    pieces = row.get("pieces")
    if not isinstance(pieces, Mapping) or "delivered" not in pieces:
        return ""
    return f"{pieces['delivered']}/{pieces.get('count')}"


def document(row: Mapping[str, Any]) -> str:
    """Return the name of a document in a list: type and key of its AppKey; all of it without a key; its locator without
    one.
    """
    app_key = str(row.get("app_key") or "")
    parts = app_key.split("/", 3)
    if len(parts) == 4 and parts[3]:
        return " ".join(part for part in (parts[1], parts[3]) if part)
    return app_key or str(row.get("lk0") or "")


def facts_of(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything about one message, the most wanted facts first, without empty ones."""
    known = {"name": name_of(shown)} | dict(shown)
    if "submission" in known:  # the node has not accepted it
        known["submitted_at"] = known.pop("accepted_at", None)
    if isinstance(pieces := known.get("pieces"), Mapping):
        known["pieces"] = pieces_of(known) or pieces.get("count")
    if isinstance(summary := known.get("summary"), Mapping):
        known["summary"] = ", ".join(f"{count} {status}" for status, count in summary.items())
    facts = {name: known[name] for name in (*FIRST, *known) if name in known and name not in LEFT_OUT}
    return {name: value for name, value in facts.items() if value is not False and value not in (None, "", [], {})}


def member_row(member: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a message to a member of a group as a row."""
    reason = " ".join(map(str, member.get("reason") or ()))
    return name_of(member), node_name(member.get("target", "")), status_of(member), reason


def stuck_lines(stuck: Mapping[str, Any] | None, message: Mapping[str, Any]) -> Iterator[str]:
    """Return lines about a message: whether it is stuck, the cause, and the next step."""
    if stuck:
        yield f"{stuck['cause']}: {stuck['meaning']}"
        yield f"what to do: {stuck['next_step']}"
    elif message.get("ended_at"):
        how = message.get("outcome") or message.get("last_event")
        yield f"It is not stuck: it ended {as_text(how)} at {moment(message['ended_at'])}."
    elif message.get("not_before"):
        yield f"It is not stuck: it is sent at {moment(message['not_before'])}."
        yield f"`semq msg release {name_of(message)}` sends it now, `semq msg cancel {name_of(message)}` cancels it."
    elif message.get("cleaned"):
        yield "It is not stuck: this node has only ledger lines about it, and will get no further news of it."
        yield "`semq msg trace` asks the hub and the other end for their lines."
    else:
        yield "It is not stuck."


def trace_line(line: Mapping[str, Any]) -> str:
    """Return one event of the ledger as a line; of a detail of several lines, such as a traceback, the first."""
    first, _, rest = in_local(str(line.get("detail") or "")).partition("\n")
    folded = f" … {counted(rest.count(chr(10)) + 1, 'more line')}: --full" if rest else ""
    detail = f"{line.get('words', '')} ({first}){folded}" if first else line.get("words", "")
    attempt = f" attempt {line['att']}" if line.get("att") else ""
    teller = f"{line['node']}{'' if line.get('proved', True) else '*'}" if line.get("node") else ""
    teller += f" store {line['store']}" if line.get("store") else ""
    node = f"{teller.strip():<10}  " if teller else ""
    what = f"{line.get('side', ''):<8}  {line.get('event', ''):<14}{attempt}  {detail}"
    return f"{moment(line.get('at'))}  {node}{what}".rstrip()


def print_trace(out: Output, traced: Mapping[str, Any], *, full: bool = False) -> None:
    """Print the events of a message in order of time, with their nodes, and the nodes that did not answer."""
    for line in traced["events"]:
        first, _, rest = str(line.get("detail") or "").partition("\n")
        out.line(trace_line(line | {"detail": first} if full else line))
        if full and rest:
            out.text(rest, "    ")
    for line in traced["events"]:
        if not line.get("proved", True):
            out.notice(f"* as {line.get('via')} passes it on: {line['node']} has no certificate that would prove it")
            break
    for one in traced.get("unanswered") or ():
        out.notice(f"without the lines of {one['node']}: {one['why']}")
    if traced.get("members", 0) > traced.get("members_traced", 0):
        out.notice(f"the first {traced['members_traced']} of {traced['members']} members; `semq msg show` names all")
    if traced.get("before"):
        out.notice(f"before that it was refused as {', '.join(map(short_name, traced['before']))}")
    if traced.get("others"):
        out.notice(f"the newest with this key; older ones: {', '.join(traced['others'])}")
