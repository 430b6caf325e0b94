"""``semq demo``: a hub and two institutions on this machine, by ``semq.demo``."""

import typer


def demo(context: typer.Context) -> None:
    """Start a hub and two institutions on this machine, send documents between them, and count everything. `semq demo
    --help` lists the options.
    """
    from semq.demo.__main__ import main

    raise typer.Exit(main(context.args))
