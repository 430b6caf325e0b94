"""The printed form of ``semq node status``.

Any field at the first level of the answer may be absent: the node may have an older version.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from semq.cli.output.printer import Output
from semq.cli.output.table import Column
from semq.cli.output.values import age_of, as_text, counted, local_time, moment, node_name
from semq.counters import COUNTERS
from semq.sizes import size

Status = Mapping[str, Any]
KINDS = {"local": "an institution's node", "platform": "the hub"}
PARTNER_COLUMNS: tuple[Column, ...] = (
    ("partner", "<"), ("online", "<"), ("waiting", ">"), ("quota", "<"), ("may be sent to", "<"), ("sealing", "<"),
)  # fmt: skip
# Counters of the engine that are printed without --counters, in this order.
TRAFFIC = (
    "accepted", "forwarded", "stored", "delivered", "received", "rejected", "cancelled", "inquired", "duplicate",
    "violation",
)  # fmt: skip
COUNTER_COLUMNS: tuple[Column, ...] = (("counter", "<"), ("count", ">"), ("meaning", "<"))
OTHER_FIGURES = ("amqp", "departures", "store")  # parts of the answer that --counters prints after the counters
# Figures of a peer's datagrams, in this order. Those after the first three are printed only if they are not 0.
DATAGRAM_FIGURES = (
    "sent", "received", "lost", "lost_there", "slowed", "too_large", "not_open", "too_fast", "no_room", "forged",
    "repeated", "unreadable", "full", "full_there", "moved",
)  # fmt: skip


def print_status(out: Output, status: Status) -> None:
    """Print sections and partners, without empty values."""
    for heading, section in SECTIONS:
        pairs = [(name, value) for name, value in section(status) if value not in ("", None)]
        if pairs:
            out.line(heading)
            for name, value in pairs:
                out.line(f"  {name:<14} {value}".rstrip())
    partners = status.get("partners") or {}
    if partners:
        out.line("Partners")
        out.table(PARTNER_COLUMNS, (_partner_cells(name, facts) for name, facts in sorted(partners.items())))


def print_counters(out: Output, status: Status) -> None:
    """Print the counters with their meanings, and the figures of AMQP and the store."""
    counts = status.get("counters") or {}
    known = [name for name in COUNTERS if name in counts]
    unknown = sorted(counts.keys() - COUNTERS.keys())  # counters of a node of another version
    out.table(COUNTER_COLUMNS, [(name, counts[name], COUNTERS.get(name, "")) for name in (*known, *unknown)])
    out.facts({name: status[name] for name in OTHER_FIGURES if status.get(name)})


def _node(status: Status) -> Iterator[tuple[str, str]]:
    kind = str(status.get("kind") or "")
    yield "node", f"{node_name(status.get('node'))}, {KINDS.get(kind, kind)}"
    started_at = status.get("started_at")
    yield "running since", f"{local_time(started_at)} ({age_of(started_at)})" if started_at else ""
    start = f"start {status.get('boot')}, incarnation {status.get('incarnation')}"
    yield "store", f"{status.get('store_uuid')}, {start}"


def _direct_link(partner: str, link: Mapping[str, Any]) -> str:
    if link["link"] == "up":
        return f"{partner}: up, dialled by {link['dialled_by']}, {counted(link.get('sent', 0), 'document')} sent"
    return f"{partner}: DOWN: {link['last_error'] or 'the partner has not dialled'}"


def _work(status: Status) -> Iterator[tuple[str, str]]:
    yield "store", "open" if status.get("store_open") else "being opened: nothing is accepted meanwhile"
    if int(status.get("engine_starts") or 1) > 1:
        yield "opened", f"{counted(status['engine_starts'], 'time')} since the start"
    yield "lacks commits", status.get("missing_commits", "")
    if missing := status.get("missing"):
        yield "missing", f"{counted(missing['count'], 'document')} since {missing['since']}: `semq node missing`"
    hub = status.get("hub")
    if hub is not None:
        is_up = hub.get("link") == "up"
        reason = hub.get("last_error") or "not dialled yet"
        yield "link to hub", f"up, {hub.get('node')}" if is_up else f"DOWN: {reason}"
    elif "hub" in status:
        yield "link to hub", "none: this node has no hub"
    for partner, link in (status.get("direct") or {}).items():
        yield "direct link", _direct_link(partner, link)
    publishers = f"BLOCKED: {status['shortage']}" if status.get("shortage") else "may send"
    yield "publishers", "REFUSED: the node is drained until its next start" if status.get("drained") else publishers
    amqp = status.get("amqp") or {}
    yield "connections", f"{amqp.get('connections', 0)}, with {counted(amqp.get('channels', 0), 'channel')}"
    ready, unacked = amqp.get("messages_ready", 0), amqp.get("messages_unacked", 0)
    beside = " beside the inboxes" if status.get("kind") == "local" else ""
    figures = f"{counted(ready, 'message')} ready, {unacked} with consumers"
    yield "broker queues", f"{amqp.get('queues', 0)}{beside}: {figures}"
    yield "broker memory", size(amqp.get("memory_bytes", 0))


def _traffic(status: Status) -> Iterator[tuple[str, str]]:
    counters = status.get("counters") or {}
    for name in TRAFFIC:
        if counters.get(name):
            yield str(counters[name]), COUNTERS[name]


def _waiting(status: Status) -> Iterator[tuple[str, str]]:
    for target, reason in (status.get("sql_waiting") or {}).items():
        yield "sent by SQL", f"documents for {node_name(target)} wait: {as_text(reason)}"


def _certificate(status: Status) -> Iterator[tuple[str, str]]:
    own = status.get("certificate")
    if own:
        yield "own", f"{own.get('state')}, until {local_time(own.get('not_after'))} ({own.get('days_left')} days left)"
        yield "renewal", local_time(own.get("renew_at"))
    for node, days in sorted((status.get("certificates") or {}).items()):
        yield node_name(node), f"{days} days left"


def _violations(status: Status) -> Iterator[tuple[str, str]]:
    for violation in status.get("violations") or ():
        times = f"{counted(violation['count'], 'time')}, last {moment(violation['last'])}"
        yield node_name(violation["who"]), f"{violation['what']} {times}: {as_text(violation['text'])}"


def _extract(status: Status) -> Iterator[tuple[str, str]]:
    last = status.get("extract")
    if last:
        result = "done" if last.get("exit_status") == 0 else f"FAILED with status {last.get('exit_status')}"
        yield "last extract", f"{local_time(last.get('at'))} {result}: {last.get('output')}"


def _telemetry(facts: Status) -> Iterator[tuple[str, str]]:
    spans = facts.get("telemetry")
    if spans:
        yield "spans", ", ".join(f"{spans.get(name) or 0} {name}" for name in ("exported", "waiting", "dropped"))
        if spans.get("failures"):
            yield "collector", f"FAILS since {moment(spans['failing_since'])}: {as_text(spans.get('last_error') or '')}"


def _datagrams(facts: Status) -> Iterator[tuple[str, str]]:
    datagrams = facts.get("datagrams")
    if not datagrams:
        return
    yield (
        "UDP port",
        f"{datagrams.get('port')}, {counted(datagrams.get('strangers', 0), 'datagram')} from unknown senders",
    )
    for peer, path in sorted((datagrams.get("peers") or {}).items()):
        yield node_name(peer), _path(path)
        shown = [name for name in DATAGRAM_FIGURES if path.get(name) or name in DATAGRAM_FIGURES[:3]]
        yield "", ", ".join(f"{path.get(name) or 0} {name.replace('_', ' ')}" for name in shown)


def _path(facts: Status) -> str:
    if facts.get("state") != "open":
        return f"CLOSED: {as_text(facts.get('why') or '')}"
    return f"open, up to {facts.get('datagram_bytes')} bytes each, {size(facts.get('bytes_per_s'))}/s"


SECTIONS = (
    ("Node", _node),
    ("Work", _work),
    ("Since the store was opened", _traffic),
    ("Waiting", _waiting),
    ("Certificates", _certificate),
    ("Violations in the last day", _violations),
    ("Reconciliation", _extract),
    ("Telemetry", _telemetry),
    ("Datagrams", _datagrams),
)


def _partner_cells(name: str, facts: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        node_name(name),
        "unknown" if facts.get("online", False) is None else bool(facts.get("online")),
        facts.get("waiting"),
        "REACHED" if facts.get("quota_reached") else "",
        bool(facts.get("allowed")),
        "possible" if facts.get("sealable") else "no certificate",
    )
