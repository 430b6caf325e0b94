"""The docstring of each package of the product, of ``bench`` and of ``release`` names each module and package in it.

Names count in the first column of a table, and in double backquotes.
"""

import ast
import re
from pathlib import Path

from tests.house.sources import ROOT, modules

# Package | why its docstring does not name its modules
WITHOUT_MAP = {
    "semq": "ARCHITECTURE.md shows its packages, in floors",
    "semq.console.pages": "a module for each page, with its name; semq.console.routes lists them",
    "semq.store.migrations": "its modules are those that Alembic prescribes",
    "semq.store.migrations.versions": "numbered revisions",
}
FOLDERS = [file.parent for file in modules().values() if file.name == "__init__.py"]
FOLDERS += [file.parent for folder in ("bench", "release") for file in (ROOT / folder).rglob("__init__.py")]
PACKAGES = {".".join(folder.relative_to(ROOT).parts): folder for folder in FOLDERS}


def members(folder: Path) -> set[str]:
    """Return the names of the modules and packages in a package."""
    names = {each.stem for each in folder.glob("*.py")} | {each.parent.name for each in folder.glob("*/__init__.py")}
    return {name for name in names if not name.startswith("__")}


def named(folder: Path) -> set[str]:
    """Return the words in the first column of tables, and in double backquotes, of a docstring."""
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    first_cells = [line.split("|")[1] for line in docstring.splitlines() if line.startswith("|")]
    return set(re.findall(r"\w+", " ".join([*first_cells, *re.findall(r"``([^`]*)``", docstring)])))


def missing(package: str) -> set[str]:
    return members(PACKAGES[package]) - named(PACKAGES[package])


def test_packages_name_their_modules() -> None:
    assert {package: names for package in PACKAGES if package not in WITHOUT_MAP and (names := missing(package))} == {}
    assert [package for package in WITHOUT_MAP if not missing(package)] == []
