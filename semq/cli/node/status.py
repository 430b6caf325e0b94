"""The page of ``semq node status``, in sections; counters need an option. Every field of the answer may be
absent.
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
PARTNERS: tuple[Column, ...] = (
    ("partner", "<"), ("online", "<"), ("waiting", ">"), ("quota", "<"), ("may be sent to", "<"), ("sealing", "<"),
)  # fmt: skip
# Counters of the engine on the page, in this order; the others are shown by --counters.
TRAFFIC = (
    "accepted", "forwarded", "stored", "delivered", "received", "rejected", "cancelled", "inquired", "duplicate",
    "violation",
)  # fmt: skip
COUNTER_COLUMNS: tuple[Column, ...] = (("counter", "<"), ("count", ">"), ("meaning", "<"))
FIGURES = ("amqp", "store")
# Figures of a peer's datagrams, in this order; those after the first three are shown if they are not 0.
DATAGRAM_FIGURES = (
    "sent", "received", "lost", "lost_there", "slowed", "too_large", "not_open", "too_fast", "no_room", "forged",
    "repeated", "unreadable", "full", "full_there", "moved",
)  # fmt: skip


def print_status(out: Output, status: Status) -> None:
    """Print the whole page."""
    for heading, section in SECTIONS:
        pairs = [(name, value) for name, value in section(status) if value not in ("", None)]
        if pairs:
            out.line(heading)
            for name, value in pairs:
                out.line(f"  {name:<14} {value}".rstrip())
    partners = status.get("partners") or {}
    if partners:
        out.line("Partners")
        out.table(PARTNERS, (_partner(name, one) for name, one in sorted(partners.items())))


def print_counters(out: Output, status: Status) -> None:
    """Print the counters of the engine with their meanings, and all figures of endpoint and store."""
    counts = status.get("counters") or {}
    named = [name for name in COUNTERS if name in counts]
    others = sorted(counts.keys() - COUNTERS.keys())  # counters of a node of another version
    out.table(COUNTER_COLUMNS, [(name, counts[name], COUNTERS.get(name, "")) for name in (*named, *others)])
    out.facts({name: status[name] for name in FIGURES if status.get(name)})


def _node(status: Status) -> Iterator[tuple[str, str]]:
    kind = str(status.get("kind") or "")
    yield "node", f"{node_name(status.get('node'))}, {KINDS.get(kind, kind)}"
    yield (
        "running since",
        f"{local_time(status['started_at'])} ({age_of(status['started_at'])})" if status.get("started_at") else "",
    )
    yield (
        "opening",
        f"{status.get('boot')} of store {status.get('store_uuid')}, incarnation {status.get('incarnation')}",
    )


def _direct(partner: str, link: Mapping[str, Any]) -> str:
    """Describe a direct link; while it is down, documents to the partner go by the hub, or wait if there is none."""
    if link["link"] == "up":
        return f"{partner}: up, dialled by {link['dialled_by']}, {counted(link.get('sent', 0), 'document')} sent"
    return f"{partner}: DOWN: {link['last_error'] or 'the partner has not dialled'}"


def _work(status: Status) -> Iterator[tuple[str, str]]:
    yield "store", "open" if status.get("store_open") else "being opened: nothing is accepted meanwhile"
    if int(status.get("engine_starts") or 1) > 1:
        yield "opened", f"{counted(status['engine_starts'], 'time')} since the start"
    hub = status.get("hub")
    if hub is not None:
        is_up = hub.get("link") == "up"
        why = hub.get("last_error") or "not dialled yet"
        yield "link to hub", f"up, {hub.get('node')}" if is_up else f"DOWN: {why}"
    elif "hub" in status:
        yield "link to hub", "none: this node has no hub"
    for partner, link in (status.get("direct") or {}).items():
        yield "direct link", _direct(partner, link)
    shortage = f"WAIT: {status['shortage']}" if status.get("shortage") else "may send"
    yield "publishers", "REFUSED: the node is drained until its next start" if status.get("drained") else shortage
    amqp = status.get("amqp") or {}
    yield "connections", f"{amqp.get('connections', 0)}, with {counted(amqp.get('channels', 0), 'channel')}"
    ready, unacked = amqp.get("messages_ready", 0), amqp.get("messages_unacked", 0)
    yield "broker queues", f"{amqp.get('queues', 0)}: {counted(ready, 'message')} ready, {unacked} with consumers"
    yield "broker memory", size(amqp.get("memory_bytes", 0))


def _traffic(status: Status) -> Iterator[tuple[str, str]]:
    counters = status.get("counters") or {}
    for name in TRAFFIC:
        if counters.get(name):
            yield str(counters[name]), COUNTERS[name]


def _waiting(status: Status) -> Iterator[tuple[str, str]]:
    for target, why in (status.get("sql_waiting") or {}).items():
        yield "sent by SQL", f"waits for {node_name(target)}: {as_text(why)}"


def _certificate(status: Status) -> Iterator[tuple[str, str]]:
    own = status.get("certificate")
    if own:
        yield "own", f"{own.get('state')}, until {local_time(own.get('not_after'))} ({own.get('days_left')} days left)"
        yield "renewal", local_time(own.get("renew_at"))
    for node, days in sorted((status.get("certificates") or {}).items()):
        yield node_name(node), f"{days} days left"


def _violations(status: Status) -> Iterator[tuple[str, str]]:
    for seen in status.get("violations") or ():
        how_often = f"{seen['what']} {counted(seen['count'], 'time')}, last {moment(seen['last'])}"
        yield node_name(seen["who"]), f"{how_often}: {as_text(seen['text'])}"


def _extract(status: Status) -> Iterator[tuple[str, str]]:
    last = status.get("extract")
    if last:
        how = "done" if last.get("exit_status") == 0 else f"FAILED with status {last.get('exit_status')}"
        yield "last extract", f"{local_time(last.get('at'))} {how}: {last.get('output')}"


def _telemetry(facts: Status) -> Iterator[tuple[str, str]]:
    spans = facts.get("telemetry")
    if spans:
        named = ((name, spans.get(name) or 0) for name in ("exported", "waiting", "dropped"))
        yield "spans", ", ".join(f"{number} {name}" for name, number in named)
        if spans.get("failures"):
            yield "collector", f"FAILS since {moment(spans['failing_since'])}: {as_text(spans.get('last_error') or '')}"


def _datagrams(facts: Status) -> Iterator[tuple[str, str]]:
    datagrams = facts.get("datagrams")
    if not datagrams:
        return
    yield "UDP port", f"{datagrams.get('port')}, {counted(datagrams.get('strangers', 0), 'datagram')} of strangers"
    for peer, one in sorted((datagrams.get("peers") or {}).items()):
        yield node_name(peer), _path(one)
        named = ((name.replace("_", " "), one.get(name) or 0) for name in DATAGRAM_FIGURES)
        yield "", ", ".join(f"{number} {name}" for name, number in named if number or name in DATAGRAM_FIGURES[:3])


def _path(facts: Status) -> str:
    if facts.get("state") != "open":
        return f"CLOSED: {as_text(facts.get('why') or '')}"
    return f"open, up to {facts.get('datagram_bytes')} bytes each, {size(facts.get('bytes_per_s'))}/s"


SECTIONS = (
    ("Node", _node),
    ("Work", _work),
    ("Documents since the start", _traffic),
    ("Waiting", _waiting),
    ("Certificates", _certificate),
    ("Violations in the last day", _violations),
    ("Reconciliation", _extract),
    ("Telemetry", _telemetry),
    ("Datagrams", _datagrams),
)


def _partner(name: str, facts: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        node_name(name),
        bool(facts.get("online")),
        facts.get("waiting"),
        "REACHED" if facts.get("quota_reached") else "",
        bool(facts.get("allowed")),
        "possible" if facts.get("sealable") else "no certificate",
    )
