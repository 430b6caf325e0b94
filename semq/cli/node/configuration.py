"""``semq config check|show``: check a configuration without starting a node; show settings."""

from typing import Annotated

import typer

from semq.cli.output.printer import Output
from semq.cli.session import FileOption, InstitutionOption, JsonOption, check_config, institutions_of, read_config

group = typer.Typer()


@group.command()
def check(config: FileOption, institution: InstitutionOption = None, json: JsonOption = False) -> None:
    """Check a configuration file and the environment; report all faults together."""
    # Imported here, because the import takes as long as the start of other commands.
    from semq.config.errors import ConfigInvalid

    out = Output(as_json=json)
    check_config(config, institution)
    nodes, faults = [], []
    for name in institutions_of(config, institution):
        try:
            nodes.append(read_config(config, name))
        except ConfigInvalid as error:
            faults += error.faults
    if faults:
        raise ConfigInvalid(faults)
    rows = [{"kind": node.node.kind, "id": node.node.id, "data_dir": str(node.data_dir)} for node in nodes]
    if not json:
        for row in rows:
            out.line(f"{config}: a {row['kind']} node, {row['id']}; no faults")
    elif institutions_of(config, institution) == [institution]:
        out.data({"ok": True, **rows[0]})
    else:
        out.data({"ok": True, "institutions": rows})


@group.command()
def show(
    config: FileOption,
    institution: InstitutionOption = None,
    origin: Annotated[
        bool, typer.Option("--origin", help="Show all settings, each with its origin instead of its meaning.")
    ] = False,
    with_defaults: Annotated[bool, typer.Option("--all", help="Show settings with default values, too.")] = False,
    json: JsonOption = False,
) -> None:
    """Show the settings that the file or the environment sets, without secrets; with --json, all settings."""
    from semq.config.settings import DEFAULT

    out = Output(as_json=json)
    rows = [
        row
        for row in read_config(config, institution).explain()
        if with_defaults or origin or json or row.origin != DEFAULT
    ]
    if json:
        out.data([row._asdict() for row in rows])
    elif origin:
        out.table("key, value, from", ((row.key, row.value, row.origin) for row in rows))
    else:
        out.table("key, value, meaning", ((row.key, row.value, row.help) for row in rows))
