"""``python -m tests.web.api.shape``: write the shape of the HTTP API to ``shape.txt``, to be read at each change of it.

A line for each endpoint: the kinds of nodes (local, hub), method, address, rights, and parameters; ``*``: required. The
fields of a body are behind a colon.
"""

import json
from pathlib import Path
from typing import Any

from semq.web.api.description import description
from semq.web.api.routes import endpoints
from semq.web.node.operations import table

FILE = Path(__file__).with_suffix(".txt")
KINDS = ("local", "platform")


def document(kind: str) -> dict[str, Any]:
    """Return the OpenAPI document of a kind of node, as JSON."""
    made: dict[str, Any] = json.loads(json.dumps(description(kind, endpoints(kind, table(kind)))))
    return made


def shape() -> str:
    """Return the lines for both kinds of nodes."""
    kinds: dict[str, str] = {}
    for kind in KINDS:
        content = document(kind)
        for path, methods in content["paths"].items():
            for method, row in methods.items():
                line = f"{method.upper()} {path} {' '.join(row['x-semq-rights']) or '-'}{_arguments(row, content)}"
                kinds[line] = kinds.get(line, "") + kind[0]
    return "".join(
        f"{of.replace('p', 'h'):2} {line}\n" for line, of in sorted(kinds.items(), key=lambda item: item[0].split()[1:])
    )


def _arguments(row: dict[str, Any], content: dict[str, Any]) -> str:
    queries = [f"{each['name']}{'*' * each.get('required', False)}" for each in row.get("parameters", ())]
    fields = [
        f"{name}{'*' * (name in schema.get('required', ()))}"
        for media in row.get("requestBody", {}).get("content", {}).values()
        for schema in [_resolved(media["schema"], content)]
        for name in schema.get("properties", {})
    ]
    return "".join((f" ? {', '.join(queries)}" * bool(queries), f" : {', '.join(fields)}" * bool(fields)))


def _resolved(schema: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    if reference := schema.get("$ref"):
        found: dict[str, Any] = content["components"]["schemas"][reference.rpartition("/")[2]]
        return found
    return schema


if __name__ == "__main__":
    FILE.write_text(shape(), "utf-8")
