"""The descriptions of keys for `semq config show`: the string below each key in the source of its section."""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


@cache
def descriptions_of(section: type[BaseModel]) -> Mapping[str, str]:
    """Return the description of each key of a section, including the keys of its base classes.

    Keys without a description are missing. The source is read on demand: with ``use_attribute_docstrings``, pydantic
    would read it at each start of a node, which costs 30 ms of processor time.
    """
    descriptions = {}
    for class_ in reversed(section.__mro__):
        if not class_.__module__.startswith("semq."):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(class_))).body
        assert isinstance(definition, ast.ClassDef)
        for statement, following in pairwise(definition.body):
            match statement, following:
                case ast.AnnAssign(target=ast.Name(id=key)), ast.Expr(value=ast.Constant(value=str(text))):
                    descriptions[key] = inspect.cleandoc(text)
    return descriptions
