"""``semq queue``: how many messages stand where, in the queues of a node."""

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from semq.cli.desk import Desk, on_node
from semq.cli.shown import WORDS

group = typer.Typer()


@group.callback()
def _queue() -> None:
    """The queues of a node."""


@group.command("list")
@on_node
async def list_(desk: Desk) -> None:
    """Messages by queue and status: tb_0031 goes out (or is held for others), tb_0030 has come in."""
    counts = await desk.ask("queue.counts")
    if desk.out.as_json:
        desk.out.data(counts)
    else:
        desk.out.table((("queue", "<"), ("status", "<"), ("in words", "<"), ("messages", ">")), rows_of(counts))


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
