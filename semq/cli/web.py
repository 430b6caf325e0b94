"""``semq web``: run the web process of a node in the foreground, or print a new link for the first sign-in."""

import asyncio
from typing import Annotated

import typer

from semq.cli.output.printer import Output
from semq.cli.session import FileOption, read_config


def web(
    config: FileOption,
    link: Annotated[bool, typer.Option("--link", help="Only print a new one-time link for the first sign-in.")] = False,
) -> None:
    """Serve the console and the HTTP API of a node. A node with [http] starts this process itself."""
    if link:
        from semq.web.process import new_link

        Output(as_json=False).line(asyncio.run(new_link(read_config(config))))
        return
    from semq.web.process import main

    raise typer.Exit(main(["--config", str(config)]))
