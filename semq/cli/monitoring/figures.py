"""``semq figures traffic|pairs``: documents over time, with latency and backlog, and who sends to whom."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from semq.cli.messages.presentation import print_rows
from semq.cli.output.values import brief_time, moment, node_name
from semq.cli.session import Session, on_node
from semq.durations import duration
from semq.status_words import FIGURES, LATENCIES

group = typer.Typer()
PERIOD_HELP = "The last hour by minute, or the last day or week by hour."
# Kinds of documents; a kind that does not occur has no column
KINDS = (
    "accepted", "delivered", "failed", "cancelled", "forwarded", "stored", "released", "refused", "received",
    "processed", "parked",
)  # fmt: skip
TIMED = ("delivered", "processed", "released")  # kinds with a latency
QUEUES = ("sender", "hub", "inbox")


class PeriodChoice(StrEnum):
    """The period of figures."""

    hour = "hour"
    day = "day"
    week = "week"


@group.callback()
def figures() -> None:
    """Documents over time."""


@group.command()
@on_node
async def traffic(
    session: Session,
    period: Annotated[PeriodChoice, typer.Option(help=PERIOD_HELP)] = PeriodChoice.day,
    partner: Annotated[
        str | None,
        typer.Option(metavar="NODE", help="Only documents to and from this institution; at a hub those for it."),
    ] = None,
) -> None:
    """Count documents over time: accepted, delivered, failed, received, latency (median, 99 %) and backlog."""
    answer = await session.ask("figures.traffic", period=period.value, partner=partner)
    if session.out.as_json:
        session.out.data(answer)
        return
    kinds = [kind for kind in KINDS if kind in answer["documents"]]
    timed = [kind for kind in TIMED if kind in answer["latency"]]
    queues = [queue for queue in QUEUES if queue in answer["backlog"]]
    heads = (*(FIGURES[name] for name in (*kinds, *queues)), *(LATENCIES[kind].lower() for kind in timed))
    columns = ", >".join(["since", *heads])
    shown = [point for point in answer["points"] if point.get("documents")]
    session.out.table(columns, (tuple(_cells(row, kinds, queues, timed)) for row in (*shown, answer)))
    session.out.line(f"counted until {moment(answer['counted_until']) or 'no line yet'}; of times: median; 99 %")


@group.command()
@on_node
async def pairs(session: Session) -> None:
    """Count the documents of today (UTC) by sender and receiver: who sends to whom."""
    rows = await session.ask("figures.pairs")
    kinds = [kind for kind in KINDS if any(kind in row["documents"] for row in rows)]
    print_rows(
        session.out, ", >".join(["from, to", *kinds]), rows,
        lambda row: (
            node_name(row["source"]), node_name(row["target"]), *(row["documents"].get(kind, 0) for kind in kinds)
        ),
    )  # fmt: skip


def _cells(row: Mapping[str, Any], kinds: list[str], queues: list[str], timed: list[str]) -> Iterator[object]:
    """Yield the cells of one point; the answer itself has the sums."""
    yield brief_time(row["at"]) if "at" in row else "in all"
    for kind in kinds:
        yield row.get("documents", {}).get(kind, 0)
    for queue in queues:
        yield row.get("backlog", {}).get(queue, 0)
    for kind in timed:
        latency = row.get("latency", {}).get(kind)
        yield f"{_bound(latency.get('median_ms'))}; {_bound(latency.get('p99_ms'))}" if latency else ""


def _bound(milliseconds: object) -> str:
    """Return an upper bound as text; None: longer than a day."""
    return f"≤ {duration(milliseconds / 1000)}" if isinstance(milliseconds, int | float) else "> 1 d"
