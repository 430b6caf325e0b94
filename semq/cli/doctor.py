"""``semq doctor``: looks at everything that a node stands on, whether it runs or not, and says what to do.

For the first hour on a new machine, and for the first minute of a bad night. It changes nothing.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semq.cli.desk import CONFIG_VARIABLE, JsonOption, read_config
from semq.cli.output import Output

if TYPE_CHECKING:
    from semq.cli.checkup.finding import Finding
    from semq.config import Settings

MARK = {"ok": "ok", "warning": "look", "failing": "FAILS"}


def doctor(
    config: Annotated[
        Path,
        typer.Option("--config", envvar=CONFIG_VARIABLE, metavar="FILE", help="The node's file.", show_envvar=False),
    ],
    json: JsonOption = False,
    timeout: Annotated[float, typer.Option("--timeout", metavar="S", min=0.1, help="Longest wait for a node.")] = 5.0,
) -> None:
    """Look at all that a node stands on (file, disk, database, certificate, way to the hub, health), and say what to
    do; exit status 1 if something fails."""
    settings, out = read_config(config), Output(as_json=json)
    found = asyncio.run(_told(settings, timeout, out))
    worst = max((one.verdict for one in found), key=list(MARK).index)
    if json:
        out.data({"node": settings.node.id, "verdict": worst, "findings": list(map(asdict, found))})
    if worst == "failing":
        raise typer.Exit(1)


async def _told(settings: "Settings", patience_s: float, out: Output) -> list["Finding"]:
    """All findings, each printed when it is there."""
    found = []
    async for one in _findings(settings, patience_s):
        found.append(one)
        if not out.as_json:
            out.line(f"{MARK[one.verdict]:<6} {one.check:<15} {one.detail}".rstrip())
            if one.advice:
                out.line(f"{'':<22} → {one.advice}")
    return found


async def _findings(settings: "Settings", patience_s: float) -> AsyncIterator["Finding"]:
    from semq.cli.checkup import database, ground, identity, running, way

    for part in (ground, database, identity):
        for one in part.look(settings):
            yield one
    async for one in way.look(settings):
        yield one
    async for one in running.look(settings, patience_s):
        yield one
