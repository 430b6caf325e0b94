"""``semq config check|show|reference``: check a configuration without starting a node; show settings and all keys."""

from typing import TYPE_CHECKING, Annotated

import typer

from semq.cli.output.printer import Output
from semq.cli.session import FileOption, InstitutionOption, JsonOption, check_config, institutions_of, read_config

if TYPE_CHECKING:
    from semq.config.settings import ExplainedSetting

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
    """Show the settings that the file or the environment sets, without secrets; with --json, all settings.

    A star marks a value that differs from the default.
    """
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
        out.table("*, key, value, default, from", ((*_compared(row), row.origin) for row in rows))
    else:
        out.table("*, key, value, default, meaning", ((*_compared(row), row.help) for row in rows))


@group.command()
def reference(
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="Beginning of the keys, for instance amqp.max.")] = "",
    json: JsonOption = False,
) -> None:
    """Show every key of configuration files: meaning, unit, default, whether a reload applies a change, example."""
    from semq.cli.errors import NothingSelected
    from semq.config.reference import rows

    out = Output(as_json=json)
    chosen = [row for row in rows() if row.key.startswith(key)]
    if not chosen:
        text = "No key begins like that."
        raise NothingSelected(text, key=key).with_remedy("`semq config reference` shows all keys.")
    if json:
        out.data([row._asdict() for row in chosen])
        return
    for row in chosen:
        out.line(f"{row.key}: {row.meaning}")
        default = "required" if row.is_required else f"default {row.default}" if row.default else "no default"
        reload = "applied by a reload" if row.is_reloaded else "applied at the next start"
        out.line(f"    {', '.join(filter(None, (row.type, row.unit, default, reload)))}")
        out.line(f"    {row.key.rpartition('.')[2]} = {row.example}")


def _compared(row: "ExplainedSetting") -> tuple[str, ...]:
    return "*" if row.differs else "", row.key, row.value, row.default
