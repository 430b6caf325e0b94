"""The functions for applications, as their roles may use them."""

import re
from collections.abc import Iterator

from documentation.reference.cells import plain
from documentation.sources import ROOT
from semq.store.postgres.roles import FUNCTIONS

SQL = ROOT / "semq" / "store" / "sql"
FUNCTION = re.compile(r"((?:^--[^\n]*\n)*)^CREATE OR REPLACE FUNCTION (\w+)(.*?)\nLANGUAGE ", re.DOTALL | re.MULTILINE)


INTRODUCTION = """\
What `semq db grant` allows to the role of an application. [SQL](../applications/sql.md) explains each with examples,
and has the columns of `semq_inbox`.
"""


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield INTRODUCTION
    for name, signature, comment in functions():
        if name in FUNCTIONS:
            yield from (f"## {name}", "", plain(comment), "", "```sql", f"{name}{signature}", "```", "")


def functions() -> Iterator[tuple[str, str, str]]:
    """Yield name, signature and comment of every function."""
    for file in sorted(SQL.glob("*.sql")):
        for comment, name, signature in FUNCTION.findall(file.read_text("utf-8")):
            yield name, signature, " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
