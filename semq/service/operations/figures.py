"""Operations ``figures.*``: documents over time, by partner, and by pair of sender and receiver.

The figures come from the ledger and survive restarts (``semq.store.figures``). A backlog is not stored: it is computed
backwards, from the present length of the queue and the documents that entered and left it since.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field
from sqlalchemy import Connection

from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.service.errors import BadArguments
from semq.service.operations.arguments import Arguments
from semq.service.operations.operation import look
from semq.service.operations.ports import OperatedNode
from semq.store.figures import BOUNDS_MS, HOUR, MINUTE, NO_LATENCY
from semq.store.rows import Event, Side
from semq.store.views import figures
from semq.store.views.census import CensusGroup
from semq.store.views.ended import DAY_MS, count_ended
from semq.store.views.figures import Counted
from semq.store.views.messages import node_of
from semq.store.views.selection import Institution, MessageFilter, Moment
from semq.umx_t.status import AppStatus

PeriodName: TypeAlias = Annotated[Literal["hour", "day", "week"], Meta(description="The last hour, day or week.")]
MINUTE_MS = 60_000
PERIODS = {"hour": (MINUTE, 60), "day": (HOUR, 24), "week": (HOUR, 168)}  # minutes of a point, number of points
SENDER_ENDS: tuple[tuple[int, int], ...] = tuple(
    (Side.SENDER, event)
    for event in (Event.DELIVERED, Event.REJECTED, Event.CANCELLED, Event.LOST, Event.UNKNOWN, Event.DROPPED)
)
# Backlog | lines by which a document enters it (+1) or leaves it (-1)
MOVES: dict[str, dict[tuple[int, int], int]] = {
    "sender": {(Side.SENDER, Event.ACCEPTED): 1} | dict.fromkeys(SENDER_ENDS, -1),
    "hub": {(Side.HUB, Event.STORED): 1, (Side.HUB, Event.RELEASED): -1},
    # Parked documents are in it, too: no line of its own tells of one that comes back
    "inbox": {(Side.RECEIVER, Event.RECEIVED): 1, (Side.RECEIVER, Event.DONE): -1},
}  # fmt: skip
BACKLOGS = {"local": ("sender", "inbox"), "platform": ("hub",)}


class ReadTraffic(Arguments, frozen=True, kw_only=True):
    """The period, and the partner."""

    period: PeriodName = "day"
    partner: Annotated[
        Institution | None, Meta(description="Only documents to and from this institution; at a hub those for it.")
    ] = None


class CountEnded(Arguments, MessageFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The selection of ended documents."""

    ended: Annotated[bool, Meta(description="Must be true: only ended documents are counted.")] = True


class EndedCount(OperationAnswer, frozen=True):
    """Ended documents by outcome."""

    matches: int
    by_outcome: dict[str, int]
    is_complete: bool  #: false: there are more; the newest are counted


class ReadPairs(Arguments, frozen=True, kw_only=True):
    """The day."""

    day_ms: Annotated[
        Moment | None, Meta(description="A time of the day (UTC), in milliseconds since 1970; by default today.")
    ] = None


class PairFigures(OperationAnswer, frozen=True):
    """The documents of one day from one institution to another."""

    source: str
    target: str
    documents: dict[str, int]  #: kind | number


class LatencyFigures(OperationAnswer, frozen=True, omit_defaults=True):
    """The latency of documents: numbers of documents by upper bound in milliseconds, and two quantiles.

    A quantile is the bound below which the part of the documents is; null: longer than a day.
    """

    #: upper bound in milliseconds | documents; -1: longer than a day
    buckets: dict[int, int] = field(default_factory=dict)
    median_ms: int | None = None
    p99_ms: int | None = None


class TrafficPoint(Struct, omit_defaults=True):
    """One minute or hour."""

    at: int  #: its beginning, in milliseconds since 1970 UTC
    documents: dict[str, int] = {}  #: kind | number
    backlog: dict[str, int] = {}  #: queue | documents in it at the end of the time
    latency: dict[str, LatencyFigures] = {}  #: kind | latency


