"""``semq msg cancel|hold|release|resend|inquire``: acts on messages, recorded in the ledger with user and reason."""

from typing import Annotated, Any

import typer

from semq.cli.messages.message import Id, group
from semq.cli.messages.presentation import name_of
from semq.cli.session import Session, on_node

Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="Reason, for the ledger.")]


@group.command()
@on_node
async def cancel(session: Session, id: Id, why: Why = "") -> None:
    """Cancel a message if it has not arrived yet; its outcome shows whether that worked. A scheduled document,
    or a submission by SQL that waits (sql-NUMBER), is withdrawn.
    """
    result: Any = await session.ask("msg.cancel", repeat=False, id=id, why=why)
    done = "is withdrawn; it was not sent" if result.get("withdrawn") else "is being cancelled"
    session.out.result(result, f"{name_of(result)}  {done}")


@group.command()
@on_node
async def hold(session: Session, id: Id, why: Why = "") -> None:
    """Hold a message that has not been sent yet."""
    await act(session, "msg.hold", id, why, "is held")


@group.command()
@on_node
async def release(session: Session, id: Id, why: Why = "") -> None:
    """Release a held message."""
    await act(session, "msg.release", id, why, "is released")


@group.command()
@on_node
async def resend(session: Session, id: Id, why: Why = "") -> None:
    """Send a message again, with the same bytes and locator; the receiver drops duplicates."""
    await act(session, "msg.resend", id, why, "is sent again")


@group.command()
@on_node
async def inquire(session: Session, id: Id) -> None:
    """Inquire about a message now instead of at its scheduled time."""
    result: Any = await session.ask("msg.inquire", repeat=False, id=id)
    session.out.result(result, f"{name_of(result)}  is asked about")


async def act(session: Session, operation: str, name: str, why: str, done: str) -> None:
    """Act on one message and print what was done."""
    result: Any = await session.ask(operation, repeat=False, id=name, why=why)
    session.out.result(result, f"{name_of(result)}  {done}")
