"""``semq definitions``: the institutions of a hub and their agreements as a file, for version control."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from semq.cli.errors import PairsWouldStop, UnreadableFile
from semq.cli.output.values import counted
from semq.cli.session import Session, on_node

group = typer.Typer()
SHOWN_MAX = 20
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="TOML.")]


@group.command()
@on_node
async def export(session: Session) -> None:
    """Print the definitions in force, as they were imported."""
    answer = await session.ask("definitions.export")
    session.out.data(answer) if session.out.as_json else session.out.raw(answer["document"].encode())


@group.command()
@on_node
async def diff(session: Session, file: FileArgument) -> None:
    """Show what importing a file would change; exit status 1 if anything."""
    answer = await session.ask("definitions.diff", document=_read(file))
    found = answer["changes"] or ["nothing would change"]
    session.out.result(answer, *found, *_stops(answer), f"compared with version {answer['version']}, which is in force")
    if answer["changes"]:
        raise typer.Exit(1)


@group.command("import")
@on_node
async def import_(
    session: Session,
    file: FileArgument,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Reason, kept with the definitions.")] = "",
    expect: Annotated[
        int | None, typer.Option("--expect", metavar="N", help="Import only if version N is in force.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Import even if pairs of institutions could no longer send.")
    ] = False,
) -> None:
    """Put a file in force, at the hub and at all online nodes; other nodes receive it when they connect."""
    compared = await session.ask("definitions.diff", document=_read(file))
    for line in _stops(compared):
        session.out.notice(line)
    if compared["stops"] and not yes:
        _agree(session, compared)
    expect = compared["version"] if expect is None else expect
    answer = await session.ask("definitions.import", repeat=False, document=_read(file), why=why, expect=expect)
    session.out.result(answer, *answer["changes"], f"version {answer['version']} is in force")


def _agree(session: Session, compared: dict[str, Any]) -> None:
    """Ask the user whether pairs that may send now shall be stopped. Raises PairsWouldStop without a terminal."""
    if session.out.as_json or not sys.stdin.isatty():
        raise PairsWouldStop(pairs=len(compared["stops"]), first=compared["stops"][0])
    typer.confirm("Import all the same?", abort=True, err=True)


def _stops(compared: dict[str, Any]) -> list[str]:
    pairs = compared["stops"]
    if not pairs:
        return []
    more = "" if compared["stops_whole"] else "at least "
    lines = [f"! {more}{counted(len(pairs), 'pair')} that may send now would not be allowed to any more:"]
    lines += [f"!   {pair}" for pair in pairs[:SHOWN_MAX]]
    return lines + ([f"!   and {len(pairs) - SHOWN_MAX} more"] if len(pairs) > SHOWN_MAX else [])


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(file=str(file), fault=str(error)) from error
