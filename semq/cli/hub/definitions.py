"""``semq definitions export|diff|import``: the institutions of a hub and their agreements as a file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from semq.cli.errors import PairsWouldStop, UnusableFile
from semq.cli.output.values import counted
from semq.cli.session import Session, on_node

group = typer.Typer()
PAIRS_MAX = 20  # largest number of printed pairs
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Definitions in TOML.")]


@group.command()
@on_node
async def export(session: Session) -> None:
    """Print the definitions in force, exactly as they were imported. Before the first import: comments that name the
    institutions of the configuration.
    """
    answer = await session.ask("definitions.export")
    session.out.data(answer) if session.out.as_json else session.out.raw(answer["document"].encode())


@group.command()
@on_node
async def diff(session: Session, file: FileArgument) -> None:
    """Show the changes that the import of a file would make; exit status 1 if there are any."""
    answer = await session.ask("definitions.diff", document=_read(file))
    changes = answer["changes"] or ["nothing would change"]
    session.out.result(
        answer,
        *changes,
        *_pair_lines(answer["stops"], answer["stops_whole"]),
        f"compared with version {answer['version']}, which is in force",
    )
    if answer["changes"]:
        raise typer.Exit(1)


@group.command("import")
@on_node
async def import_(
    session: Session,
    file: FileArgument,
    why: Annotated[
        str, typer.Option("--why", metavar="TEXT", help="Reason, kept with the definitions; default: none.")
    ] = "",
    expect: Annotated[
        int | None, typer.Option("--expect", metavar="N", help="Import only if version N is in force.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Import although some pairs could send fewer types of documents, or none.")
    ] = False,
) -> None:
    """Put definitions in force at the hub and at all online nodes; offline nodes receive them when they connect.

    A file with exactly the text that is in force makes no new version.
    """
    text = _read(file)
    compared = await session.ask("definitions.diff", document=text)
    for line in _pair_lines(compared["stops"], compared["stops_whole"]):
        session.out.notice(line)
    if compared["stops"] and not yes:
        _confirm(session, compared["stops"])
    version = compared["version"]
    expect = version if expect is None else expect
    answer = await session.ask_once("definitions.import", document=text, why=why, expect=expect)
    already = " already, with this text" if answer["version"] == version else ""
    session.out.result(answer, *answer["changes"], f"version {answer['version']} is in force{already}")


def _confirm(session: Session, stops: list[str]) -> None:
    """Ask whether pairs may stop or lose types. Raises PairsWouldStop with --json or without a terminal."""
    if session.out.as_json or not sys.stdin.isatty():
        raise PairsWouldStop(pairs=len(stops), first=stops[0])
    typer.confirm("Import these definitions?", abort=True, err=True)


def _pair_lines(pairs: list[str], is_whole: bool) -> list[str]:
    """Return lines about the pairs of institutions that could no longer send, or no longer send all types."""
    if not pairs:
        return []
    at_least = "" if is_whole else "at least "
    types = ", or not the types in brackets" if any(pair.endswith(")") for pair in pairs) else ""
    lines = [f"! {at_least}{counted(len(pairs), 'pair')} of institutions could no longer send{types}:"]
    lines += [f"!   {pair}" for pair in pairs[:PAIRS_MAX]]
    return lines + ([f"!   and {len(pairs) - PAIRS_MAX} more"] if len(pairs) > PAIRS_MAX else [])


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableFile(file=str(file), fault=str(error)) from error
