"""``semq doctor``: checks of everything that a node depends on; the node need not run."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import asdict, replace

from semq.cli.checkup.daemon_thread import in_daemon_thread
from semq.cli.output.printer import Output
from semq.cli.session import FileOption, InstitutionOption, JsonOption, read_config
from semq.moments import in_local

if TYPE_CHECKING:
    from semq.cli.checkup.finding import Finding
    from semq.config import Settings

PART_S_MAX = 10.0  # the time limit of each part is this plus --timeout, in seconds
BEFORE_A_START = ("machine", "database", "control database", "identity")  # parts whose faults prevent a start
MARKS = {"ok": "ok", "warning": "warn", "failing": "FAILS"}  # verdict | its word in a line


def doctor(
    config: FileOption,
    institution: InstitutionOption = None,
    json: JsonOption = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", min=0.1, help="Longest wait for an answer of the node.")
    ] = 5.0,
) -> None:
    """Check everything that a node depends on (file, disk, database, certificate, links, health) and print advice. Exit
    status 1: something fails.
    """
    settings, out = read_config(config, institution), Output(as_json=json)
    findings = asyncio.run(_print_findings(settings, timeout, out))
    worst = max((finding.verdict for finding in findings), key=list(MARKS).index)
    if json:
        out.data({"node": settings.node.id, "verdict": worst, "findings": list(map(asdict, findings))})
    if worst == "failing":
        raise typer.Exit(1)


async def findings_of(settings: "Settings", patience_s: float) -> list["Finding"]:
    """Return all findings, without printing them. ``patience_s``: longest wait for an answer of the node."""
    return [finding async for finding in _findings(settings, patience_s, Output(as_json=True))]


async def _print_findings(settings: "Settings", patience_s: float, out: Output) -> list["Finding"]:
    """Print each finding as soon as it is known, unless the output is JSON; return all."""
    findings = []
    async for finding in _findings(settings, patience_s, out):
        findings.append(finding)
        if not out.as_json:
            out.line(f"{MARKS[finding.verdict]:<6} {finding.check:<15} {in_local(finding.detail)}".rstrip())
            if finding.advice:
                out.line(f"{'':<22} → {finding.advice}")
    return findings


async def _findings(settings: "Settings", patience_s: float, out: Output) -> AsyncIterator["Finding"]:
    """Yield the findings, in the order of the parts; all parts are checked at the same time."""
    if not out.as_json:
        out.progress("checking")
    from semq.cli.checkup import database, direct_links, hub_link, identity, machine, running_node
    from semq.cli.checkup.finding import FAILING, WARNING, Finding

    async def listed(part: AsyncIterator["Finding"]) -> list["Finding"]:
        return [finding async for finding in part]

    parts = {
        "machine": in_daemon_thread(lambda: list(machine.check(settings))),
        "database": in_daemon_thread(lambda: list(database.check(settings))),
        "control database": in_daemon_thread(lambda: list(database.check_control(settings))),
        "identity": in_daemon_thread(lambda: list(identity.check(settings))),
        "way to the hub": listed(hub_link.check(settings)),
        "direct links": listed(direct_links.check(settings)),
        "node": listed(running_node.check(settings, patience_s)),
    }
    limit_s, is_hindered = PART_S_MAX + patience_s, False
    tasks = {name: asyncio.create_task(asyncio.wait_for(part, limit_s)) for name, part in parts.items()}
    for name, task in tasks.items():
        if not task.done() and not out.as_json:
            out.progress(f"checking: {name}")
        try:
            findings = await task
        except TimeoutError:
            detail = f"did not answer within {limit_s:.0f} s"
            findings = [Finding(name, WARNING, detail, "Repeat with --timeout 60.")]
        except OSError as error:
            findings = [Finding(name, FAILING, str(error), "Correct the path, or its permissions.")]
        for finding in findings:
            if is_hindered and finding.advice == running_node.start_command(settings):
                yield replace(finding, advice=f"Correct the faults above, then: {finding.advice}")
                continue
            is_fault = finding.verdict == FAILING and name in BEFORE_A_START
            is_hindered = is_hindered or is_fault or finding.advice in hub_link.REFUSALS
            yield finding
