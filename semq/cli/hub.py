"""``semq hub``: what the operator of a hub does about its authority and the institutions that enrol."""

from pathlib import Path
from typing import Annotated

import typer

from semq.cli.desk import Desk, JsonOption, on_node, read_config
from semq.cli.errors import NotAHub
from semq.cli.output import Output

group = typer.Typer()
nodes = typer.Typer()
group.add_typer(nodes, name="nodes", help="Institutions: tokens for enrolment, stores.", no_args_is_help=True)
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
    desk: Desk,
    institution: Institution,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="HOST", help="A host name of the node, for its applications to check."),
    ] = None,
    hours: Annotated[float | None, typer.Option("--hours", min=0.01, help="How long the token is good.")] = None,
) -> None:
    """A token with which one institution's node may enrol, once; it is shown here and nowhere else."""
    told = await desk.ask("nodes.token", repeat=False, node=institution, names=name, hours=hours)
    if desk.out.as_json:
        desk.out.data(told)
    else:
        desk.out.facts(told)
        desk.out.talk("Tell the operator of the node token and fingerprint over a way that only the two of you have.")


@nodes.command()
@on_node
async def rebind(desk: Desk, institution: Institution) -> None:
    """Let a node come with another store than before: after its database was made anew on purpose."""
    told = await desk.ask("nodes.rebind", repeat=False, node=institution)
    desk.out.say(told, f"{told['node']}  may come with another store")
