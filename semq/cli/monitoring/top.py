"""``semq top``: the figures of a node, refreshed on the terminal."""

import asyncio
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from semq.cli.output.values import age_of, brief_time, counted, node_name
from semq.cli.session import Session, on_node
from semq.clock import SystemClock
from semq.counters import COUNTERS
from semq.sizes import size

if TYPE_CHECKING:
    from semq.answers.status import Check, NodeHealth, NodeStatus

PAIRS_MAX, CAUSES_MAX = 10, 8  # largest numbers of shown lines; PAIRS_MAX: also of inboxes
# Figure of the broker | its name on the screen
BROKER_FIGURES = (("published", "messages published"), ("delivered", "messages delivered"))


class Snapshot(NamedTuple):
    """The answers of a node at one time."""

    at: float  #: monotonic seconds
    status: "NodeStatus"
    health: "NodeHealth"
    queues: Mapping[str, Any]
    causes: Mapping[str, Any]

    @property
    def totals(self) -> dict[str, float]:
        """The counters of the engine since its store was opened, and of the broker since its start, keyed by name."""
        amqp = self.status.amqp
        broker = {f"amqp {name}": getattr(amqp, name) if amqp else 0 for name, _ in BROKER_FIGURES}
        return {**(self.status.counters or {}), **broker}


@on_node
async def top(
    session: Session,
    interval: Annotated[float, typer.Option("--interval", min=0.5, max=3600, help="Seconds between refreshes.")] = 2.0,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="End after so many refreshes; default: no limit.")
    ] = None,
) -> None:
    """Show the current figures of a node, refreshed: health, rates, queues, stuck documents, busiest pairs."""
    clock, before, refreshes = SystemClock(), None, 0
    while True:
        now = await _snapshot(session, clock.monotonic())
        if session.out.as_json:
            session.out.data(_as_json(now, before))
        else:
            session.out.screen(list(_lines(now, before)))
        before, refreshes = now, refreshes + 1
        if refreshes == count:
            return
        await asyncio.sleep(interval)


async def _snapshot(session: Session, at: float) -> Snapshot:
    from semq.answers.status import NodeHealth, NodeStatus

    status, health = await session.read(NodeStatus, "node.status"), await session.read(NodeHealth, "node.health")
    return Snapshot(at, status, health, await session.ask("queue.census"), await session.ask("stuck.causes"))


def _rates(now: Snapshot, before: Snapshot | None) -> dict[str, float]:
    """Return the change of each total per second; empty for the first snapshot.

    If the node was restarted in between, its totals began at 0. If only its store was opened again, the first rates may
    be too low, but not negative.
    """
    if before is None or now.at <= before.at:
        return {}
    previous = before.totals if before.status.started_at == now.status.started_at else {}
    return {name: max(0.0, value - previous.get(name, 0)) / (now.at - before.at) for name, value in now.totals.items()}


def _as_json(now: Snapshot, before: Snapshot | None) -> dict[str, object]:
    return {
        "node": now.status.node,
        "verdict": now.health.verdict,
        "checks": [_check(check) for check in now.health.checks if check.verdict != "ok"],
        "per_s": {name: round(rate, 3) for name, rate in _rates(now, before).items()},
        "queues": now.queues,
        "stuck": now.causes["rows"],
    }


def _check(check: "Check") -> dict[str, str]:
    return {"check": check.name, "verdict": check.verdict, "detail": check.detail}


def _lines(now: Snapshot, before: Snapshot | None) -> Iterator[str]:
    from semq.cli.node.status import TRAFFIC

    status, queues = now.status, now.queues
    started = status.started_at
    yield f"{node_name(status.node)}  {now.health.verdict}  up {age_of(started) if started else '?'}"
    for check in now.health.checks:
        if check.verdict != "ok":
            yield f"  {check.verdict.upper()} {check.name}: {check.detail}"
    rates = _rates(now, before)
    yield ""
    yield f"{'figure':<34}{'per second':>10}{'total':>16}"
    rows = (*((name, COUNTERS[name]) for name in TRAFFIC), *((f"amqp {name}", words) for name, words in BROKER_FIGURES))
    for name, words in rows:
        total = now.totals.get(name, 0)
        if total:
            rate = f"{rates[name]:.1f}" if name in rates else "-"
            yield f"  {words:<32}{rate:>10}{total:>16,.0f}"
    yield ""
    yield f"queues, counted at {brief_time(queues['as_of'])}" if queues.get("as_of") else "queues: not counted yet"
    for queue in ("sent", "received", "submitted"):
        states = ", ".join(f"{rows} {state}" for state, rows in sorted(queues.get(queue, {}).items()) if rows)
        yield f"  {queue:<12} {states or '-'}"
    yield f"  {'failed':<12} {queues.get('failed', 0)}"
    for inbox in sorted(queues.get("inboxes", ()), key=itemgetter("rows"), reverse=True)[:PAIRS_MAX]:
        oldest = brief_time(inbox["oldest_at"])
        yield f"  {inbox['inbox']}: {counted(inbox['rows'], 'document')} unread, oldest {oldest}"
    yield from _causes(now.causes["rows"])
    yield from _pairs(queues.get("pairs", ()))


def _causes(rows: list[Mapping[str, object]]) -> Iterator[str]:
    if rows:
        yield ""
        yield "stuck"
    for row in rows[:CAUSES_MAX]:
        yield f"  {row['rows']:>8} {row['cause']:<20} {node_name(row['partner']) if row['partner'] else ''}"


def _pairs(pairs: Any) -> Iterator[str]:
    busiest = sorted(pairs, key=lambda pair: pair["rows"], reverse=True)[:PAIRS_MAX]
    if busiest:
        yield ""
        yield f"{'waiting for':<24}{'documents':>10}{'size':>12}{'late':>10}  oldest"
    for pair in busiest:
        name = node_name(pair["target"]) + (f" from {node_name(pair['source'])}" if pair["source"] else "")
        oldest = brief_time(pair["oldest_at"])
        yield f"  {name:<22}{pair['rows']:>10}{size(pair['bytes']):>12}{pair['late']:>10}  {oldest}"
