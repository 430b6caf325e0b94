"""``semq node``: what a node is and how it does."""

from typing import Annotated

import typer

from semq.cli.desk import Desk, on_node
from semq.cli.status import print_counters, print_status
from semq.cli.values import node_name

group = typer.Typer()


@group.command()
@on_node
async def status(
    desk: Desk,
    counters: Annotated[bool, typer.Option("--counters", help="All figures instead, since the node began.")] = False,
) -> None:
    """Who the node is, since when, how it works, its link, its partners."""
    told = await desk.ask("node.status")
    if desk.out.as_json:
        desk.out.data(told)
    elif counters:
        print_counters(desk.out, told)
    else:
        print_status(desk.out, told)


@group.command()
@on_node
async def health(desk: Desk) -> None:
    """Whether the node works, and whether anything needs a person soon; exit status 1 if something fails now."""
    told = await desk.ask("node.health")
    if desk.out.as_json:
        desk.out.data(told)
    else:
        columns = (("check", "<"), ("verdict", "<"), ("detail", "<"))
        desk.out.table(columns, ((one["check"], one["verdict"], one["detail"]) for one in told["checks"]))
    if told["verdict"] == "failing":
        raise typer.Exit(1)


@group.command()
@on_node
async def metrics(
    desk: Desk,
    detailed: Annotated[bool, typer.Option("--detailed", help="Also the figures of each partner.")] = False,
    format: Annotated[str, typer.Option(help="`text` (Prometheus 0.0.4) or `openmetrics` (1.0.0).")] = "text",
) -> None:
    """Print the node's figures as Prometheus reads them, for a textfile collector."""
    told = await desk.ask("node.metrics", detailed=detailed, format=format)
    desk.out.data(told) if desk.out.as_json else desk.out.raw(told["text"].encode())


@group.command()
@on_node
async def incarnation(desk: Desk) -> None:
    """Which life of which store this is: a store that was restored from a backup shows another boot or uuid."""
    told = await desk.ask("node.status")
    facts = {name: told.get(name) for name in ("node", "store_uuid", "boot", "incarnation", "started_at")}
    if desk.out.as_json:
        desk.out.data(facts)
    else:
        desk.out.facts(facts)


@group.command()
@on_node
async def drain(desk: Desk) -> None:
    """Accept no more documents and wait until nothing is under way; then the node can be stopped."""
    told = await desk.ask("node.drain", repeat=False, timeout_s=desk.timeout_s)
    desk.out.say(
        told, "drained: nothing is under way" if told.get("drained") else "not drained yet: something is under way"
    )
    if not told.get("drained"):
        raise typer.Exit(1)


@group.command()
@on_node
async def reload(
    desk: Desk,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
) -> None:
    """Read the configuration file again: users, virtual hosts, institutions, limits; the rest waits for a start."""
    told = await desk.ask("node.reload", dry_run=dry_run, repeat=False)
    if desk.out.as_json:
        desk.out.data(told)
        return
    columns = (("key", "<"), ("what becomes of it", "<"))
    becomes = "would change" if dry_run else "changed"
    rows = [(key, becomes) for key in told["changed"]] + [(key, "at the next start") for key in told["restart"]]
    rows += [(f"user {name}", "disconnected") for name in told["ended"]]
    desk.out.table(columns, rows) if rows else desk.out.say(told, "nothing is different")


@group.command("list")
@on_node
async def list_(desk: Desk) -> None:
    """The institutions of a hub: who is online, and what waits for them there."""
    rows = await desk.ask("nodes.list")
    if desk.out.as_json:
        desk.out.data(rows)
    else:
        columns = (("institution", "<"), ("online", "<"), ("stored for it", ">"))
        desk.out.table(
            columns,
            ((node_name(row["node"]), row["online"], row["held"]) for row in rows),
        )
