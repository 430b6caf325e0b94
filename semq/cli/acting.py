"""``semq msg cancel|hold|release|resend|inquire``: acts of a person, each noted in the ledger with its reason."""

from typing import Annotated, Any

import typer

from semq.cli.desk import Desk, on_node
from semq.cli.msg import Id, group
from semq.cli.shown import name_of

Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the ledger.")]


@group.command()
@on_node
async def cancel(desk: Desk, id: Id, why: Why = "") -> None:
    """Keep a message from being delivered, if it still can be; the outcome tells who was first. A document that SQL
    handed over and that waits (sql-NUMBER) is withdrawn.
    """
    result: Any = await desk.ask("msg.cancel", repeat=False, id=id, why=why)
    done = "is withdrawn; it was never accepted" if result.get("withdrawn") else "is being cancelled"
    desk.out.say(result, f"{name_of(result)}  {done}")


@group.command()
@on_node
async def hold(desk: Desk, id: Id, why: Why = "") -> None:
    """Keep a message that has not been sent from being sent."""
    await act(desk, "msg.hold", id, why, "is held")


@group.command()
@on_node
async def release(desk: Desk, id: Id, why: Why = "") -> None:
    """Let a held message go."""
    await act(desk, "msg.release", id, why, "is released")


@group.command()
@on_node
async def resend(desk: Desk, id: Id, why: Why = "") -> None:
    """Send a message once more, the same bytes under the same locator; the receiver drops what it has."""
    await act(desk, "msg.resend", id, why, "is sent again")


@group.command()
@on_node
async def inquire(desk: Desk, id: Id) -> None:
    """Ask about a message now instead of when its turn comes."""
    result: Any = await desk.ask("msg.inquire", repeat=False, id=id)
    desk.out.say(result, f"{name_of(result)}  is asked about")


async def act(desk: Desk, operation: str, name: str, why: str, done: str) -> None:
    """Act on the message that is named, and say so."""
    result: Any = await desk.ask(operation, repeat=False, id=name, why=why)
    desk.out.say(result, f"{name_of(result)}  {done}")
