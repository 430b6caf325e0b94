"""Names: some words may begin names only where they have their meaning; class names are unique; tests state facts."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import ROOT, committed, modules, nodes, tree

# word | where names may begin with it (empty: nowhere) | meaning
WORDS = """
look   | semq/service/operations/operation.py semq/app/client.py    | an operation that changes nothing
wake   | semq/engine semq/umx_t/grids.py                            | note that rows of a lane or a track wait
behind | semq/app semq/web/api                                      | number of events after which an event is acknowledged
life   | semq/engine/hub semq/carrier semq/store/control platform_node | an incarnation of an instance of a hub, by its number
told   |                                                            |
tell   |                                                            |
"""  # noqa: E501


def definitions(file: Path) -> Iterator[tuple[str, int]]:
    """Yield the names that a module defines, with their lines."""
    for node in nodes(file):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def test_a_word_means_one_thing() -> None:
    rows = [[part.strip() for part in row.split("|")] for row in WORDS.strip().splitlines()]
    places = {word: tuple(where.split()) for word, where, _ in rows}
    found = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in modules().values()
        for name, line in definitions(file)
        for word in places.keys() & {name.strip("_"), name.lower().partition("_")[0]}
        if not str(file.relative_to(ROOT)).startswith(places[word])
    ]
    assert found == []


def test_every_class_has_a_name_of_its_own() -> None:
    """Exception: nested classes of tests and benchmarks."""
    places: defaultdict[str, set[str]] = defaultdict(set)
    product = set(modules().values())
    for file in committed():
        if file.suffix == ".py" and "migrations" not in file.parts:
            for node in nodes(file) if file in product else tree(file).body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].add(str(file.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


# First words of test names that do not say what holds ("what_is_refused").
RIDDLE = re.compile(r"test_(what|whatever|who|whoever|whose|where|which|however|somebody|nobody)_")


def test_names_of_tests_are_statements() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in committed()
        if file.name.startswith("test_") and file.suffix == ".py"
        for name, line in definitions(file)
        if RIDDLE.match(name)
    ]
    assert found == []


def test_no_annotation_names_a_neighbour_in_its_class() -> None:
    """From Python 3.14 on, an annotation is evaluated when it is asked for, and finds the names of its class first: the
    result of ``def list(self) -> list[Row]`` was then a function with an index.
    """
    found = [
        f"{file.relative_to(ROOT)}:{name.lineno}: {name.id}"
        for file in committed()
        if file.suffix == ".py"
        for node in nodes(file)
        if isinstance(node, ast.ClassDef)
        for annotation in _annotations(node)
        for name in ast.walk(annotation)
        if isinstance(name, ast.Name) and name.id in _bound_in(node)
    ]
    assert found == []


def _annotations(owner: ast.ClassDef) -> Iterator[ast.expr]:
    for node in owner.body:
        if isinstance(node, ast.AnnAssign):
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = (argument.annotation for argument in ast.walk(node.args) if isinstance(argument, ast.arg))
            yield from filter(None, (*given, node.returns))


def _bound_in(owner: ast.ClassDef) -> set[str]:
    """Return the names to which a class has given a value when its body has run."""
    bound: set[str] = set()
    for node in owner.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Assign):
            bound.update(name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name))
        elif isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
            bound.add(node.target.id)
    return bound
