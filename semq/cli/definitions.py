"""``semq definitions``: the institutions of a hub and their agreements as a file that can be kept under version
control.
"""

from pathlib import Path
from typing import Annotated

import typer

from semq.cli.desk import Desk, on_node
from semq.cli.errors import UnreadableFile

group = typer.Typer()
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="TOML.")]


@group.command()
@on_node
async def export(desk: Desk) -> None:
    """Print the definitions that are in force, as they were imported."""
    told = await desk.ask("definitions.export")
    desk.out.data(told) if desk.out.as_json else desk.out.octets(told["document"].encode())


@group.command()
@on_node
async def diff(desk: Desk, file: FileArgument) -> None:
    """What importing a file would change; exit status 1 if anything."""
    told = await desk.ask("definitions.diff", document=_read(file))
    desk.out.say(told, *(told["changes"] or [f"nothing: version {told['version']} says the same"]))
    if told["changes"]:
        raise typer.Exit(1)


@group.command("import")
@on_node
async def import_(
    desk: Desk,
    file: FileArgument,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, kept with the definitions.")] = "",
    expect: Annotated[
        int | None, typer.Option("--expect", metavar="N", help="Only if version N is still in force.")
    ] = None,
) -> None:
    """Put a file in force, at the hub and at all nodes that are online; the others hear of it when they come."""
    told = await desk.ask("definitions.import", repeat=False, document=_read(file), why=why, expect=expect)
    desk.out.say(told, *told["changes"], f"version {told['version']} is in force")


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(file=str(file), fault=str(error)) from error
