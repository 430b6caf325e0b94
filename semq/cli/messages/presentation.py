"""Documents as rows of tables and as lines.

Each field of a node's answer may be absent: the node may have an older version.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from semq.cli.output.printer import Output
from semq.cli.output.values import as_text, brief_time, counted, moment, node_name
from semq.moments import in_local
from semq.sizes import size
from semq.umx_t.short_name import short_name

if TYPE_CHECKING:
    from semq.answers.messages import MemberRow, MessageTrace

Row = TypeVar("Row", bound=Mapping[str, object])
LIST_COLUMNS = "name, since, from / to, document, >size, status"
MEMBER_COLUMNS = "name, to, status, reason"
NO_POSITION = -1  # sid of documents of classes 1 and 2
# Not printed as facts: other lines show them, or only programs use them
HIDDEN_FACTS = ("at", "id", "error", "stuck", "cleaned", "direction", "proved", "members")
FIRST_FACTS = (
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

# Facts whose names are explained only in PROTOCOL.md: name in the answer | name for people
FACT_WORDS = {
    "sid": "position_in_sequence",
    "att": "attempts",
    "void": "void_marker",
    "lk1": "copy_at_hub",
    "custodian": "copy_at_hub",
    "p_ack_status": "ack_to_hub",
    "s_ack_status": "ack_to_sender",
    "group_place": "place_in_group",
}
MARKER_MEANING = "yes: it asks the receiver to record that the document will not come"
# Marks of a document in lists: name in the answer | word
MARKS = {"piece": "piece", "held": "held", "parked": "parked", "void": "void marker", "overdue": "overdue"}


def name_of(row: Mapping[str, object]) -> str:
    """Return the short name of a document, from the row or derived from its locator; without one, the locator."""
    return str(row.get("name") or short_name(str(row.get("lk0") or "")) or row.get("lk0") or "")


def status_of(row: Mapping[str, object]) -> str:
    """Return the outcome of a document, else its status, else an empty text."""
    for name in ("outcome", "ss_status", "app_status", "state", "status"):
        if row.get(name):
            return str(row[name])
    return ""


def print_rows(out: Output, columns: str, rows: Sequence[Row], cells: Callable[[Row], tuple[object, ...]]) -> None:
    """Print rows as JSON or as a table. In a table, rows from several stores of a hub get the column "store"."""
    if any("store" in row for row in rows):
        out.rows(rows, f"{columns}, store", ((*cells(row), row.get("store", "")) for row in rows))
    else:
        out.rows(rows, columns, (cells(row) for row in rows))


def list_row(row: Mapping[str, object]) -> tuple[object, ...]:
    """Return the cells of a document for LIST_COLUMNS."""
    is_inbound = row.get("side") == "inbound"
    other_end = node_name(row.get("source" if is_inbound else "target", ""))
    return (
        name_of(row),
        brief_time(row.get("at")),
        f"{'from' if is_inbound else 'to'} {other_end}",
        document_name(row),
        size(row.get("size")),
        " ".join(filter(None, [status_of(row), pieces_of(row), *marks_of(row), brief_time(row.get("not_before"))])),
    )


def marks_of(row: Mapping[str, object], names: Sequence[str] = tuple(MARKS)) -> list[str]:
    """Return the words of those marks among ``names`` that a document or a stored copy has."""
    return [MARKS[name] for name in names if row.get(name)]


def pieces_of(row: Mapping[str, object]) -> str:
    """Return "3/8" if 3 of 8 pieces are delivered; empty unless a document in pieces is on its way."""
    pieces = row.get("pieces")
    if not isinstance(pieces, Mapping) or "delivered" not in pieces:
        return ""
    return f"{pieces['delivered']}/{pieces.get('count')}"


def document_name(row: Mapping[str, object]) -> str:
    """Return type and key of the AppKey; without a key the whole AppKey, without an AppKey the locator."""
    app_key = str(row.get("app_key") or "")
    parts = app_key.split("/", 3)
    if len(parts) == 4 and parts[3]:
        return " ".join(part for part in (parts[1], parts[3]) if part)
    return app_key or str(row.get("lk0") or "")


def facts_of(shown: Mapping[str, object]) -> dict[str, object]:
    """Return the facts of one document for people, with the names in FACT_WORDS, FIRST_FACTS first.

    HIDDEN_FACTS and empty or false values are left out.
    """
    facts = {"name": name_of(shown)} | dict(shown)
    if "submission" in facts:  # a submission by SQL that the node has not accepted
        facts["submitted_at"] = facts.pop("accepted_at", None)
        facts["submission"] = f"sql-{facts['submission']}"  # a name for commands
    if facts.get("sid") == NO_POSITION:
        del facts["sid"]
    if facts.get("lk1", "") is None:  # no copy at the hub, so the hub notes no acknowledgement
        facts.pop("p_ack_status", None)
    if facts.get("void"):
        facts["void"] = MARKER_MEANING
    if isinstance(pieces := facts.get("pieces"), Mapping):
        facts["pieces"] = pieces_of(facts) or pieces.get("count")
    if isinstance(summary := facts.get("summary"), Mapping):
        facts["summary"] = ", ".join(f"{count} {status}" for status, count in summary.items())
    ordered = {name: facts[name] for name in (*FIRST_FACTS, *facts) if name in facts and name not in HIDDEN_FACTS}
    given = {name: value for name, value in ordered.items() if value is not False and value not in (None, "", [], {})}
    return {FACT_WORDS.get(name, name): value for name, value in given.items()}


def member_row(member: "MemberRow") -> tuple[object, ...]:
    """Return the cells of a document to a member of a group for MEMBER_COLUMNS."""
    reason = " ".join(map(str, member.get("reason") or ()))
    return name_of(member), node_name(member.get("target", "")), status_of(member), reason


def stuck_lines(
    stuck: Mapping[str, object] | None, message: Mapping[str, object], waits: Mapping[str, object] | None = None
) -> Iterator[str]:
    """Yield cause and next step of a stuck document; else what it ``waits`` for, or why it is not stuck."""
    if stuck:
        yield f"{stuck['cause']}: {stuck['meaning']}"
        yield f"what to do: {stuck['next_step']}"
    elif message.get("ended_at"):
        outcome = message.get("outcome") or message.get("last_event")
        yield f"It is not stuck: it ended {as_text(outcome)} at {moment(message['ended_at'])}."
    elif message.get("not_before"):
        yield f"It is not stuck: it is sent at {moment(message['not_before'])}."
        yield f"`semq msg release {name_of(message)}` sends it now, `semq msg cancel {name_of(message)}` cancels it."
    elif message.get("cleaned"):
        yield "It is not stuck: this node has only ledger lines about it, and will learn no more about it."
        yield "`semq msg trace` shows the lines of the hub and the other end."
    elif waits:
        yield f"It waits: {waits['meaning']}."
        yield f"It counts as stuck from {moment(waits['stuck_at'])} on."
    else:
        yield "It is not stuck."


def outage_line(link: Mapping[str, object]) -> str:
    """Return the state of a link that is down."""
    times = ((" since", link.get("down_since")), (", next attempt at", link.get("next_attempt_at")))
    shown = "".join(f"{words} {moment(time)}" for words, time in times if time)
    return f"The link is down{shown}: {as_text(link.get('error'), 'error')}"


def trace_line(line: Mapping[str, object]) -> str:
    """Return one event of the ledger as one line, with the first line of its detail."""
    first_line, _, further_lines = in_local(str(line.get("detail") or "")).partition("\n")
    cut = f" … {counted(further_lines.count(chr(10)) + 1, 'more line')}: --full" if further_lines else ""
    text = f"{line.get('words', '')} ({first_line}){cut}" if first_line else line.get("words", "")
    attempt = f" attempt {line['att']}" if line.get("att") else ""
    node = f"{line['node']}{'' if line.get('proved', True) else '*'}" if line.get("node") else ""
    node += f" store {line['store']}" if line.get("store") else ""
    node_column = f"{node.strip():<10}  " if node else ""
    event = f"{line.get('side', ''):<8}  {line.get('event', ''):<14}{attempt}  {text}"
    return f"{moment(line.get('at'))}  {node_column}{event}".rstrip()


def print_trace(out: Output, traced: "MessageTrace", *, full: bool = False) -> None:
    """Print the events of a document, then notices. ``full``: print digests, and all lines of details."""
    for line in traced["events"]:
        first_line, _, further_lines = str(line.get("detail") or "").partition("\n")
        out.line(trace_line(line | {"detail": first_line} if full else line))
        if full and further_lines:
            out.text(further_lines, "    ")
        if full and line.get("digest"):
            out.text(f"SHA-256 {line['digest']}, {line['size']} bytes", "    ")
    for line in traced["events"]:
        if not line.get("proved", True):
            out.notice(f"* passed on by {line.get('via')} without a proof: {line['node']} has no certificate")
            break
    for missing in traced.get("unanswered") or ():
        out.notice(f"the lines of {missing['node']} are missing: {missing['why']}")
    if traced.get("members", 0) > traced.get("members_traced", 0):
        out.notice(
            f"traced: the first {traced['members_traced']} of {traced['members']} members; `semq msg show` lists all"
        )
    if traced.get("before"):
        earlier = ", ".join(map(short_name, traced["before"]))
        out.notice(f"earlier names, under which it was refused or scheduled: {earlier}")
    if traced.get("others"):
        others = ", ".join(short_name(lk0) or lk0 for lk0 in traced["others"])
        out.notice(f"other documents with this key: {others}")
