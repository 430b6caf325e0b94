"""Names of the house: each class has a name of its own, in product, tests and benchmarks alike."""

import ast
from collections import defaultdict

from tests.test_house import ROOT, committed, tree


def test_class_names_are_unique() -> None:
    places = defaultdict(list)
    for file in committed():
        if file.suffix == ".py":
            for node in tree(file).body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
