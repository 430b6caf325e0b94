"""``semq web``: the process with console and HTTP API of a node, in the foreground; or a new one-time link for it."""

import asyncio
from typing import Annotated

import typer

from semq.cli.output.printer import Output
from semq.cli.session import FileOption, read_config


def web(
    config: FileOption,
    link: Annotated[bool, typer.Option("--link", help="Print a new one-time link for the first sign-in.")] = False,
) -> None:
    """Serve the console and the HTTP API of a node. A node with [http] starts this itself."""
    if link:
        from semq.web.process import new_link

        Output(as_json=False).line(asyncio.run(new_link(read_config(config))))
        return
    from semq.web.process import main

    raise typer.Exit(main(["--config", str(config)]))
