"""``semq queue``: numbers of messages in the queues of a node, and users of institutions."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from semq.cli.messages.presentation import print_rows
from semq.cli.output.values import brief_time, node_name
from semq.cli.session import Session, on_node
from semq.sizes import size
from semq.status_words import WORDS

group = typer.Typer()
OneInstitution = Annotated[str | None, typer.Argument(metavar="NODE", help="Only users of this institution.")]


@group.command("list")
@on_node
async def list_(session: Session) -> None:
    """Count messages by queue and status: tb_0031 has sent and stored ones, tb_0030 received ones."""
    counts = await session.ask("queue.counts")
    if session.out.as_json:
        session.out.data(counts)
    else:
        session.out.table((("queue", "<"), ("status", "<"), ("in words", "<"), ("messages", ">")), rows_of(counts))


@group.command()
@on_node
async def partners(session: Session) -> None:
    """List what waits for each partner: messages, bytes, and since when."""
    rows = await session.ask("queue.partners")
    if session.out.as_json:
        session.out.data(rows)
    else:
        columns = (("partner", "<"), ("messages", ">"), ("size", ">"), ("oldest", "<"))
        print_rows(
            session.out, columns, rows,
            lambda row: (node_name(row["partner"]), row["rows"], size(row["bytes"]), brief_time(row["oldest_at"])),
        )  # fmt: skip


@group.command()
@on_node
async def users(session: Session, institution: OneInstitution = None) -> None:
    """List users of institutions that a document to 4.NODE reaches, and who of them receives documents now."""
    rows = await session.ask("users.list", node=institution)
    if session.out.as_json:
        session.out.data(rows)
    else:
        columns = (("institution", "<"), ("user", "<"), ("receives now", "<"))
        print_rows(
            session.out, columns, rows,
            lambda row: (node_name(row["node"]), row["user"], "yes" if row["present"] else ""),
        )  # fmt: skip


def rows_of(counts: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Return a tree of counts as rows of a table."""
    for queue, states in counts.items():
        if not isinstance(states, Mapping):
            yield queue, "", "", states
            continue
        if not states:
            yield queue, "", "empty", 0
        for state, count in states.items():
            yield queue, state, WORDS.get(state, ""), count
