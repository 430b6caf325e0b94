"""``semq token create|list|revoke``: bearer tokens for the HTTP API of a node."""

from typing import Annotated, Any

import typer

from semq.cli.output.values import local_time
from semq.cli.session import Session, on_node

group = typer.Typer()
SCOPES = "submit, receive, events, viewer, operator, admin or payload"


@group.command()
@on_node
async def create(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Purpose of the token.")],
    scope: Annotated[list[str], typer.Option(metavar="SCOPE", help=f"Right of the token: {SCOPES}. May be repeated.")],
    days: Annotated[float | None, typer.Option(metavar="DAYS", help="Lifetime in days; default: unlimited.")] = None,
    inbox: Annotated[str | None, typer.Option(metavar="USER", help="The only inbox that the token may open.")] = None,
) -> None:
    """Create a token and print its text, which cannot be shown again."""
    created = await session.ask_once("token.create", name=name, scopes=scope, days=days, inbox=inbox)
    session.out.result(created, created["token"])
    if not session.out.as_json:
        scopes = ", ".join(created["scopes"])
        session.out.notice(f"{created['id']}: {scopes}. It cannot be shown again: store it safely.")


@group.command("list")
@on_node
async def list_(session: Session) -> None:
    """List all tokens, without their texts."""
    rows = await session.ask("token.list")
    session.out.rows(rows, "id, name, scopes, made, by, state", map(_cells, rows))


@group.command()
@on_node
async def revoke(
    session: Session, id_: Annotated[str, typer.Argument(metavar="ID", help="Id of the token in the list.")]
) -> None:
    """Revoke a token permanently. It is refused within a second."""
    answer = await session.ask("token.revoke", id=id_)
    session.out.result(answer, f"{answer['id']} {answer['name']}: revoked")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    scopes, made_at = " ".join(row["scopes"]), local_time(row["made_at"])
    return row["id"], row["name"], scopes, made_at, row["made_by"], _state(row)


def _state(row: dict[str, object]) -> str:
    if row["revoked_at"]:
        return f"revoked {local_time(row['revoked_at'])}"
    return f"until {local_time(row['expires_at'])}" if row["expires_at"] else "valid"
