"""``semq hub ca show|roll|leave``: the change of the hub's authority, in three phases."""

from typing import Annotated, Any

import typer

from semq.cli.hub.institutions import group
from semq.cli.output.values import node_name
from semq.cli.session import Session, on_node

authority = typer.Typer()
group.add_typer(authority, name="ca", help="The hub's authority: show it, change it.", no_args_is_help=True)
Nodes = Annotated[list[str], typer.Argument(metavar="NODE...", help="Numbers of institutions.")]
# Phase of the change | its description
PHASES = {
    "none": "The authority has not been changed.",
    "believe": "Phase 1 of 3: the nodes are asked to trust the new authority, too.",
    "renew": "Phase 2 of 3: the nodes get certificates of the new authority.",
    "withdraw": "Phase 3 of 3: the hub trusts only the new authority; the nodes are asked to do the same.",
    "done": "The change is finished; the former authority is withdrawn.",
}


@authority.command()
@on_node
async def show(session: Session) -> None:
    """Show the authority and the progress of its change, with the state of each institution."""
    _print(session, await session.ask("ca.show"))


@authority.command()
@on_node
async def roll(
    session: Session,
    leave_behind: Annotated[
        list[str] | None,
        typer.Option("--leave-behind", metavar="NODE", help="Do not wait for this institution. May be repeated."),
    ] = None,
) -> None:
    """Change the hub's authority during operation, or continue a change in progress.

    All nodes first trust both authorities, then get new certificates over their links, then stop trusting the former
    authority. The change waits for offline nodes, except for institutions left behind: these keep their documents, but
    must enrol again.
    """
    _print(session, await session.ask("ca.roll", leave_behind=leave_behind))


@authority.command()
@on_node
async def leave(session: Session, nodes: Nodes) -> None:
    """Leave institutions behind in the change in progress: it no longer waits for them, and they must enrol again."""
    _print(session, await session.ask("ca.leave", nodes=nodes))


def _print(session: Session, answer: dict[str, Any]) -> None:
    out = session.out
    if out.as_json:
        out.data(answer)
        return
    out.facts({name: answer.get(name) for name in ("authority", "former", "new", "started_at") if answer.get(name)})
    out.notice(PHASES.get(str(answer["phase"]), str(answer["phase"])))
    rows = [
        (node_name(row["node"]), row["state"], _yes(row["online"]), _yes(row["left_behind"]), row["fault"])
        for row in answer["nodes"]
    ]
    if rows:
        out.table("institution, state, online, left behind, fault", rows)
    if answer["waiting_for"]:
        waiting = ", ".join(map(node_name, answer["waiting_for"]))
        out.notice(f"Waiting for {waiting}; `semq hub ca leave NODE` leaves an institution behind.")
    if answer["waiting_for_stores"]:
        out.notice(f"Waiting for the hub's instances with the stores {', '.join(answer['waiting_for_stores'])}.")


def _yes(value: object) -> str:
    return "yes" if value else ""
