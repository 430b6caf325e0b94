"""``semq msg cancel|hold|release|resend|inquire``: acts of a person, each noted in the ledger with its reason."""

from typing import Annotated, Any

import typer

from semq.cli.messages.message import Id, group
from semq.cli.messages.presentation import name_of
from semq.cli.session import Session, on_node

Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the ledger.")]


@group.command()
@on_node
async def cancel(session: Session, id: Id, why: Why = "") -> None:
    """Keep a message from being delivered, if it still can be; the outcome tells who was first. A document that SQL
    handed over and that waits (sql-NUMBER) is withdrawn.
    """
    result: Any = await session.ask("msg.cancel", repeat=False, id=id, why=why)
    done = "is withdrawn; it was never accepted" if result.get("withdrawn") else "is being cancelled"
    session.out.say(result, f"{name_of(result)}  {done}")


@group.command()
@on_node
async def hold(session: Session, id: Id, why: Why = "") -> None:
    """Keep a message that has not been sent from being sent."""
    await act(session, "msg.hold", id, why, "is held")


@group.command()
@on_node
async def release(session: Session, id: Id, why: Why = "") -> None:
    """Let a held message go."""
    await act(session, "msg.release", id, why, "is released")


@group.command()
@on_node
async def resend(session: Session, id: Id, why: Why = "") -> None:
    """Send a message once more, the same bytes under the same locator; the receiver drops what it has."""
    await act(session, "msg.resend", id, why, "is sent again")


@group.command()
@on_node
async def inquire(session: Session, id: Id) -> None:
    """Ask about a message now instead of when its turn comes."""
    result: Any = await session.ask("msg.inquire", repeat=False, id=id)
    session.out.say(result, f"{name_of(result)}  is asked about")


async def act(session: Session, operation: str, name: str, why: str, done: str) -> None:
    """Act on the message that is named, and say so."""
    result: Any = await session.ask(operation, repeat=False, id=name, why=why)
    session.out.say(result, f"{name_of(result)}  {done}")
