"""``semq queue``: how many messages stand where, in the queues of a node."""

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from semq.cli.desk import Desk, on_node
from semq.cli.values import WORDS, brief, node_name, size

group = typer.Typer()


@group.command("list")
@on_node
async def list_(desk: Desk) -> None:
    """Messages by queue and status: tb_0031 goes out (or is held for others), tb_0030 has come in."""
    counts = await desk.ask("queue.counts")
    if desk.out.as_json:
        desk.out.data(counts)
    else:
        desk.out.table((("queue", "<"), ("status", "<"), ("in words", "<"), ("messages", ">")), rows_of(counts))


@group.command()
@on_node
async def partners(desk: Desk) -> None:
    """What waits for each partner: messages, bytes, and since when."""
    rows = await desk.ask("queue.partners")
    if desk.out.as_json:
        desk.out.data(rows)
    else:
        columns = (("partner", "<"), ("messages", ">"), ("size", ">"), ("oldest", "<"))
        desk.out.table(
            columns,
            ((node_name(row["partner"]), row["rows"], size(row["bytes"]), brief(row["oldest_at"])) for row in rows),
        )


def rows_of(counts: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """The table of a tree of counts."""
    for queue, states in counts.items():
        if not isinstance(states, Mapping):
            yield queue, "", "", states
            continue
        if not states:
            yield queue, "", "empty", 0
        for state, count in states.items():
            yield queue, state, WORDS.get(state, ""), count
