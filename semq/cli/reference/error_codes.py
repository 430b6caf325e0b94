"""``semq errors list|lookup``: all errors of SEMQ with code, meaning and remedy.

The errors are read from the sources: importing their classes would load all parts of all nodes.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

import semq
from semq.cli.errors import UnknownCode
from semq.cli.output.printer import Output
from semq.cli.session import JsonOption

group = typer.Typer()
CODE = re.compile(r'^    code\b.* = "SEMQ-\d{4}"$', re.MULTILINE)  # line in the class of an error
FIELDS = ("code", "remedy")
PACKAGES = ("semq", "local_node", "platform_node", "spark_reconcile")


@group.command("list")
def list_(json: JsonOption = False) -> None:
    """List all errors, sorted by code."""
    out = Output(as_json=json)
    rows = sorted(all_errors(), key=lambda row: row["code"])
    if json:
        out.data(rows)
    else:
        out.table("code, meaning", ((row["code"], row["meaning"]) for row in rows))


@group.command()
def lookup(
    code: Annotated[str, typer.Argument(metavar="CODE", help="SEMQ-1201 or 1201.")], json: JsonOption = False
) -> None:
    """Explain one error: its meaning and its remedy."""
    out = Output(as_json=json)
    full_code = code.upper() if code.upper().startswith("SEMQ-") else f"SEMQ-{code}"
    row = next((row for row in all_errors() if row["code"] == full_code), None)
    if row is None:
        raise UnknownCode(code=full_code)
    if json:
        out.data(row)
    else:
        out.facts(row)


def all_errors() -> list[dict[str, str]]:
    """Return a row for every code. A class without a remedy gets the remedy of its nearest base class with one."""
    classes = list(_classes())
    by_name = {definition.name: definition for definition in classes}
    rows: dict[str, dict[str, str]] = {}
    for definition in classes:
        facts = _facts(definition)
        if "code" not in facts:
            continue
        base = by_name.get(_base_of(definition))
        while base is not None and "remedy" not in facts:
            facts = _facts(base) | facts
            base = by_name.get(_base_of(base))
        meaning = " ".join((ast.get_docstring(definition) or "").split("\n\n")[0].split())
        row = {"code": facts["code"], "name": definition.name, "meaning": meaning, "remedy": facts.get("remedy", "")}
        rows.setdefault(facts["code"], row)
    return list(rows.values())


def _classes() -> Iterator[ast.ClassDef]:
    """Yield the classes of every module that defines codes of errors."""
    root = Path(semq.__file__).parents[1]
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            text = file.read_text("utf-8")
            if CODE.search(text):
                yield from (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))


def _facts(definition: ast.ClassDef) -> dict[str, str]:
    """Return the code and the remedy that a class itself sets."""
    facts = {}
    for node in definition.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id in FIELDS:
                facts[target.id] = str(ast.literal_eval(node.value))
    return facts


def _base_of(definition: ast.ClassDef) -> str:
    base = definition.bases[0] if definition.bases else None
    return base.id if isinstance(base, ast.Name) else ""
