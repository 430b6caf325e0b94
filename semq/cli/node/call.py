"""``semq call``: run any operation of a node by its name, for programs and for operations without a command."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from semq.cli.errors import BadArgument
from semq.cli.session import Session, on_node
from semq.errors import BadInput

# Bound in a JSON schema | word before its value
BOUNDS = (("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"), ("exclusiveMaximum", "below"))


@on_node
async def call(
    session: Session,
    operation: Annotated[
        str | None, typer.Argument(metavar="[OPERATION]", help="Name of the operation, for instance msg.list.")
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=VALUE]...",
            help='Arguments of the operation; a value that begins with [, { or " is JSON: ids=\'["1"]\'.',
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the operations of the node, or the arguments of one operation.")
    ] = False,
) -> None:
    """Run an operation of the node and print its result as JSON: semq call msg.list side=outbound limit=5"""
    if list_ or operation is None:
        await _describe(session, operation)
        return
    given = dict(read_argument(word) for word in arguments or ())
    session.out.data(await session.ask_once(operation, **given))


def read_argument(word: str) -> tuple[str, object]:
    """Return name and value of NAME=VALUE. A value that begins with [, { or " is JSON, any other value is a text.

    Raises BadArgument.
    """
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
        session.out.rows(rows, "operation, kind, role, summary", cells)
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
        session.out.table("argument, value, default, meaning", fields)


def argument_rows(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, kind of value, default and meaning of each argument, from the JSON schema of the arguments."""
    definitions = schema["$defs"]
    arguments = definitions[schema["$ref"].rpartition("/")[2]]
    required = arguments.get("required", ())
    for name, field in arguments["properties"].items():
        choices = [choice for choice in field.get("anyOf", [field]) if choice.get("type") != "null"]
        descriptions = (choice["description"] for choice in choices if "description" in choice)
        meaning = field.get("description") or next(descriptions, "")
        default = "required" if name in required else field.get("default")
        shown = "" if default in (None, "", []) else str(default)
        yield name, " or ".join(_kind_of_value(choice, definitions) for choice in choices), shown, meaning


def _kind_of_value(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return _kind_of_value(definitions[field["$ref"].rpartition("/")[2]], definitions)
    if "enum" in field:
        return ", ".join(map(str, field["enum"]))
    kind = str(field.get("type", "any"))
    if kind == "array":
        return f"list of {_kind_of_value(field.get('items', {}), definitions)}"
    bounds = [f"{word} {field[name]}" for name, word in BOUNDS if name in field]
    return " ".join(["base64" if field.get("contentEncoding") else kind, *bounds])
