"""``semq config``: check a configuration without starting anything, and show every setting with its origin."""

from typing import Annotated

import typer

from semq.cli.output.printer import Output
from semq.cli.session import FileOption, InstitutionOption, JsonOption, check_config, institutions_of, read_config

group = typer.Typer()


@group.command()
def check(config: FileOption, institution: InstitutionOption = None, json: JsonOption = False) -> None:
    """Check a configuration file and the environment, and report all faults together."""
    from semq.config.errors import ConfigInvalid  # imported here: commands without a file start in half the time

    out = Output(as_json=json)
    check_config(config, institution)
    nodes, faults = [], []
    for one in institutions_of(config, institution):
        try:
            nodes.append(read_config(config, one))
        except ConfigInvalid as error:
            faults += error.faults
    if faults:
        raise ConfigInvalid(faults)
    described = [{"kind": one.node.kind, "id": one.node.id, "data_dir": str(one.data_dir)} for one in nodes]
    if not json:
        for row in described:
            out.line(f"{config}: a {row['kind']} node, {row['id']}; nothing wrong")
    elif institutions_of(config, institution) == [institution]:
        out.data({"ok": True, **described[0]})
    else:
        out.data({"ok": True, "institutions": described})


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
