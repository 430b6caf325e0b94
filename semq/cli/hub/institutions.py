"""``semq hub``: the authority of a hub, the enrolment of institutions, and its stores."""

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
group.add_typer(nodes, name="nodes", help="Institutions: tokens for enrolment, stores.", no_args_is_help=True)
group.add_typer(stores, name="stores", help="The hub's stores: list, add, move homes, retire.", no_args_is_help=True)
Store = Annotated[str, typer.Argument(metavar="STORE", help="The two numbers of the store, for instance 1.2.")]
Institution = Annotated[str, typer.Argument(metavar="NODE", help="The institution's number.")]


@group.command("init-ca")
def init_ca(
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="The hub's TOML file.")],
    json: JsonOption = False,
) -> None:
    """Create the hub's authority and its own certificate if they do not exist (its first start does the same)."""
    from platform_node.registry import prepare_authority
    from semq.clock import SystemClock
    from semq.service.credentials.identity import ring_of

    settings = read_config(config)
    if settings.node.kind != "platform":
        raise NotAHub(config=str(config))
    authority = prepare_authority(settings, SystemClock())
    ring = ring_of(settings)
    facts = {"fingerprint": authority.fingerprint if authority else None, "folder": str(ring.folder)}
    out = Output(as_json=json)
    out.data(facts) if json else out.facts(facts)


@nodes.command()
@on_node
async def token(
    session: Session,
    institution: Institution,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="HOST", help="A host name of the node, for its applications to check."),
    ] = None,
    hours: Annotated[float | None, typer.Option("--hours", min=0.01, help="Validity of the token in hours.")] = None,
) -> None:
    """Make a single-use token for the enrolment of one institution's node; it is shown only now."""
    answer = await session.ask("nodes.token", repeat=False, node=institution, names=name, hours=hours)
    if session.out.as_json:
        session.out.data(answer)
    else:
        session.out.facts(answer)
        session.out.notice("Give token and fingerprint to the operator of the node by a confidential channel.")


@nodes.command()
@on_node
async def rebind(session: Session, institution: Institution) -> None:
    """Accept a new store of a node, after its database was replaced on purpose."""
    answer = await session.ask("nodes.rebind", repeat=False, node=institution)
    session.out.result(answer, f"{answer['node']}  may log in with another store")


@group.command("instances")
@on_node
async def list_instances(session: Session) -> None:
    """List the instances of a hub and the store that each serves; a hub of one process has no list."""
    rows = await session.ask("hub.instances")
    table = [
        (row["store"], "running" if row["alive"] else "ended", row["host"], row["endpoint"], row["started"])
        for row in rows
    ]
    if session.out.as_json:
        session.out.data(rows)
    else:
        heads = (("store", "<"), ("state", "<"), ("host", "<"), ("endpoint", "<"), ("started", "<"))
        session.out.table(heads, table)


@group.command("health")
@on_node
async def show_health(session: Session) -> None:
    """Check all instances of a hub; the exit status is 0, or 69 if a store cannot be asked."""
    rows = await session.ask("hub.health")
    if session.out.as_json:
        session.out.data(rows)
        return
    heads = (("store", "<"), ("host", "<"), ("check", "<"), ("verdict", "<"), ("detail", "<"))
    session.out.table(
        heads,
        (
            (row["store"], row["host"], check["check"], check["verdict"], check["detail"])
            for row in rows
            for check in row["checks"]
        ),
    )


@stores.command("list")
@on_node
async def list_stores(session: Session) -> None:
    """List the hub's stores with their homes, the retired ones, and unknown ones that nodes have asked for."""
    rows = await session.ask("stores.list")
    if session.out.as_json:
        session.out.data(rows)
        return
    if any("weight" in row for row in rows):
        heads = (("store", "<"), ("state", "<"), ("weight", ">"), ("homes", ">"), ("what", "<"))
        table = [(row["store"], row["state"], row.get("weight"), row.get("homes"), _what(row)) for row in rows]
        session.out.table(heads, table)
    else:
        short = (("store", "<"), ("state", "<"), ("what", "<"))
        session.out.table(short, [(row["store"], row["state"], _what(row)) for row in rows])


def _what(row: dict[str, Any]) -> str:
    if row["state"] == "in use":
        leaving = f", {row['leaving']} of them for institutions with another home" if row.get("leaving") else ""
        return counted(row["held"], "copy", "copies") + leaving
    if row["state"] == "retired":
        return f"by {row['by']}: {row['why']}"
    return f"asked for {counted(row['asked'], 'time')}" if "asked" in row else ""


@stores.command()
@on_node
async def add(
    session: Session,
    store: Store,
    weight: Annotated[
        float, typer.Option("--weight", metavar="W", min=0, help="Share of homes; 0: the store gets no more homes.")
    ] = 1.0,
) -> None:
    """Add a store, or change its share of homes. No home moves before `balance`, or `move`."""
    answer = await session.ask("stores.add", repeat=True, store=store, weight=weight)
    session.out.result(answer, f"{answer['store']}  has weight {answer['weight']:g}")


@stores.command()
@on_node
async def move(
    session: Session, store: Store, institutions: Annotated[list[str], typer.Argument(metavar="NODE...")]
) -> None:
    """Make a store the home of institutions. Documents that wait elsewhere are delivered from there (`list` counts
    them).
    """
    _say_moved(session, await session.ask("stores.move", repeat=True, store=store, nodes=institutions))


@stores.command()
@on_node
async def balance(
    session: Session,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the homes that would move.")] = False,
) -> None:
    """Move homes until each store has its share by weight: a new store gets its share, one with weight 0 loses all."""
    _say_moved(session, await session.ask("stores.balance", repeat=True, dry_run=dry_run))


def _say_moved(session: Session, answer: dict[str, Any]) -> None:
    lines = [f"{row['from'] or 'none'} → {row['to']}  {counted(row['homes'], 'home')}" for row in answer["moves"]]
    session.out.result(answer, *lines or ["nothing to move"])


@stores.command()
@on_node
async def retire(
    session: Session,
    store: Store,
    why: Annotated[
        str, typer.Option("--why", metavar="TEXT", help="Reason why it is permanently lost; stored with it.")
    ],
) -> None:
    """Declare a store of the hub permanently lost. Never start it again.

    Senders that have the payload send the documents of that store again. Senders without it (@Ack2=0) ask the receiver;
    a document that has not arrived ends LOST. Receivers stop waiting for acknowledgements from that store.
    """
    answer = await session.ask("stores.retire", repeat=True, store=store, why=why)
    was = " (it was before)" if answer["was_retired"] else ""
    session.out.result(
        answer, f"{answer['store']}  is retired{was}: nodes are informed at their next inquiry, within an hour"
    )
