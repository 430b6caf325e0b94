"""``semq stuck``: messages that do not move, each with its cause and what a person can do. Looking changes nothing."""

from collections import Counter
from typing import Annotated, Any

import typer

from semq.cli.desk import Desk, on_node
from semq.cli.msg import Id
from semq.cli.shown import document, facts_of, name_of, stuck_lines, trace_line
from semq.cli.values import brief

group = typer.Typer()


@group.command("list")
@on_node
async def list_(
    desk: Desk,
    cause: Annotated[str | None, typer.Option(help="Only this cause, for instance TARGET_OFFLINE.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 200,
) -> None:
    """What does not move, and why; exit status 0 also when there is something."""
    rows: list[dict[str, Any]] = await desk.ask("stuck.list", cause=cause, limit=limit)
    if desk.out.as_json:
        desk.out.data(rows)
        return
    columns = (("name", "<"), ("since", "<"), ("document", "<"), ("cause", "<"))
    desk.out.table(columns, ((name_of(row), brief(row["at"]), document(row), row["stuck"]["cause"]) for row in rows))
    for name, count in Counter(row["stuck"]["cause"] for row in rows).most_common():
        told = next(row["stuck"] for row in rows if row["stuck"]["cause"] == name)
        desk.out.line(f"{count} × {name}: {told['meaning']}; {told['next_step']}")


@group.command()
@on_node
async def explain(desk: Desk, id: Id) -> None:
    """One message: whether it is stuck, why, what to do, and what happened to it last."""
    told = await desk.ask("stuck.explain", id=id)
    if desk.out.as_json:
        desk.out.data(told)
        return
    desk.out.facts(facts_of(told["message"]))
    desk.out.line("")
    for line in stuck_lines(told["stuck"], told["message"]):
        desk.out.line(line)
    for line in told["last_events"]:
        desk.out.line(trace_line(line))
