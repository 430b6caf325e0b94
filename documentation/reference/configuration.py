"""All keys of the configuration file: type, default, whether a reload applies them, meaning."""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from documentation.reference.cells import code, plain, table
from semq.config.descriptions import descriptions_of
from semq.config.institutions import ServerSection
from semq.config.sections import MIB
from semq.config.settings import Settings
from semq.service.operations.reload import RELOADED

NAMES: dict[Any, str] = {
    str: "text", int: "number", float: "number", bool: "true, false", Path: "path", SecretStr: "secret",
    Any: "any value", type(None): "nothing", dict: "table", list: "list",
}  # fmt: skip
UNITS = {"_s": "seconds", "_bytes": "bytes", "_days": "days", "_ms": "milliseconds", "_hours": "hours"}


INTRODUCTION = """\
A configuration file is TOML. Every key can also come from a variable of the environment: `SEMQ_`, the section, two
underscores, the key: `SEMQ_AMQP__PORT=5680`. `semq config show --origin` prints the values of a node, and where each
comes from. Column *reload*: `semq node reload` applies a change; otherwise it takes effect at the next start
([rules](../operate/users.md#changes-without-a-restart)).
"""


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield INTRODUCTION
    for name, field in Settings.model_fields.items():
        yield from _section(name, field)
    yield from ("## `[server]`", "", *_sentence(ServerSection), *_keys("server", ServerSection, ""))


def keys() -> Iterator[tuple[str, FieldInfo, str]]:
    """Yield all keys, with their descriptions, as the page has them."""
    for name, field in Settings.model_fields.items():
        for model, prefix in _models(name, field):
            yield from _walk(model, prefix)
    yield from _walk(ServerSection, "server.")


def _section(name: str, field: FieldInfo) -> Iterator[str]:
    models = list(_models(name, field))
    many = str(field.annotation).startswith("list")
    yield f"## `{'[[' if many else '['}{name}{']]' if many else ']'}`"
    yield ""
    if field.description:
        yield from (f"{field.description[0].upper()}{field.description[1:]}.", "")
    for model, prefix in models:
        if not field.description:
            yield from _sentence(model)
        yield from _keys(name, model, prefix.removeprefix(name).removeprefix("."))


def _sentence(model: type[BaseModel]) -> Iterator[str]:
    yield from (plain(" ".join((model.__doc__ or "").split("\n\n")[0].split())), "")


def _keys(section: str, model: type[BaseModel], prefix: str) -> Iterator[str]:
    yield from table(
        ("key", "type", "default", "reload", "meaning"),
        (
            (
                code(f"{prefix}{key}"),
                _type(key.rpartition(".")[2], field),
                _default(field),
                _reload(section, key),
                plain(text),
            )
            for key, field, text in _walk(model, "")
        ),
    )


def _models(name: str, field: FieldInfo) -> Iterator[tuple[type[BaseModel], str]]:
    for model in _models_in(field.annotation):
        is_table = get_origin(field.annotation) is dict
        yield model, f"{name}.NAME." if is_table else f"{name}."


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _walk(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo, str]]:
    descriptions = descriptions_of(model)
    for key, field in model.model_fields.items():
        name = field.alias or key
        inner = list(_models_in(field.annotation))
        text = descriptions.get(key) or field.description or ""
        if text or not inner:
            yield f"{prefix}{name}", field, text
        for each in inner:
            is_table = "dict" in str(field.annotation)
            yield from _walk(each, f"{prefix}{name}.{'NAME.' if is_table else ''}")


def _type(key: str, field: FieldInfo) -> str:
    words = sorted(set(_words(field.annotation)) - {"nothing"}, key=str)
    unit = next((unit for ending, unit in UNITS.items() if key.endswith(ending)), "")
    bounds = [text for limit in field.metadata for text in _bound(limit)]
    return ", ".join([unit if words == ["number"] and unit else " or ".join(words), *bounds])


def _words(annotation: Any) -> Iterator[str]:
    origin = get_origin(annotation)
    if isinstance(annotation, type) and not get_args(annotation):
        yield "table" if issubclass(annotation, BaseModel) else NAMES.get(annotation, annotation.__name__)
    elif origin is Literal:
        yield from (f"`{value}`" for value in get_args(annotation))
    elif origin in (Union, types.UnionType):
        for inner in get_args(annotation):
            yield from _words(inner)
    elif origin in (list, tuple, set, frozenset):
        yield f"list of {' or '.join(sorted(set(_words(get_args(annotation)[0]))))}"
    elif origin is dict:
        yield "table"
    elif hasattr(annotation, "__metadata__"):
        yield from _words(get_args(annotation)[0])
    else:
        yield NAMES.get(annotation, str(annotation))


def _bound(limit: Any) -> Iterator[str]:
    for name, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<")):
        if (value := getattr(limit, name, None)) is not None:
            yield f"{sign} {value:,}" if isinstance(value, int | float) else f"{sign} {value}"


def _default(field: FieldInfo) -> str:
    value = (
        field.get_default(call_default_factory=True) if field.default is not PydanticUndefined else PydanticUndefined
    )
    if value is PydanticUndefined and field.default_factory is None:
        return "required"
    match value:
        case None | {} | [] | ():
            return ""
        case bool():
            return code(str(value).lower())
        case int() if value >= MIB and value % MIB == 0:
            return f"{value // MIB:,} MiB"
        case int() | float():
            return f"{value:,}" if not isinstance(value, float) else f"{value:,g}"
        case SecretStr() | BaseModel():
            return ""
    return code(str(value))


def _reload(section: str, key: str) -> str:
    if section not in RELOADED:
        return ""
    return "yes" if not RELOADED[section] or key.partition(".")[0] in RELOADED[section] else ""
