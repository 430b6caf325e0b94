"""``semq msg cancel|hold|release|resend|inquire``: acts on one document."""

from typing import Annotated

import typer

from semq.cli.messages.message import Id, group
from semq.cli.messages.presentation import name_of
from semq.cli.session import Session, on_node

Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="Reason, for the ledger.")]


@group.command()
@on_node
async def cancel(session: Session, id: Id, why: Why = "") -> None:
    """Cancel a document that has not arrived yet; its outcome will show whether it was cancelled in time. A scheduled
    document, or a waiting submission by SQL (sql-NUMBER), is withdrawn.
    """
    answer = await session.ask_once("msg.cancel", id=id, why=why)
    effect = "is withdrawn; it was not sent" if answer.get("withdrawn") else "is being cancelled"
    session.out.result(answer, f"{name_of(answer)}  {effect}")


@group.command()
@on_node
async def hold(session: Session, id: Id, why: Why = "") -> None:
    """Hold a document that has not been sent yet."""
    await _act(session, "msg.hold", id, why, "is held")


@group.command()
@on_node
async def release(session: Session, id: Id, why: Why = "") -> None:
    """Release a held document, or send a scheduled document now."""
    await _act(session, "msg.release", id, why, "is released")


@group.command()
@on_node
async def resend(session: Session, id: Id, why: Why = "") -> None:
    """Send a document again, with the same bytes and locator; the receiver drops duplicates."""
    await _act(session, "msg.resend", id, why, "is sent again")


@group.command()
@on_node
async def inquire(session: Session, id: Id) -> None:
    """Send an inquiry about a document now, before its scheduled time."""
    answer = await session.ask_once("msg.inquire", id=id)
    session.out.result(answer, f"{name_of(answer)}  inquiry sent")


async def _act(session: Session, operation: str, name: str, why: str, effect: str) -> None:
    answer = await session.ask_once(operation, id=name, why=why)
    session.out.result(answer, f"{name_of(answer)}  {effect}")
