"""The printed form of ``semq node status``."""

from collections.abc import Iterator

import msgspec

from semq.answers.status import AmqpFigures, DirectLink, NodeStatus, PartnerStatus, PathState
from semq.cli.output.printer import Output
from semq.cli.output.values import age_of, as_text, counted, local_time, moment, node_name
from semq.counters import COUNTERS
from semq.sizes import size

KINDS = {"local": "an institution's node", "platform": "the hub"}
PARTNER_COLUMNS = "partner, online, >waiting, quota, may be sent to, sealing"
# Counters of the engine that are printed without --counters, in this order.
TRAFFIC = (
    "accepted", "forwarded", "stored", "delivered", "received", "rejected", "cancelled", "inquired", "duplicate",
    "violation",
)  # fmt: skip
OTHER_FIGURES = ("amqp", "departures", "store")  # parts of the answer that --counters prints after the counters
# Figures of a peer's datagrams, in this order. Those after the first three are printed only if they are not 0.
DATAGRAM_FIGURES = (
    "sent", "received", "lost", "lost_there", "slowed", "too_large", "not_open", "too_fast", "no_room", "forged",
    "repeated", "unreadable", "full", "full_there", "moved",
)  # fmt: skip


def print_status(out: Output, status: NodeStatus) -> None:
    """Print sections and partners, without empty values."""
    for heading, section in SECTIONS:
        pairs = [(name, value) for name, value in section(status) if value not in ("", None)]
        if pairs:
            out.line(heading)
            for name, value in pairs:
                out.line(f"  {name:<14} {value}".rstrip())
    if status.partners:
        out.line("Partners")
        out.table(PARTNER_COLUMNS, (_partner_cells(name, partner) for name, partner in sorted(status.partners.items())))


def print_counters(out: Output, status: NodeStatus) -> None:
    """Print the counters with their meanings, and the figures of AMQP and the store."""
    counts = status.counters or {}
    known = [name for name in COUNTERS if name in counts]
    unknown = sorted(counts.keys() - COUNTERS.keys())  # counters of a node of another version
    out.table("counter, >count, meaning", [(name, counts[name], COUNTERS.get(name, "")) for name in (*known, *unknown)])
    figures = msgspec.to_builtins(status)
    out.facts({name: figures[name] for name in OTHER_FIGURES if figures.get(name)})


def _node(status: NodeStatus) -> Iterator[tuple[str, str]]:
    yield "node", f"{node_name(status.node)}, {KINDS.get(status.kind, status.kind)}"
    started_at = status.started_at
    yield "running since", f"{local_time(started_at)} ({age_of(started_at)})" if started_at else ""
    yield "store", f"{status.store_uuid}, start {status.boot}, incarnation {status.incarnation}"


def _direct_link(partner: str, link: DirectLink) -> str:
    if link.is_up:
        return f"{partner}: up, dialled by {link.dialled_by}, {counted(link.sent, 'document')} sent"
    return f"{partner}: DOWN: {link.last_error or 'the partner has not dialled'}"


def _work(status: NodeStatus) -> Iterator[tuple[str, str]]:
    yield "store", "open" if status.store_open else "being opened: nothing is accepted meanwhile"
    if (status.engine_starts or 1) > 1:
        yield "opened", f"{counted(status.engine_starts, 'time')} since the start"
    yield "lacks commits", status.missing_commits or ""
    if missing := status.missing:
        yield "missing", f"{counted(missing.count, 'document')} since {missing.since}: `semq node missing`"
    if link := status.link:
        yield "link to hub", f"up, {link.node}" if link.is_up else f"DOWN: {link.last_error or 'not dialled yet'}"
    elif status.hub is None:
        yield "link to hub", "none: this node has no hub"
    for partner, direct in (status.direct or {}).items():
        yield "direct link", _direct_link(partner, direct)
    publishers = f"BLOCKED: {status.shortage}" if status.shortage else "may send"
    yield "publishers", "REFUSED: the node is drained until its next start" if status.drained else publishers
    amqp = status.amqp or AmqpFigures()
    yield "connections", f"{amqp.connections}, with {counted(amqp.channels, 'channel')}"
    beside = " beside the inboxes" if status.kind == "local" else ""
    figures = f"{counted(amqp.messages_ready, 'message')} ready, {amqp.messages_unacked} with consumers"
    yield "broker queues", f"{amqp.queues}{beside}: {figures}"
    yield "broker memory", size(amqp.memory_bytes)


def _traffic(status: NodeStatus) -> Iterator[tuple[str, str]]:
    counters = status.counters or {}
    for name in TRAFFIC:
        if counters.get(name):
            yield str(counters[name]), COUNTERS[name]


def _waiting(status: NodeStatus) -> Iterator[tuple[str, str]]:
    for target, reason in (status.sql_waiting or {}).items():
        yield "sent by SQL", f"documents for {node_name(target)} wait: {as_text(reason)}"


def _certificate(status: NodeStatus) -> Iterator[tuple[str, str]]:
    own = status.certificate
    if own:
        yield "own", f"{own.state}, until {local_time(own.not_after)} ({own.days_left} days left)"
        yield "renewal", local_time(own.renew_at)
    for node, days in sorted((status.certificates or {}).items()):
        yield node_name(node), f"{days} days left"


def _violations(status: NodeStatus) -> Iterator[tuple[str, str]]:
    for violation in status.violations or ():
        times = f"{counted(violation.count, 'time')}, last {moment(violation.last)}"
        yield node_name(violation.who), f"{violation.what} {times}: {as_text(violation.text)}"


def _extract(status: NodeStatus) -> Iterator[tuple[str, str]]:
    if last := status.extract:
        result = f"FAILED with status {last.exit_status}" if last.exit_status else "done"
        yield "last extract", f"{local_time(last.at)} {result}: {last.output}"


def _telemetry(status: NodeStatus) -> Iterator[tuple[str, str]]:
    if spans := status.telemetry:
        yield "spans", f"{spans.exported} exported, {spans.waiting} waiting, {spans.dropped} dropped"
        if spans.failures:
            yield "collector", f"FAILS since {moment(spans.failing_since)}: {as_text(spans.last_error)}"


def _datagrams(status: NodeStatus) -> Iterator[tuple[str, str]]:
    datagrams = status.datagrams
    if datagrams is None:
        return
    yield "UDP port", f"{datagrams.port}, {counted(datagrams.strangers, 'datagram')} from unknown senders"
    for peer, path in sorted(datagrams.peers.items()):
        yield node_name(peer), _path(path)
        shown = [name for name in DATAGRAM_FIGURES if getattr(path, name) or name in DATAGRAM_FIGURES[:3]]
        yield "", ", ".join(f"{getattr(path, name)} {name.replace('_', ' ')}" for name in shown)


def _path(path: PathState) -> str:
    if path.state != "open":
        return f"CLOSED: {as_text(path.why)}"
    return f"open, up to {path.datagram_bytes} bytes each, {size(path.bytes_per_s)}/s"


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


def _partner_cells(name: str, partner: PartnerStatus) -> tuple[object, ...]:
    return (
        node_name(name),
        "unknown" if partner.online is None else partner.online,
        partner.waiting,
        "REACHED" if partner.quota_reached else "",
        partner.allowed,
        "possible" if partner.sealable else "no certificate",
    )
