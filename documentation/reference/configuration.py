"""All keys of the configuration file: type, default, whether a reload applies them, example, meaning."""

from collections.abc import Iterator

from documentation.reference.cells import code, plain, table
from semq.config.institutions import ServerSection
from semq.config.reference import NAME, SettingRow, models_in, rows
from semq.config.settings import Settings

INTRODUCTION = """\
A configuration file is TOML. Every key can also come from a variable of the environment: `SEMQ_`, the section, two
underscores, the key: `SEMQ_AMQP__PORT=5680`. `semq config show --origin` prints the values of a node, and where each
comes from; `semq config reference` prints this page. Column *reload*: `semq node reload` applies a change; otherwise it
takes effect at the next start ([rules](../operate/users.md#changes-without-a-restart)).
"""


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield INTRODUCTION
    sections = {name: field.annotation for name, field in Settings.model_fields.items()} | {"server": ServerSection}
    for name, annotation in sections.items():
        many = str(annotation).startswith("list")
        yield from (f"## `{'[[' if many else '['}{name}{']]' if many else ']'}`", "")
        description = Settings.model_fields[name].description if name in Settings.model_fields else None
        if description:
            yield from (f"{description[0].upper()}{description[1:]}.", "")
        else:
            for model in models_in(annotation):
                text = (model.__doc__ or "").split("\n\n")[0]
                yield from (plain(" ".join(text.split())), "")
                break
        of_section = [row for row in rows() if row.key.partition(".")[0] == name]
        yield from table(("key", "meaning", "type", "default", "reload", "example"), map(_cells, of_section))


def _cells(row: SettingRow) -> tuple[str, ...]:
    type_ = row.type.replace("number", row.unit, 1) if row.unit else row.type
    default = "required" if row.is_required else code(row.default)
    key = row.key.partition(".")[2].removeprefix(f"{NAME}.")
    return code(key), plain(row.meaning), type_, default, "yes" if row.is_reloaded else "", code(row.example)
