"""``semq server run|list|reload|restart``: the local nodes of many institutions in one process."""

from typing import Annotated

import typer

from semq.cli.session import FileOption, Session, on_node
from semq.sizes import size

group = typer.Typer()
COLUMNS = "institution, state, link, >waiting, >connections, >memory, database, fault"


@group.command()
def run(config: FileOption) -> None:
    """Run the nodes of all institutions in a file until SIGTERM or Ctrl-C. They serve after the line `ready …`."""
    from local_node.virtual.__main__ import main

    raise typer.Exit(main(["--config", str(config)]))


@group.command("list")
@on_node
async def list_(session: Session) -> None:
    """List the institutions of a server: state, link, waiting documents, connections, memory, database, fault."""
    rows = await session.ask("server.list")
    session.out.rows(rows, COLUMNS, map(_row, rows))


def _row(row: dict[str, object]) -> tuple[object, ...]:
    memory = f"{size(row['memory_bytes'])} of {size(row['memory_max_bytes'])}"
    return (
        row["institution"], row["state"], row["link"], row["waiting"], row["connections"], memory, row["database"],
        row["error"],
    )  # fmt: skip


@group.command()
@on_node
async def reload(session: Session) -> None:
    """Read the file again: start new institutions, stop removed ones, reload the others."""
    answer = await session.ask_once("server.reload")
    if session.out.as_json:
        session.out.data(answer)
        return
    for name in ("added", "removed"):
        session.out.line(f"{name}: {', '.join(answer[name]) or 'none'}")
    for name, changes in answer["changed"].items():
        text = "; ".join(f"{kind}: {_text(value)}" for kind, value in changes.items())
        session.out.line(f"{name}  {text}")
    for name, fault in answer["failing"].items():
        session.out.line(f"{name}  fails: {fault}")


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


@group.command()
@on_node
async def restart(
    session: Session, institution: Annotated[str, typer.Argument(metavar="ID", help="The institution's number.")]
) -> None:
    """Stop the node of one institution and start it with the current file, in the background."""
    answer = await session.ask_once("server.restart", institution=institution)
    session.out.result(answer, f"{answer['institution']}  is being restarted; `semq server list` shows its state")
