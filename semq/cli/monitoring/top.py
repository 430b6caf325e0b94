"""``semq top``: the figures of a node, refreshed on the terminal."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import typer

from semq.cli.node.status import TRAFFIC
from semq.cli.output.values import age_of, brief_time, node_name
from semq.cli.session import Session, on_node
from semq.clock import SystemClock
from semq.counters import COUNTERS
from semq.sizes import size

PAIRS, CAUSES = 10, 8
BROKER = (("published", "messages published"), ("delivered", "messages delivered"))


class Snapshot(NamedTuple):
    """The answers of a node at one time."""

    at: float  #: monotonic seconds
    status: Mapping[str, Any]
    health: Mapping[str, Any]
    queues: Mapping[str, Any]
    causes: Mapping[str, Any]

    @property
    def sums(self) -> dict[str, float]:
        """The figures that are sums since the start, by name."""
        amqp = self.status.get("amqp") or {}
        return {**(self.status.get("counters") or {}), **{f"amqp {name}": amqp.get(name, 0) for name, _ in BROKER}}


@on_node
async def top(
    session: Session,
    interval: Annotated[float, typer.Option("--interval", min=0.5, max=3600, help="Seconds between refreshes.")] = 2.0,
    count: Annotated[int | None, typer.Option("--count", min=1, help="End after this number of refreshes.")] = None,
) -> None:
    """Show what the node does now, refreshed: checks, documents per second, queues, stuck documents, busiest pairs."""
    clock, before, shown = SystemClock(), None, 0
    while True:
        now = await _snapshot(session, clock.monotonic())
        if session.out.as_json:
            session.out.data(_as_json(now, before))
        else:
            session.out.screen(list(_lines(now, before)))
        before, shown = now, shown + 1
        if shown == count:
            return
        await asyncio.sleep(interval)


async def _snapshot(session: Session, at: float) -> Snapshot:
    operations = ("node.status", "node.health", "queue.census", "stuck.causes")
    return Snapshot(at, *[await session.ask(operation) for operation in operations])


def _rates(now: Snapshot, before: Snapshot | None) -> dict[str, float]:
    """Return the sums per second since the previous snapshot; the sums of a restarted node begin at 0."""
    if before is None or now.at <= before.at:
        return {}
    old = before.sums if before.status.get("started_at") == now.status.get("started_at") else {}
    return {name: max(0.0, value - old.get(name, 0)) / (now.at - before.at) for name, value in now.sums.items()}


def _as_json(now: Snapshot, before: Snapshot | None) -> dict[str, Any]:
    return {
        "node": now.status.get("node"),
        "verdict": now.health["verdict"],
        "checks": [one for one in now.health["checks"] if one["verdict"] != "ok"],
        "per_s": {name: round(rate, 3) for name, rate in _rates(now, before).items()},
        "queues": now.queues,
        "stuck": now.causes["rows"],
    }


def _lines(now: Snapshot, before: Snapshot | None) -> Iterator[str]:
    status, queues = now.status, now.queues
    started = status.get("started_at")
    yield f"{node_name(status.get('node'))}  {now.health['verdict']}  up {age_of(started) if started else '?'}"
    for one in now.health["checks"]:
        if one["verdict"] != "ok":
            yield f"  {one['verdict'].upper()} {one['check']}: {one['detail']}"
    rates = _rates(now, before)
    yield ""
    yield f"{'per second':<34}{'now':>10}{'since start':>16}"
    rows = (*((name, COUNTERS[name]) for name in TRAFFIC), *((f"amqp {name}", words) for name, words in BROKER))
    for name, words in rows:
        total = now.sums.get(name, 0)
        if total:
            rate = f"{rates[name]:.1f}" if name in rates else "-"
            yield f"  {words:<32}{rate:>10}{total:>16,.0f}"
    yield ""
    yield f"queues, counted at {brief_time(queues['as_of'])}" if queues.get("as_of") else "queues: not counted yet"
    for queue in ("sent", "received", "submitted"):
        states = ", ".join(f"{rows} {state}" for state, rows in sorted(queues.get(queue, {}).items()) if rows)
        yield f"  {queue:<12} {states or '-'}"
    yield f"  {'failed':<12} {queues.get('failed', 0)}"
    yield from _causes(now.causes["rows"])
    yield from _pairs(queues.get("pairs", ()))


def _causes(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    if rows:
        yield ""
        yield "stuck"
    for row in rows[:CAUSES]:
        yield f"  {row['rows']:>8} {row['cause']:<20} {node_name(row['partner']) if row['partner'] else ''}"


def _pairs(pairs: Any) -> Iterator[str]:
    busiest = sorted(pairs, key=lambda pair: pair["rows"], reverse=True)[:PAIRS]
    if busiest:
        yield ""
        yield f"{'waiting for':<24}{'documents':>10}{'size':>12}{'late':>10}  oldest"
    for pair in busiest:
        name = node_name(pair["target"]) + (f" from {node_name(pair['source'])}" if pair["source"] else "")
        oldest = brief_time(pair["oldest_at"])
        yield f"  {name:<22}{pair['rows']:>10}{size(pair['bytes']):>12}{pair['late']:>10}  {oldest}"
