"""``semq stuck list|explain``: documents that make no progress, with the cause and the next step."""

from collections import Counter
from typing import Annotated

import typer

from semq.cli.messages.message import Id
from semq.cli.messages.presentation import (
    document_name,
    facts_of,
    name_of,
    outage_line,
    print_rows,
    stuck_lines,
    trace_line,
)
from semq.cli.options.selection import PartnerOption
from semq.cli.output.values import brief_time
from semq.cli.session import RowsOption, Session, on_node

group = typer.Typer()


@group.command("list")
@on_node
async def list_(
    session: Session,
    cause: Annotated[str | None, typer.Option(help="Only this cause, for instance TARGET_OFFLINE.")] = None,
    partner: PartnerOption = None,
    limit: RowsOption = 200,
) -> None:
    """List stuck documents, and each cause with its next step; the exit status is 0 also if there are some."""
    rows = await session.rows("stuck.list", limit, cause=cause, partner=partner)
    print_rows(
        session.out, "name, since, document, cause", rows,
        lambda row: (name_of(row), brief_time(row["at"]), document_name(row), row["stuck"]["cause"]),
    )  # fmt: skip
    if session.out.as_json:
        return
    for name, count in Counter(row["stuck"]["cause"] for row in rows).most_common():
        stuck = next(row["stuck"] for row in rows if row["stuck"]["cause"] == name)
        session.out.line(f"{count} × {name}: {stuck['meaning']}; {stuck['next_step']}")


@group.command()
@on_node
async def explain(session: Session, id: Id) -> None:
    """Explain whether one document is stuck, with the cause, the next step and its last events."""
    answer = await session.ask("stuck.explain", id=id)
    if session.out.as_json:
        session.out.data(answer)
        return
    session.out.facts(facts_of(answer["message"]))
    session.out.line("")
    for line in stuck_lines(answer["stuck"], answer["message"], answer.get("waits")):
        session.out.line(line)
    if answer.get("link"):
        session.out.line(outage_line(answer["link"]))
    for line in answer["last_events"]:
        session.out.line(trace_line(line))
