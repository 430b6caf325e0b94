"""``semq call``: any operation of a node by its name; operations and arguments are those that the node describes.

For programs, and for operations without a command of their own. The result is one JSON value.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from semq.cli.errors import BadArgument
from semq.cli.session import Session, on_node
from semq.errors import BadInput

COLUMNS = (("operation", "<"), ("kind", "<"), ("role", "<"), ("what it does", "<"))
ARGUMENT_COLUMNS = (("argument", "<"), ("value", "<"), ("default", "<"), ("meaning", "<"))
BOUNDS = (("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"), ("exclusiveMaximum", "below"))


@on_node
async def call(
    session: Session,
    operation: Annotated[
        str | None, typer.Argument(metavar="[OPERATION]", help="Name of the operation, for instance msg.list.")
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]...", help="Its arguments; lists and objects in JSON: ids='[\"1\"]'."),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the operations of the node, or the arguments of one operation.")
    ] = False,
) -> None:
    """Use an operation of the node and print its result as JSON: semq call msg.list side=outbound limit=5"""
    if list_ or operation is None:
        await _describe(session, operation)
        return
    given = dict(read_argument(word) for word in arguments or ())
    session.out.data(await session.ask(operation, repeat=False, **given))


def read_argument(word: str) -> tuple[str, Any]:
    """Read NAME=VALUE. A value that begins as a list, an object or a text of JSON is JSON. Raises BadArgument."""
    name, sign, value = word.partition("=")
    if not (name and sign):
        raise BadArgument(argument=word)
    if value[:1] not in ("[", "{", '"'):
        return name, value
    try:
        return name, json.loads(value)
    except ValueError as error:
        raise BadArgument("The value is not JSON.", argument=word, fault=str(error)) from error


async def _describe(session: Session, operation: str | None) -> None:
    rows = await session.ask("node.operations")
    if operation is None:
        cells = [(row["name"], row["kind"], row["role"], row["summary"]) for row in rows]
        session.out.data(rows) if session.out.as_json else session.out.table(COLUMNS, cells)
        return
    row = next((row for row in rows if row["name"] == operation), None)
    if row is None:
        raise BadInput("The node has no such operation.", operation=operation).with_remedy(
            "`semq call --list` lists them."
        )
    if session.out.as_json:
        session.out.data(row)
        return
    session.out.line(f"{row['name']} ({row['kind']}, {row['role']})  {row['summary']}")
    if fields := list(argument_rows(row["arguments"])):
        session.out.table(ARGUMENT_COLUMNS, fields)


def argument_rows(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Return name, kind of value, default and meaning of each argument, from the JSON schema of all."""
    kinds = schema["$defs"]
    whole = kinds[schema["$ref"].rpartition("/")[2]]
    required = whole.get("required", ())
    for name, field in whole["properties"].items():
        choices = [one for one in field.get("anyOf", [field]) if one.get("type") != "null"]
        meaning = field.get("description") or next((one["description"] for one in choices if "description" in one), "")
        default = "required" if name in required else field.get("default")
        shown = "" if default in (None, "", []) else str(default)
        yield name, " or ".join(_value(one, kinds) for one in choices), shown, meaning


def _value(field: Mapping[str, Any], kinds: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return _value(kinds[field["$ref"].rpartition("/")[2]], kinds)
    if "enum" in field:
        return _one_of(field["enum"])
    kind = str(field.get("type", "any"))
    if kind == "array":
        return f"list of {_value(field.get('items', {}), kinds)}"
    bounds = [f"{word} {field[name]}" for name, word in BOUNDS if name in field]
    return " ".join(["base64" if field.get("contentEncoding") else kind, *bounds])


def _one_of(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))
