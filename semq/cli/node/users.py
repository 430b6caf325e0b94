"""``semq user list|add|roles|password|disable|enable``: persons who may sign in to the pages of a node and act there.

The command line acts as the user with the name of the person who runs it (``semq.cli.session``).
"""

from typing import Annotated, Any

import typer

from semq.cli.output.values import local_time
from semq.cli.session import Session, on_node

group = typer.Typer()
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the person, best that of the operating system.")]
Role = Annotated[list[str], typer.Option(metavar="ROLE", help="viewer, operator, admin or payload. May be repeated.")]


@group.command("list")
@on_node
async def list_(session: Session) -> None:
    """List the persons who may sign in, with their roles."""
    rows = await session.ask("user.list")
    session.out.rows(rows, "name, roles, made, by, state", map(_cells, rows))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    state = f"disabled {local_time(row['disabled_at'])}" if row["disabled_at"] else "enabled"
    return row["name"], " ".join(row["roles"]), local_time(row["made_at"]), row["made_by"], state


@group.command()
@on_node
async def add(session: Session, name: Name, role: Role) -> None:
    """Add a person, and print a password for the first sign-in, which cannot be shown again."""
    await _print_password(session, "user.add", name, roles=role)


@group.command()
@on_node
async def roles(session: Session, name: Name, role: Role) -> None:
    """Give a person these roles instead of the present ones."""
    await _change(session, "user.roles", name, f"{name}: {' '.join(role)}", roles=role)


@group.command()
@on_node
async def password(session: Session, name: Name) -> None:
    """Give a person another password, print it, and end the person's sessions."""
    await _print_password(session, "user.password", name)


@group.command()
@on_node
async def disable(session: Session, name: Name) -> None:
    """Disable a person: sessions end, and the command line refuses what the person asks for."""
    await _change(session, "user.disable", name, f"{name}: disabled")


@group.command()
@on_node
async def enable(session: Session, name: Name) -> None:
    """Enable a disabled person."""
    await _change(session, "user.enable", name, f"{name}: enabled")


async def _change(session: Session, operation: str, name: str, done: str, **arguments: object) -> None:
    session.out.result(await session.ask_once(operation, name=name, **arguments), done)


async def _print_password(session: Session, operation: str, name: str, **arguments: object) -> None:
    answer = await session.ask_once(operation, name=name, **arguments)
    session.out.result(answer, answer["password"])
    if not session.out.as_json:
        given = ", ".join(answer["roles"])
        session.out.notice(f"{name}: {given}. The password cannot be shown again; the page Account changes it.")
