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
    created = await session.ask("token.create", repeat=False, name=name, scopes=scope, days=days, inbox=inbox)
    if session.out.as_json:
        session.out.data(created)
    else:
        session.out.line(created["token"])
        session.out.notice(
            f"{created['id']}: {', '.join(created['scopes'])}. It cannot be shown again: store it safely."
        )


@group.command("list")
@on_node
async def list_(session: Session) -> None:
    """List all tokens, without their texts."""
    rows = await session.ask("token.list")
    if session.out.as_json:
        session.out.data(rows)
        return
    columns = (("id", "<"), ("name", "<"), ("scopes", "<"), ("made", "<"), ("by", "<"), ("state", "<"))
    session.out.table(
        columns,
        (
            (row["id"], row["name"], " ".join(row["scopes"]), local_time(row["made_at"]), row["made_by"], _state(row))
            for row in rows
        ),
    )


@group.command()
@on_node
async def revoke(
    session: Session, id_: Annotated[str, typer.Argument(metavar="ID", help="Id of the token in the list.")]
) -> None:
    """Revoke a token permanently. It is refused within a second."""
    answer = await session.ask("token.revoke", id=id_)
    if session.out.as_json:
        session.out.data(answer)
    else:
        session.out.line(f"{answer['id']} {answer['name']}: revoked")


def _state(row: dict[str, Any]) -> str:
    if row["revoked_at"]:
        return f"revoked {local_time(row['revoked_at'])}"
    return f"until {local_time(row['expires_at'])}" if row["expires_at"] else "valid"
