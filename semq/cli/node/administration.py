"""``semq node``: state, health, figures and administration of a node."""

from typing import Annotated

import typer

from semq.cli.node.status import print_counters, print_status
from semq.cli.output.values import node_name
from semq.cli.session import Session, on_node

group = typer.Typer()


@group.command()
@on_node
async def status(
    session: Session,
    counters: Annotated[
        bool, typer.Option("--counters", help="Show all counters and figures since the start.")
    ] = False,
) -> None:
    """Show identity, state, link, traffic and partners of a node."""
    answer = await session.ask("node.status")
    if session.out.as_json:
        session.out.data(answer)
    elif counters:
        print_counters(session.out, answer)
    else:
        print_status(session.out, answer)


@group.command()
@on_node
async def health(session: Session) -> None:
    """Check whether the node works and whether it needs attention soon; exit status 1 if something fails."""
    answer = await session.ask("node.health")
    if session.out.as_json:
        session.out.data(answer)
    else:
        columns = (("check", "<"), ("verdict", "<"), ("detail", "<"))
        session.out.table(columns, ((one["check"], one["verdict"], one["detail"]) for one in answer["checks"]))
    if answer["verdict"] == "failing":
        raise typer.Exit(1)


@group.command()
@on_node
async def metrics(
    session: Session,
    detailed: Annotated[bool, typer.Option("--detailed", help="Also the figures of each partner.")] = False,
    format: Annotated[str, typer.Option(help="`text` (Prometheus 0.0.4) or `openmetrics` (1.0.0).")] = "text",
) -> None:
    """Print the node's figures as Prometheus reads them, for a textfile collector."""
    answer = await session.ask("node.metrics", detailed=detailed, format=format)
    session.out.data(answer) if session.out.as_json else session.out.raw(answer["text"].encode())


@group.command()
@on_node
async def incarnation(session: Session) -> None:
    """Show the store and the number of its openings; a store restored from a backup has another boot or uuid."""
    answer = await session.ask("node.status")
    facts = {name: answer.get(name) for name in ("node", "store_uuid", "boot", "incarnation", "started_at")}
    if session.out.as_json:
        session.out.data(facts)
    else:
        session.out.facts(facts)


@group.command()
@on_node
async def drain(session: Session) -> None:
    """Stop accepting documents and wait until none is in progress; then the node can be stopped."""
    answer = await session.ask("node.drain", repeat=False, timeout_s=session.timeout_s)
    session.out.result(
        answer,
        "drained: all messages are settled"
        if answer.get("drained")
        else "not drained yet: some messages are not settled",
    )
    if not answer.get("drained"):
        raise typer.Exit(1)


@group.command()
@on_node
async def reload(
    session: Session,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; only show the differences.")] = False,
) -> None:
    """Read the configuration file again: users, virtual hosts, institutions, limits; other changes need a restart."""
    answer = await session.ask("node.reload", dry_run=dry_run, repeat=False)
    if session.out.as_json:
        session.out.data(answer)
        return
    columns = (("key", "<"), ("what becomes of it", "<"))
    becomes = "would change" if dry_run else "changed"
    rows = [(key, becomes) for key in answer["changed"]] + [(key, "at the next start") for key in answer["restart"]]
    rows += [(f"user {name}", "disconnected") for name in answer["ended"]]
    session.out.table(columns, rows) if rows else session.out.result(answer, "nothing is different")


@group.command("list")
@on_node
async def list_(session: Session) -> None:
    """List the institutions of a hub: who is online, and how much is stored for them."""
    rows = await session.ask("nodes.list")
    if session.out.as_json:
        session.out.data(rows)
    else:
        columns = (("institution", "<"), ("online", "<"), ("stored for it", ">"))
        session.out.table(
            columns,
            ((node_name(row["node"]), row["online"], row["held"]) for row in rows),
        )
