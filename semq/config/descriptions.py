"""The descriptions of keys for `semq config show`: the string below each key in the source of its section."""

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


@cache
def descriptions_of(section: type[BaseModel]) -> Mapping[str, str]:
    """Return the descriptions by key, including the keys of base classes; keys without a description are missing."""
    # On demand: with ``use_attribute_docstrings``, pydantic would read the source at each start of a node (30 ms).
    descriptions = {}
    for class_ in reversed(section.__mro__):
        if not class_.__module__.startswith("semq."):
            continue
        for statement, following in pairwise(_definitions(class_.__module__)[class_.__qualname__].body):
            match statement, following:
                case ast.AnnAssign(target=ast.Name(id=key)), ast.Expr(value=ast.Constant(value=str(text))):
                    descriptions[key] = inspect.cleandoc(text)
    return descriptions


@cache
def _definitions(module: str) -> Mapping[str, ast.ClassDef]:
    """Return the classes of a module by name; ``inspect.getsource`` would parse the module for each of them."""
    parsed = ast.parse(inspect.getsource(sys.modules[module]))
    return {statement.name: statement for statement in parsed.body if isinstance(statement, ast.ClassDef)}
