"""``semq config``: check a configuration without starting anything, and show every setting with its origin."""

from typing import Annotated

import typer

from semq.cli.output.printer import Output
from semq.cli.session import FileOption, InstitutionOption, JsonOption, read_config

group = typer.Typer()


@group.command()
def check(config: FileOption, institution: InstitutionOption = None, json: JsonOption = False) -> None:
    """Check a configuration file and the environment, and report all faults together."""
    settings = read_config(config, institution)
    out = Output(as_json=json)
    if json:
        out.data({"ok": True, "kind": settings.node.kind, "id": settings.node.id, "data_dir": str(settings.data_dir)})
    else:
        out.line(f"{config}: a {settings.node.kind} node, {settings.node.id}; nothing wrong")


@group.command()
def show(
    config: FileOption,
    institution: InstitutionOption = None,
    origin: Annotated[bool, typer.Option("--origin", help="Show the origin of each value.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Show defaults too.")] = False,
    json: JsonOption = False,
) -> None:
    """Show the settings of a node, without secrets."""
    from semq.config.settings import DEFAULT

    out = Output(as_json=json)
    rows = [
        row for row in read_config(config, institution).explain() if every or origin or json or row.origin != DEFAULT
    ]
    if json:
        out.data([row._asdict() for row in rows])
    elif origin:
        out.table((("key", "<"), ("value", "<"), ("from", "<")), ((row.key, row.value, row.origin) for row in rows))
    else:
        out.table((("key", "<"), ("value", "<"), ("meaning", "<")), ((row.key, row.value, row.help) for row in rows))
