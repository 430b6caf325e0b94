"""Arguments of operations: the reading of a request into a struct, and fields that several operations have.

``read_arguments`` checks the form of arguments; the handlers find the institution or message that a value names.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from semq.foreign_text import shortened
from semq.service.errors import BadArguments
from semq.store.views import selection
from semq.store.views.selection import ADDRESS_MAX as ADDRESS_MAX
from semq.store.views.selection import NAME_MAX as NAME_MAX

WHY_MAX = 2000  # characters
SHOWN_MAX = 60  # characters of an unknown name in an error
INT64_MAX = selection.NUMBER_MAX
# Parts of msgspec's error texts: before the place of the error; about a text that does not match a pattern, or that is
# none of the permitted ones.
PLACE_MARK, PATTERN_MARK, CHOICE_MARK = " - at `$", "matching regex", "Invalid enum value "


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base class of all argument structs; also the struct of operations without arguments."""


A = TypeVar("A", bound=msgspec.Struct)
Text: TypeAlias = selection.Text
Institution: TypeAlias = selection.Institution
DataType: TypeAlias = selection.DataType
Key: TypeAlias = selection.Key
Moment: TypeAlias = selection.Moment
Limit: TypeAlias = selection.Limit
Name: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=NAME_MAX,
        description="Message: short name, locator (LK0), row number, sql-NUMBER, its AppKey, or the key of its AppKey.",
    ),
]
Why: TypeAlias = Annotated[str, Meta(max_length=WHY_MAX, description="Reason, for the ledger.")]


class ByName(Arguments, frozen=True, kw_only=True):
    """The arguments of an operation on one document."""

    id: Name


class ByNameWhy(ByName, frozen=True, kw_only=True):
    """The arguments of an act on one document."""

    why: Why = ""


def read_arguments(operation: str, struct: type[A], given: Mapping[str, object]) -> A:
    """Read the arguments of a request; an argument that is null counts as absent. Raises BadArguments."""
    names = struct.__struct_encode_fields__
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None and struct.__struct_config__.forbid_unknown_fields:
        raise _unknown(operation, unknown, names)
    present = {name: value for name, value in given.items() if value is not None}
    missing = next((name for name in _required(struct) if name not in present), None)
    if missing is not None:
        raise BadArguments(f"{operation} needs the argument {missing}.", **_meaning(struct, missing))
    try:
        with_nul = next((name for name, value in present.items() if _has_nul(value)), None)
        if with_nul is not None:
            raise BadArguments(
                f"The argument {shortened(with_nul, SHOWN_MAX)} of {operation} contains a NUL character."
            )
        return msgspec.convert(present, struct, strict=False)
    except msgspec.ValidationError as error:
        fault, _, place = str(error).partition(PLACE_MARK)
        raise _wrong(operation, struct, present, fault, place.strip("`.")) from error
    except RecursionError as error:
        raise BadArguments(f"The arguments of {operation} are nested too deeply.") from error


def _wrong(
    operation: str, struct: type[msgspec.Struct], given: Mapping[str, object], fault: str, place: str
) -> BadArguments:
    name = place.partition("[")[0].partition(".")[0]
    value = given.get(name)
    if isinstance(value, str) and not value.strip():
        if name in _required(struct):
            text = f"{operation} needs the argument {name}; it is empty."
        else:
            text = f"The argument {name} of {operation} is empty: leave it out, or give it a value."
    elif fault.startswith(CHOICE_MARK) and (choices := _choices(struct, name)):
        chosen = fault.removeprefix(CHOICE_MARK)
        text = f"The argument {place} of {operation} is wrong: {chosen} is none of {', '.join(choices)}."
    elif PATTERN_MARK in fault:
        text = f"The argument {place} of {operation} does not have the required form."
    else:
        text = f"The argument {place} of {operation} is wrong: {fault.replace('`', '')}."
    return BadArguments(text, **_meaning(struct, name))


def _meaning(struct: type[msgspec.Struct], name: str) -> dict[str, str]:
    text = descriptions(struct).get(name)
    return {"meaning": text} if text else {}


@cache
def descriptions(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the descriptions of fields by name."""
    return {name: text for name, field in _schemas(struct)[0].items() if (text := _description(field))}


@cache
def _schemas(struct: type[msgspec.Struct]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the JSON schemas of fields by name, and the definitions to which they refer."""
    schema = msgspec.json.schema(struct)
    definitions: Mapping[str, Any] = schema["$defs"]
    return definitions[schema["$ref"].rpartition("/")[2]]["properties"], definitions


def _choices(struct: type[msgspec.Struct], name: str) -> list[str]:
    """Return the permitted values of a field, or of the items of a list; empty if they are not a few named ones."""
    fields, definitions = _schemas(struct)
    field = fields[name]
    for schema in (field, field.get("items", {}), *field.get("prefixItems", ()), *field.get("anyOf", ())):
        named = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        if "enum" in named:
            return list(map(str, named["enum"]))
    return []


def _description(field: Mapping[str, Any]) -> str:
    """Return the description in the schema of a field, or in one of its alternatives."""
    for schema in (field, *field.get("anyOf", ())):
        if schema.get("description"):
            return str(schema["description"])
    return ""


@cache
def _required(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(struct) if field.required)


def _unknown(operation: str, name: str, names: tuple[str, ...]) -> BadArguments:
    shown = shortened(name, SHOWN_MAX)
    near = get_close_matches(shown.lower(), names, 1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return BadArguments(f"{operation} has no argument {shown}{hint}", arguments=" ".join(names) or "none")


def _has_nul(value: object) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(_has_nul(name) or _has_nul(item) for name, item in value.items())
    return isinstance(value, list | tuple) and any(map(_has_nul, value))
