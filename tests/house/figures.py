"""Figures of the sources: ``./run lint --house [--json]``."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from statistics import median
from typing import Any

from tests.covered import COVERED
from tests.house.sources import ROOT, committed, imports, modules, modules_without_test

TESTS = ("tests", "bench")
WAY = ROOT / "tests" / "flows" / "real_nodes" / "test_way.py"


@cache
def import_graph() -> dict[str, set[str]]:
    """Return the modules of the product that each module imports, including imports for type checking."""
    names = set(modules())
    graph: dict[str, set[str]] = {}
    for name, file in modules().items():
        found = {imported for _, imported in imports(file)}
        found |= {imported.rpartition(".")[0] for imported in found}
        graph[name] = (found & names) - {name}
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import one another, directly or through others (Kosaraju's algorithm)."""
    order: list[str] = []
    _visit(graph, graph, order)
    reverse: dict[str, set[str]] = {name: set() for name in graph}
    for name, imported in graph.items():
        for target in imported:
            reverse[target].add(name)
    seen: set[str] = set()
    groups = []
    for name in reversed(order):
        if name not in seen:
            group = _reached(reverse, name, seen)
            if len(group) > 1:
                groups.append(sorted(group))
    return groups


def _visit(graph: Mapping[str, set[str]], names: Mapping[str, object], order: list[str]) -> None:
    """Append the names in the order in which a depth-first search leaves them."""
    seen: set[str] = set()
    for first in names:
        stack = [(first, iter(sorted(graph[first])))] if first not in seen else []
        seen.add(first)
        while stack:
            name, rest = stack[-1]
            following = next((candidate for candidate in rest if candidate not in seen), None)
            if following is None:
                order.append(name)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(sorted(graph[following]))))


def _reached(graph: Mapping[str, set[str]], first: str, seen: set[str]) -> list[str]:
    """Return the names that can be reached from ``first``, except those in ``seen``, and add them to ``seen``."""
    seen.add(first)
    reached, waiting = [first], [first]
    while waiting:
        for name in graph[waiting.pop()] - seen:
            seen.add(name)
            reached.append(name)
            waiting.append(name)
    return reached


def untyped_answers() -> dict[str, list[str]]:
    """Return the names of the endpoints of each kind of node whose JSON answers have no schema."""
    from tests.web.api.shape import KINDS, document

    found: dict[str, list[str]] = {}
    for kind in KINDS:
        methods = [row for path in document(kind)["paths"].values() for row in path.values()]
        found[kind] = [row["operationId"] for row in methods if any(map(_is_untyped, _schemas(row)))]
    return found


def _schemas(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for status, answer in row["responses"].items():
        if status.startswith("2") and "application/json" in answer.get("content", {}):
            yield answer["content"]["application/json"].get("schema", {})


def _is_untyped(schema: dict[str, Any]) -> bool:
    shown = schema.get("items", schema)
    return not ("$ref" in shown or {"properties", "additionalProperties", "anyOf"} & shown.keys())


def figures() -> dict[str, object]:
    """Return the figures by their names, which other programs read.

    ``unmirrored``: modules without a test file of their name; ``uncovered``: unmirrored ones without a row in
    ``COVERED``; ``any`` and ``dict_any``: how often the product has the types ``Any`` and ``dict[str, Any]``;
    ``way_modules``: most modules that a document may pass; ``untyped_answers``: answers of the HTTP API to both kinds
    of nodes that have no schema.
    """
    texts = [file.read_text("utf-8") for file in modules().values()]
    lines = [len(text.splitlines()) for text in texts]
    tests = [file for file in committed() if file.suffix == ".py" and file.relative_to(ROOT).parts[0] in TESTS]
    return {
        "modules": len(lines),
        "median_lines": median(lines),
        "max_lines": max(lines),
        "import_circles": len(circles(import_graph())),
        "unmirrored": len(modules_without_test()),
        "uncovered": len(set(modules_without_test()) - set(COVERED)),
        "product_lines": sum(lines),
        "test_lines": sum(len(file.read_text("utf-8").splitlines()) for file in tests),
        "any": sum(len(re.findall(r"\bAny\b", text)) for text in texts),
        "dict_any": sum(text.count("dict[str, Any]") for text in texts),
        "way_modules": int(re.findall(r"^MODULES_MAX = (\d+)$", WAY.read_text("utf-8"), re.MULTILINE)[0]),
        "untyped_answers": sum(map(len, untyped_answers().values())),
    }


def main() -> int:
    """Print the figures, and without ``--json`` the members of each circle; return the exit status."""
    values = figures()
    if "--json" in sys.argv[1:]:
        print(json.dumps(values))
        return 0
    for name, value in values.items():
        print(f"{name:15} {value}")
    for circle in circles(import_graph()):
        print(f"circle of {len(circle):3}   {' '.join(circle)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
