"""``semq platform run`` and ``semq local run``: run a node in this process, in the foreground."""

import typer

from semq.cli.session import FileOption
from semq.imports import lasting_imports

platform = typer.Typer()
local = typer.Typer()


@platform.callback()
def _platform() -> None:
    """The hub."""


@local.callback()
def _local() -> None:
    """An institution's node."""


@platform.command("run")
def run_platform(config: FileOption) -> None:
    """Run the hub until SIGTERM or Ctrl-C. It serves after the line `ready HOST:PORT`."""
    with lasting_imports():
        from platform_node.node import HubNode
        from semq.service.process import main

    raise typer.Exit(main("platform", HubNode, ["--config", str(config)]))


@local.command("run")
def run_local(config: FileOption) -> None:
    """Run an institution's node until SIGTERM or Ctrl-C. It serves after the line `ready HOST:PORT`."""
    with lasting_imports():
        from local_node.node import LocalNode
        from semq.service.process import main

    raise typer.Exit(main("local", LocalNode, ["--config", str(config)]))
