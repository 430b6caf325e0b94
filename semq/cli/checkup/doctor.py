"""``semq doctor``: checks of everything that a node depends on, whether it runs or not, with advice.

For the first hour on a new machine, and for the first minutes of an outage. It changes nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from semq.cli.output.printer import Output
from semq.cli.session import FileOption, InstitutionOption, JsonOption, read_config
from semq.moments import in_local

if TYPE_CHECKING:
    from semq.cli.checkup.finding import Finding
    from semq.config import Settings

LONGEST_S = 10.0  # for each part, in addition to --timeout
MARK = {"ok": "ok", "warning": "look", "failing": "FAILS"}


def doctor(
    config: FileOption,
    institution: InstitutionOption = None,
    json: JsonOption = False,
    timeout: Annotated[float, typer.Option("--timeout", metavar="S", min=0.1, help="Longest wait for a node.")] = 5.0,
) -> None:
    """Check everything that a node depends on (file, disk, database, certificate, links, health) and advise;
    exit status 1 if something fails.
    """
    settings, out = read_config(config, institution), Output(as_json=json)
    found = asyncio.run(_printed(settings, timeout, out))
    worst = max((one.verdict for one in found), key=list(MARK).index)
    if json:
        out.data({"node": settings.node.id, "verdict": worst, "findings": list(map(asdict, found))})
    if worst == "failing":
        raise typer.Exit(1)


async def _printed(settings: "Settings", patience_s: float, out: Output) -> list["Finding"]:
    """Return all findings, and print each as soon as it is known."""
    found = []
    async for one in _findings(settings, patience_s, out):
        found.append(one)
        if not out.as_json:
            out.line(f"{MARK[one.verdict]:<6} {one.check:<15} {in_local(one.detail)}".rstrip())
            if one.advice:
                out.line(f"{'':<22} → {one.advice}")
    return found


async def _findings(settings: "Settings", patience_s: float, out: Output) -> AsyncIterator["Finding"]:
    """Return the findings of each part, in their order; all parts are checked at the same time, for ``LONGEST_S`` at
    most.
    """
    if not out.as_json:
        out.passing("looking")
    from semq.cli.checkup import database, direct_links, hub_link, identity, machine, running_node
    from semq.cli.checkup.finding import FAILING, WARNING, Finding

    async def of(part: Callable[[], Iterable["Finding"]]) -> list["Finding"]:
        return await asyncio.to_thread(lambda: list(part()))

    async def all_of(part: AsyncIterator["Finding"]) -> list["Finding"]:
        return [one async for one in part]

    parts = {
        "machine": of(lambda: machine.check(settings)),
        "database": of(lambda: database.check(settings)),
        "control database": of(lambda: database.check_control(settings)),
        "identity": of(lambda: identity.check(settings)),
        "way to the hub": all_of(hub_link.check(settings)),
        "direct links": all_of(direct_links.check(settings)),
        "node": all_of(running_node.check(settings, patience_s)),
    }
    longest_s = LONGEST_S + patience_s
    tasks = {name: asyncio.create_task(asyncio.wait_for(part, longest_s)) for name, part in parts.items()}
    for name, task in tasks.items():
        if not task.done() and not out.as_json:
            out.passing(f"looking at: {name}")
        try:
            found = await task
        except TimeoutError:
            detail = f"did not answer within {longest_s:.0f} s"
            found = [Finding(name, WARNING, detail, "Repeat with --timeout 60.")]
        except OSError as error:
            found = [Finding(name, FAILING, str(error), "Correct the path, or its permissions.")]
        for one in found:
            yield one