class TrafficFigures(OperationAnswer, frozen=True):
    """Documents over time."""

    period: PeriodName
    partner: str | None
    counted_until: int | None  #: time of the newest counted line; null: none
    step_ms: int  #: length of a point
    documents: dict[str, int]  #: sums of all points
    latency: dict[str, LatencyFigures]
    backlog: dict[str, int]  #: now
    points: list[TrafficPoint] = field(default_factory=list)


class FigureOperations:
    """The handlers of ``FIGURES``."""

    def __init__(self, node: OperatedNode) -> None:
        self._node = node

    async def traffic(self, arguments: ReadTraffic) -> TrafficFigures:
        """Count documents by minute or hour: accepted, delivered, failed, received, their latency, and the backlog."""
        node = self._node
        # At the same time: a page waits for each of them, if it is not ready, at most for a moment.
        census, _is_counted = await asyncio.gather(node.census.newest(), node.figures.count_soon())
        partner = None if arguments.partner is None else node_of(arguments.partner)
        minutes, count = PERIODS[arguments.period]
        step_ms = minutes * MINUTE_MS
        last_ms = int(node.clock.wall().timestamp() * 1000) // step_ms * step_ms
        ats = [last_ms - step_ms * before for before in reversed(range(count))]
        rows = await node.store.execute(figures.over_time, minutes, ats[0], partner)
        lengths_then, queues = lengths(census.groups, partner), BACKLOGS[node.settings.node.kind]
        backlog = await node.store.execute(length_now, lengths_then, census.as_of, partner, queues)
        until = await node.store.execute(figures.counted_until)
        points = [TrafficPoint(at) for at in ats]
        fill(points, rows, backlog)
        sums = Counter[str]()
        for point in points:
            sums.update(point.documents)
        latency = _latencies(rows)
        return TrafficFigures(arguments.period, partner, until, step_ms, dict(sums), latency, backlog, points)

    async def pairs(self, arguments: ReadPairs) -> list[PairFigures]:
        """Count the documents of one day (UTC) by sender and receiver, the pairs with the most documents first."""
        node = self._node
        await node.figures.count_soon()
        at_ms = int(node.clock.wall().timestamp() * 1000) if arguments.day_ms is None else arguments.day_ms
        found = await node.store.execute(figures.pairs, at_ms // DAY_MS * DAY_MS)
        return [PairFigures(source, target, documents) for (source, target), documents in found.items()]

    async def ended(self, arguments: CountEnded) -> EndedCount:
        """Count the ended documents that fit, by outcome; of very many, the newest."""
        if not arguments.ended:
            raise BadArguments("Only ended documents are counted; queue.census counts the queues.", ended=False)
        is_counted = await self._node.figures.count_soon()
        return EndedCount(**await self._node.store.execute(count_ended, arguments, is_counted))


FIGURES = (
    look("figures.traffic", AccessRole.VIEWER, ReadTraffic, FigureOperations.traffic),
    look("figures.pairs", AccessRole.VIEWER, ReadPairs, FigureOperations.pairs),
    look("msg.count", AccessRole.VIEWER, CountEnded, FigureOperations.ended, "the console and the HTTP API"),
)


def merged(answers: Sequence[TrafficFigures]) -> TrafficFigures:
    """Return the sums of the figures of several stores, counted until the oldest time."""
    first, sums = answers[0], Counter[str]()
    points: dict[int, TrafficPoint] = {}
    for answer in answers:
        sums.update(answer.documents)
        for other in answer.points:
            point = points.setdefault(other.at, TrafficPoint(other.at))
            point.documents = dict(Counter(point.documents) + Counter(other.documents))
            point.backlog = dict(Counter(point.backlog) + Counter(other.backlog))
            point.latency = _merged_latencies((point.latency, other.latency))
    backlog = sum((Counter(answer.backlog) for answer in answers), Counter[str]())
    until = min((answer.counted_until for answer in answers if answer.counted_until), default=None)
    latency = _merged_latencies([answer.latency for answer in answers])
    return TrafficFigures(
        first.period, first.partner, until, first.step_ms, dict(sums), latency, dict(backlog),
        [points[at] for at in sorted(points)],
    )  # fmt: skip


def _merged_latencies(latencies: Iterable[Mapping[str, LatencyFigures]]) -> dict[str, LatencyFigures]:
    counts: dict[str, Counter[int]] = {}
    for by_kind in latencies:
        for kind, latency in by_kind.items():
            counts.setdefault(kind, Counter()).update(latency.buckets)
    return {kind: latency_of(buckets) for kind, buckets in counts.items()}


def lengths(groups: Iterable[CensusGroup], partner: str | None) -> Counter[str]:
    """Return the documents in each queue, of all partners or of one. ``groups``: those of a census."""
    found = Counter[str]()
    for group in groups:
        is_sent = group["side"] == "outbound"
        if group["piece"] or partner not in (None, group["target" if is_sent else "source"]):
            continue
        if is_sent and group["outcome"] is None:
            found["hub" if group["source"] else "sender"] += group["rows"]
        elif not is_sent and group["app_status"] in (AppStatus.NEW.name, AppStatus.PARKED.name):
            found["inbox"] += group["rows"]
    return found


def length_now(
    connection: Connection, counted: Mapping[str, int], as_of_ms: int, partner: str | None, names: Sequence[str]
) -> dict[str, int]:
    """Return the lengths of queues from those of a census, which may be minutes old, and the lines since its minute."""
    since_ms = (as_of_ms // MINUTE_MS + 1) * MINUTE_MS
    rows = figures.over_time(connection, MINUTE, since_ms, partner) if as_of_ms else []
    return {name: max(counted.get(name, 0) + moved(name, rows), 0) for name in names}


def moved(name: str, rows: Iterable[Counted]) -> int:
    """Return by how many documents a queue has grown."""
    return sum(MOVES[name].get((row.side, row.event), 0) * row.documents for row in rows)


def fill(points: Sequence[TrafficPoint], rows: Iterable[Counted], backlog: dict[str, int]) -> None:
    """Add the figures to the points of their times. ``backlog``: now."""
    by_time: dict[int, list[Counted]] = {}
    for row in rows:
        by_time.setdefault(row.at, []).append(row)
    waiting = dict(backlog)
    for point in reversed(points):
        point.backlog = {name: max(length, 0) for name, length in waiting.items()}
        here = by_time.get(point.at, ())
        for row in here:
            if kind := row.kind:
                point.documents[kind] = point.documents.get(kind, 0) + row.documents
        for name in waiting:
            waiting[name] -= moved(name, here)
        point.latency = _latencies(here)


def _latencies(rows: Iterable[Counted]) -> dict[str, LatencyFigures]:
    counts: dict[str, Counter[int]] = {}
    for row in rows:
        if row.bucket != NO_LATENCY:
            bound = BOUNDS_MS[row.bucket] if row.bucket < len(BOUNDS_MS) else -1
            counts.setdefault(row.kind, Counter())[bound] += row.documents
    return {kind: latency_of(buckets) for kind, buckets in counts.items()}


def latency_of(buckets: dict[int, int]) -> LatencyFigures:
    """Return the latency of documents that are counted by bucket."""
    return LatencyFigures(dict(buckets), _quantile(buckets, 50), _quantile(buckets, 99))


def _quantile(buckets: dict[int, int], percent: int) -> int | None:
    """Return the upper bound of the bucket in which ``percent`` of the documents are reached; None: no bound."""
    wanted, reached = sum(buckets.values()) * percent / 100, 0
    for bound in BOUNDS_MS:
        reached += buckets.get(bound, 0)
        if reached >= wanted:
            return bound
    return None
