"""``semq hub``: what the operator of a hub does about its authority and the institutions that enrol."""

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
group.add_typer(stores, name="stores", help="The hub's stores: which there are, which are lost.", no_args_is_help=True)
Institution = Annotated[str, typer.Argument(metavar="NODE", help="The institution's number.")]


@group.command("init-ca")
def init_ca(
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="The hub's TOML file.")],
    json: JsonOption = False,
) -> None:
    """Make the hub's authority and its own certificate, if they are not there (its first start does the same)."""
    from platform_node.registry import prepare_authority
    from semq.clock import SystemClock
    from semq.service.identity import ring_of

    settings = read_config(config)
    if settings.node.kind != "platform":
        raise NotAHub(config=str(config))
    authority = prepare_authority(settings, SystemClock())
    ring = ring_of(settings)
    told = {"fingerprint": authority.fingerprint if authority else None, "folder": str(ring.folder)}
    out = Output(as_json=json)
    out.data(told) if json else out.facts(told)


@nodes.command()
@on_node
async def token(
    session: Session,
    institution: Institution,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="HOST", help="A host name of the node, for its applications to check."),
    ] = None,
    hours: Annotated[float | None, typer.Option("--hours", min=0.01, help="How long the token is good.")] = None,
) -> None:
    """A token with which one institution's node may enrol, once; it is shown here and nowhere else."""
    told = await session.ask("nodes.token", repeat=False, node=institution, names=name, hours=hours)
    if session.out.as_json:
        session.out.data(told)
    else:
        session.out.facts(told)
        session.out.talk(
            "Tell the operator of the node token and fingerprint over a way that only the two of you have."
        )


@nodes.command()
@on_node
async def rebind(session: Session, institution: Institution) -> None:
    """Let a node come with another store than before: after its database was made anew on purpose."""
    told = await session.ask("nodes.rebind", repeat=False, node=institution)
    session.out.say(told, f"{told['node']}  may come with another store")


@stores.command("list")
@on_node
async def list_stores(session: Session) -> None:
    """The store the hub works with, those that are retired, and those that nodes ask for in vain since its start."""
    rows = await session.ask("stores.list")
    table = [(row["store"], row["state"], _what(row)) for row in rows]
    if session.out.as_json:
        session.out.data(rows)
    else:
        session.out.table((("store", "<"), ("state", "<"), ("what", "<")), table)


def _what(row: dict[str, Any]) -> str:
    if row["state"] == "in use":
        return counted(row["held"], "copy", "copies")
    return (
        f"by {row['by']}: {row['why']}" if row["state"] == "retired" else f"asked for {counted(row['asked'], 'time')}"
    )


@stores.command()
@on_node
async def retire(
    session: Session,
    store: Annotated[str, typer.Argument(metavar="STORE", help="Its two numbers, as in 1.2.")],
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Why it will not come back; it is kept.")],
) -> None:
    """Say that a store of the hub is lost for good, and never start it again.

    Senders with the payload send again what it held; those without (@Ack2=0) ask the receiver, and what had not
    arrived ends LOST. Receivers need not wait any longer for that store to note what they have.
    """
    told = await session.ask("stores.retire", repeat=True, store=store, why=why)
    was = " (it was before)" if told["was_retired"] else ""
    session.out.say(told, f"{told['store']}  is retired{was}: nodes hear of it when they ask next, within an hour")
