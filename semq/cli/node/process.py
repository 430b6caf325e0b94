"""``semq node init|run``: write the files of a new node; run a node in this process, in the foreground."""

import re
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from semq.cli.node.administration import group
from semq.cli.output.printer import Output
from semq.cli.session import FileOption, JsonOption, environment
from semq.imports import lasting_imports

if TYPE_CHECKING:
    from semq.installation.new_node import NewNode


class NodeKind(StrEnum):
    """Kinds of nodes."""

    local = "local"
    platform = "platform"


@group.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the node; created if it is missing.")],
    kind: Annotated[
        NodeKind, typer.Option("--kind", metavar="KIND", help="local: an institution's node; platform: the hub.")
    ],
    node_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The institution; for a hub any name, by default hub.")
    ] = None,
    hub: Annotated[
        str | None,
        typer.Option("--hub", metavar="HOST:PORT", help="Address of the hub, for an institution; default: here."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="HOST", help="Host name under which other machines reach the hub; default: none does."
        ),
    ] = None,
    institution: Annotated[
        list[str] | None,
        typer.Option("--institution", metavar="ID", help="Institution that the hub knows; can be repeated."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", metavar="N", min=1, max=65_525,
            help="AMQP port; default: 17670 for a hub, else 17671. The console has the port N + 10.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Write the commented configuration of a new node, with new passwords, and print the next commands."""
    from semq.installation.new_node import PORT_OF_HUB, PORT_OF_INSTITUTION, NewNode

    _check_options(kind, node_id, {"--hub": hub}, {"--name": name, "--institution": institution})
    is_hub = kind is NodeKind.platform
    node = NewNode(
        kind.value,
        node_id or "hub",
        port or (PORT_OF_HUB if is_hub else PORT_OF_INSTITUTION),
        hub or f"127.0.0.1:{PORT_OF_HUB}",
        name or "",
        institution or (),
    )
    file = node.write(folder)
    out, commands = Output(as_json=json), _next_commands(node, quote(str(file)))
    if json:
        out.data({"config": str(file), "next": commands})
        return
    out.line(f"{file}: a {node.kind} node, {node.node_id}; only its owner can read the passwords in it")
    out.notice("Next:")
    for command in commands:
        out.notice(f"  {command}")


def _check_options(
    kind: NodeKind, node_id: str | None, of_institutions: dict[str, object], of_hubs: dict[str, object]
) -> None:
    """Raise BadParameter if an institution has no id, HOST:PORT is none, or an option is for the other kind of node."""
    if kind is NodeKind.local and node_id is None:
        raise typer.BadParameter("Name the institution, for instance --id 10008.", param_hint="--id")
    hub = of_institutions["--hub"]
    if hub is not None and not re.fullmatch(r".+:\d{1,5}", str(hub)):
        raise typer.BadParameter("Name host and port, for instance hub.example:17670.", param_hint="--hub")
    wrong, right = (of_hubs, "platform") if kind is NodeKind.local else (of_institutions, "local")
    for option, value in wrong.items():
        if value:
            raise typer.BadParameter(f"Only --kind {right} has this option.", param_hint=option)


def _next_commands(node: "NewNode", config: str) -> list[str]:
    """Return the commands that lead to a running node of the network. ``config``: the file, quoted for a shell."""
    run = f"semq node run --config {config}"
    if node.kind == NodeKind.platform:
        from semq.installation.new_node import PORT_OF_HUB, PORT_OF_INSTITUTION

        hub = f" --hub {node.name or '127.0.0.1'}:{node.port}" if node.name or node.port != PORT_OF_HUB else ""
        commands = [run]
        for number, one in enumerate(node.institutions or ["10008"]):  # without a name, all are on this machine
            port = f" --port {PORT_OF_INSTITUTION + number}" if number and not node.name else ""
            commands.append(f"semq hub nodes token {one} --config {config}")
            commands.append(f"semq node init --kind local {one} --id {one}{hub}{port}")
        return commands
    return [f"semq node enroll --config {config} --fingerprint FINGERPRINT --token TOKEN", run]


@group.command()
def run(config: FileOption) -> None:
    """Run the node of a file, of any kind, until SIGTERM or Ctrl-C. It serves after the line `ready HOST:PORT`."""
    with lasting_imports():
        start = _program_for(config)
    raise typer.Exit(start(["--config", str(config)]))


def _program_for(config: Path) -> Callable[[list[str]], int]:
    """Import and return the program for the kind of node; a file without a kind gets one that reports its faults."""
    from semq.config.file import read_toml
    from semq.config.institutions import is_virtual

    tables = read_toml(config)
    if is_virtual(tables):
        from local_node.virtual.__main__ import main as run_server

        return run_server
    from semq.service.process import main

    node = tables.get("node")
    kind = environment().get("SEMQ_NODE__KIND") or (node.get("kind") if isinstance(node, dict) else None)
    if kind == NodeKind.platform:
        from platform_node.node import HubNode

        return partial(main, "platform", HubNode)
    from local_node.node import LocalNode

    return partial(main, "local", LocalNode)
