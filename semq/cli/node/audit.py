"""``semq audit list``: acts on a node over console, HTTP and AMQP, each with its user and its outcome."""

from typing import Annotated, Any

import typer

from semq.answers.acts import argument_texts
from semq.cli.options.times import milliseconds_ago
from semq.cli.output.values import local_time
from semq.cli.session import RowsOption, Session, on_node

group = typer.Typer()


@group.command("list")
@on_node
async def list_(
    session: Session,
    who: Annotated[str | None, typer.Option(metavar="NAME", help="Only acts of this user or token.")] = None,
    act: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only acts whose names begin so: failed, msg.hold.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(metavar="OUTCOME", help="Only this outcome: asked, done, refused or failed.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only acts since this time: an age (30m, 2h, 7d) or a date.")
    ] = None,
    payloads: Annotated[bool, typer.Option("--payloads", help="Only acts that displayed a payload.")] = False,
    before: Annotated[int | None, typer.Option(metavar="NUMBER", help="Only lines with a smaller number.")] = None,
    limit: RowsOption = 50,
) -> None:
    """List the lines of the audit log, newest first."""
    since_ms = milliseconds_ago(since) if since else None
    rows = await session.ask(
        "audit.list", who=who, act=act, outcome=outcome, since=since_ms, payloads=payloads or None, before=before,
        limit=limit,
    )  # fmt: skip
    session.out.rows(rows, ">number, at, who, through, act, outcome, details", map(_cells, rows))


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    through = f"{row['via']} {row['peer']}".rstrip()
    arguments = ", ".join(f"{name} {text}" for name, text in argument_texts(row["arguments"]))
    details = f"{row['detail']} {arguments}".strip()
    return row["number"], local_time(row["at"]), row["who"], through, row["act"], row["outcome"], details
