"""``semq errors``: every error that SEMQ can raise, with its code, its sentence and its remedy, read from the
classes.
"""

import importlib.util
import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from semq.cli.desk import JsonOption
from semq.cli.errors import NoSuchCode
from semq.cli.output import Output
from semq.errors import SemqError

group = typer.Typer()
CODE = re.compile(r'^    code\b.* = "SEMQ-\d{4}"$', re.MULTILINE)  # an error is defined
PACKAGES = ("semq", "local_node", "platform_node", "spark_reconcile")


@group.command("list")
def list_(json: JsonOption = False) -> None:
    """All errors, by code."""
    out = Output(as_json=json)
    rows = [describe(error) for error in sorted(all_errors(), key=lambda error: error.code)]
    if json:
        out.data(rows)
    else:
        out.table((("code", "<"), ("meaning", "<")), ((row["code"], row["meaning"]) for row in rows))


@group.command()
def lookup(code: Annotated[str, typer.Argument(help="SEMQ-1201 or 1201")], json: JsonOption = False) -> None:
    """What one error means and what to do about it."""
    out = Output(as_json=json)
    wanted = code.upper() if code.upper().startswith("SEMQ-") else f"SEMQ-{code}"
    found = [describe(error) for error in all_errors() if error.code == wanted]
    if not found:
        raise NoSuchCode(code=wanted)
    for row in found:
        if json:
            out.data(row)
        else:
            out.facts(row)


def describe(error: type[SemqError]) -> dict[str, str]:
    """One class of errors."""
    return {
        "code": error.code,
        "name": error.__name__,
        "meaning": " ".join((inspect.getdoc(error) or "").split("\n\n")[0].split()),
        "remedy": error.remedy,
    }


def all_errors() -> list[type[SemqError]]:
    """Every class of errors with a code of its own; modules that need what is not installed are left out."""
    for package in PACKAGES:
        _import_all(package)
    found: dict[str, type[SemqError]] = {}
    for error in _below(SemqError):
        if "code" in error.__dict__:
            found.setdefault(error.code, error)
    return list(found.values())


def _import_all(package: str) -> None:
    """Import every module of a package that defines an error, whatever the module is called."""
    found = importlib.util.find_spec(package)
    for folder in found.submodule_search_locations or () if found else ():
        for file in sorted(Path(folder).rglob("*.py")):
            if CODE.search(file.read_text("utf-8")):
                parts = file.relative_to(folder).with_suffix("").parts
                with suppress(ImportError):
                    importlib.import_module(".".join((package, *parts)))


def _below(error: type[SemqError]) -> Iterator[type[SemqError]]:
    yield error
    for child in error.__subclasses__():
        yield from _below(child)
