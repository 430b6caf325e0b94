"""``semq hub init-ca|instances|health``, ``semq hub nodes``, ``semq hub stores``.

``authority`` adds ``semq hub ca`` to the same group.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from semq.cli.errors import NotAHub
from semq.cli.output.printer import Output
from semq.cli.output.values import counted
from semq.cli.session import JsonOption, Session, on_node, read_config

group = typer.Typer()
nodes = typer.Typer()
stores = typer.Typer()
group.add_typer(nodes, name="nodes", help="Institutions: tokens for enrolment, replaced stores.", no_args_is_help=True)
group.add_typer(stores, name="stores", help="The hub's stores: list, add, move homes, retire.", no_args_is_help=True)
Store = Annotated[str, typer.Argument(metavar="STORE", help="Name of the store: its two numbers, for instance 1.2.")]
Institution = Annotated[str, typer.Argument(metavar="NODE", help="The institution's number.")]


@group.command("init-ca")
def init_ca(
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="The hub's TOML file.")],
    json: JsonOption = False,
) -> None:
    """Create the hub's authority and the hub's own certificate unless they exist. The first start of the hub does the
    same.
    """
    from platform_node.registry import prepare_authority
    from semq.clock import SystemClock
    from semq.service.credentials.identity import ring_of

    settings = read_config(config)
    if settings.node.kind != "platform":
        raise NotAHub(config=str(config))
    authority = prepare_authority(settings, SystemClock())
    ring = ring_of(settings)
    facts = {"fingerprint": authority.fingerprint if authority else None, "folder": str(ring.folder)}
    Output(as_json=json).facts(facts)


@nodes.command()
@on_node
async def token(
    session: Session,
    institution: Institution,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="HOST", help="Host name for the node's certificate. May be repeated."),
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option("--hours", min=0.01, help="Validity of the token in hours; default: tls.token_hours."),
    ] = None,
) -> None:
    """Create a single-use token for the enrolment of one institution's node. It cannot be shown again."""
    answer = await session.ask_once("nodes.token", node=institution, names=name, hours=hours)
    session.out.facts(answer)
    if not session.out.as_json:
        session.out.notice("Send token and fingerprint to the operator of the node by a confidential channel.")


@nodes.command()
@on_node
async def rebind(session: Session, institution: Institution) -> None:
    """Accept a new store of an institution's node, after its database was replaced on purpose."""
    answer = await session.ask_once("nodes.rebind", node=institution)
    session.out.result(answer, f"{answer['node']}  may log in with a new store")


@group.command("instances")
@on_node
async def list_instances(session: Session) -> None:
    """List the instances of a hub, with the store that each serves. The list of a hub of one process is empty."""
    rows = await session.ask("hub.instances")
    table = [
        (row["store"], "running" if row["alive"] else "ended", row["host"], row["endpoint"], row["started"])
        for row in rows
    ]
    if rows or session.out.as_json:
        session.out.rows(rows, "store, state, host, endpoint, started", table)
    else:
        session.out.notice("the hub is one process, without [cluster]: `semq node status` shows its state")


@group.command("health")
@on_node
async def show_health(session: Session) -> None:
    """Show the health of all instances of a hub. Exit status 69: a store does not answer."""
    rows = await session.ask("hub.health")
    cells = (
        (row["store"], row["host"], check["check"], check["verdict"], check["detail"])
        for row in rows
        for check in row["checks"]
    )
    session.out.rows(rows, "store, host, check, verdict, detail", cells)


@stores.command("list")
@on_node
async def list_stores(session: Session) -> None:
    """List the hub's stores: in use (with homes and copies), elsewhere (its instance does not answer), new (never
    opened), retired, or not here (unknown to the hub, but nodes inquire about it).
    """
    rows = await session.ask("stores.list")
    if any("weight" in row for row in rows):
        table = [(row["store"], row["state"], row.get("weight"), row.get("homes"), _store_details(row)) for row in rows]
        session.out.rows(rows, "store, state, >weight, >homes, details", table)
    else:
        session.out.rows(
            rows, "store, state, details", [(row["store"], row["state"], _store_details(row)) for row in rows]
        )


def _store_details(row: dict[str, object]) -> str:
    if row["state"] == "in use":
        leaving = f", {row['leaving']} for institutions with another home" if row.get("leaving") else ""
        return counted(row["held"], "copy", "copies") + leaving
    if row["state"] == "retired":
        return f"by {row['by']}: {row['why']}"
    return f"{counted(row['asked'], 'inquiry', 'inquiries')}" if "asked" in row else ""


@stores.command()
@on_node
async def add(
    session: Session,
    store: Store,
    weight: Annotated[
        float,
        typer.Option("--weight", metavar="W", min=0, help="Weight in the distribution of homes; 0: no more homes."),
    ] = 1.0,
) -> None:
    """Add a store, or change its weight. Homes move only by `balance` or `move`."""
    answer = await session.ask("stores.add", store=store, weight=weight)
    session.out.result(answer, f"{answer['store']}  has weight {answer['weight']:g}")


@stores.command()
@on_node
async def move(
    session: Session,
    store: Store,
    institutions: Annotated[list[str], typer.Argument(metavar="NODE...", help="Numbers of institutions.")],
) -> None:
    """Make a store the home of institutions. Their former home still delivers the copies that it has (see `list`)."""
    _print_moves(session, await session.ask("stores.move", store=store, nodes=institutions))


@stores.command()
@on_node
async def balance(
    session: Session,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the homes that would move.")] = False,
) -> None:
    """Move homes until each store has its share by weight; a store with weight 0 loses all homes."""
    _print_moves(session, await session.ask("stores.balance", dry_run=dry_run))


def _print_moves(session: Session, answer: dict[str, Any]) -> None:
    lines = [f"{row['from'] or 'none'} → {row['to']}  {counted(row['homes'], 'home')}" for row in answer["moves"]]
    session.out.result(answer, *lines or ["nothing to move"])


@stores.command()
@on_node
async def retire(
    session: Session,
    store: Store,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Reason of the loss, for the list of stores.")],
) -> None:
    """Declare a store of the hub permanently lost. Never start it again.

    Senders that have the payload send the documents of that store again. Senders without it (@Ack2=0) ask the receiver;
    a document that has not arrived ends LOST. Receivers stop waiting for acknowledgements from that store.
    """
    answer = await session.ask("stores.retire", store=store, why=why)
    repeated = " (it was retired before)" if answer["was_retired"] else ""
    session.out.result(
        answer, f"{answer['store']}  is retired{repeated}: nodes are informed at their next inquiry, within an hour"
    )
