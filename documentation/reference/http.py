"""All addresses of the HTTP API. The OpenAPI document, which a node serves, has their types."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from documentation.reference.cells import code, plain, table
from semq.web.api.description import ABOUT, MEANINGS, description
from semq.web.api.routes import endpoints
from semq.web.node.operations import table as operations_of

KINDS = {"local": "institution", "platform": "hub"}


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from (
        plain(ABOUT),
        "",
        "A node serves all of this as an OpenAPI document, with the types of all arguments, at",
    )
    yield from ("`/api/v1/openapi.json`. All addresses below begin with `/api/v1`. An argument with * is required.", "")
    yield from table(("status", "meaning"), ((str(status), text) for status, text in MEANINGS.items()))
    groups = defaultdict[str, list[tuple[str, ...]]](list)
    for (path, method), (row, kinds, schemas) in sorted(rows().items()):
        nodes = "" if len(kinds) == len(KINDS) else f" Only at {'an institution' if kinds == ['local'] else 'the hub'}."
        groups[row["tags"][0]].append(
            (code(f"{method.upper()} {path}"), f"{plain(row['summary'])}{nodes}",
             ", ".join(row["x-semq-rights"]) or "–", ", ".join(map(code, _arguments(row, schemas))))
        )  # fmt: skip
    for group, lines in sorted(groups.items()):
        yield from (f"## {group}", "", *table(("address", "what it does", "right", "arguments"), lines))


def rows() -> dict[tuple[str, str], tuple[dict[str, Any], list[str], dict[str, Any]]]:
    """Return each operation of the OpenAPI documents by path and method: with the kinds of node, and the schemas."""
    found: dict[tuple[str, str], tuple[dict[str, Any], list[str], dict[str, Any]]] = {}
    for kind in KINDS:
        document = description(kind, endpoints(kind, operations_of(kind)))
        for path, methods in document["paths"].items():
            for method, row in methods.items():
                found.setdefault((path, method), (row, [], document["components"]["schemas"]))[1].append(kind)
    return found


def _arguments(row: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    for each in row.get("parameters", ()):
        yield f"{each['name']}{'*' * each.get('required', False)}"
    for content in row.get("requestBody", {}).get("content", {}).values():
        schema = content["schema"]
        schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        for name in schema.get("properties", {}):
            yield f"{name}{'*' * (name in schema.get('required', ()))}"
