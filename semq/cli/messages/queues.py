"""``semq queue list|partners|users``: counts of documents in the queues of a node, and users of institutions."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semq.cli.messages.presentation import print_rows
from semq.cli.output.values import brief_time, node_name
from semq.cli.session import Session, on_node
from semq.sizes import size
from semq.status_words import WORDS

if TYPE_CHECKING:
    from semq.answers.messages import Sums

group = typer.Typer()
Institution = Annotated[str | None, typer.Argument(metavar="NODE", help="Only users of this institution.")]


@group.command("list")
@on_node
async def list_(session: Session) -> None:
    """Count documents by queue and status."""
    counts = await session.ask("queue.census", fresh=True)
    session.out.rows(counts, "queue, status, in words, >documents", count_rows(counts))


@group.command()
@on_node
async def partners(session: Session) -> None:
    """List the backlog for each partner: number and size of its waiting documents, and the time of the oldest one."""
    pairs = (await session.ask("queue.census", fresh=True))["pairs"]
    rows = [_sum(partner, pairs) for partner in sorted({pair["target"] for pair in pairs})]
    print_rows(
        session.out, "partner, >documents, >size, oldest", rows,
        lambda row: (node_name(row["partner"]), row["rows"], size(row["bytes"]), brief_time(row["oldest_at"])),
    )  # fmt: skip


@group.command()
@on_node
async def users(session: Session, institution: Institution = None) -> None:
    """List the users of institutions, who get the documents to 4.NODE, and whether each receives documents now."""
    rows = await session.ask("users.list", node=institution)
    print_rows(
        session.out, "institution, user, receives now", rows,
        lambda row: (node_name(row["node"]), row["user"], "yes" if row["present"] else ""),
    )  # fmt: skip


def count_rows(counts: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield queue, status, status in words and count for each row of the table."""
    for queue in ("sent", "received", "submitted"):
        if not any(counts[queue].values()):
            yield queue, "", "empty", 0
        for status, count in counts[queue].items():
            if count:
                yield queue, status, WORDS.get(status, ""), count
    for side, pieces in counts["pieces"].items():
        if pieces["rows"]:
            yield "pieces", side, "", pieces["rows"]


def _sum(partner: str, pairs: "list[Sums]") -> "Sums":
    """Return the figures of the documents for one partner, from all sources."""
    of_partner = [pair for pair in pairs if pair["target"] == partner]
    return {
        "partner": partner,
        "rows": sum(pair["rows"] for pair in of_partner),
        "bytes": sum(pair["bytes"] for pair in of_partner),
        "oldest_at": min(pair["oldest_at"] or 0 for pair in of_partner),
    }
