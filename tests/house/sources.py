"""The sources as the house tests read them."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def modules() -> dict[str, Path]:
    """Return every module of the product by its dotted name."""
    folders = ("semq", "local_node", "platform_node", "spark_reconcile")
    files = (file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    return {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in files}


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"), filename=str(file))


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's syntax tree. The walk takes longer than most checks, so the result is kept."""
    return tuple(ast.walk(tree(file)))


@cache
def imports(file: Path) -> tuple[tuple[int, str], ...]:
    """Return every imported name, as (line, "package.module" or "package.module.name")."""
    found = []
    for node in nodes(file):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return tuple(found)


@cache
def committed() -> list[Path]:
    """Return the files under version control; in an unpacked archive, all files except generated ones."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return [file for name in listed.stdout.split("\0") if name and (file := ROOT / name).is_file()]
    hidden = {".venv", ".git", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "__pycache__", "var"}
    return [file for file in ROOT.rglob("*") if file.is_file() and not hidden & set(file.relative_to(ROOT).parts)]


PROTOCOL = (ROOT / "PROTOCOL.md", *sorted((ROOT / "docs" / "protocol").glob("*.md")))


@cache
def protocol() -> str:
    """Return the text of the protocol: its core, then the pages of its parts."""
    return "\n".join(file.read_text("utf-8") for file in PROTOCOL)


def at(file: Path, line: int) -> str:
    return f"{file.relative_to(ROOT)}:{line}"


@cache
def names_in(file: Path) -> set[str]:
    """Return the names that a module defines or uses."""
    parts = ((getattr(node, part, None) for part in ("id", "attr", "arg", "name")) for node in nodes(file))
    return {name for names in parts for name in names if isinstance(name, str)}


def code_of(node: ast.ClassDef) -> str | None:
    """Return the text that a class assigns to ``code``, or None."""
    for line in node.body:
        target = (
            line.target
            if isinstance(line, ast.AnnAssign)
            else line.targets[0]
            if isinstance(line, ast.Assign)
            else None
        )
        if isinstance(target, ast.Name) and target.id == "code" and isinstance(line, ast.Assign | ast.AnnAssign):
            return (
                line.value.value if isinstance(line.value, ast.Constant) and isinstance(line.value.value, str) else None
            )
    return None


def faults_of_prose(docstring: str) -> Iterator[str]:
    """Yield the signs of a sentence that was cut in two."""
    first, *rest = docstring.split("\n\n")
    # Without code, and intervals such as [0, 1).
    prose = re.sub(r"``[^`]*``|\[\d+, \d+\)", "", first)
    if prose.count("(") != prose.count(")"):
        yield "the first paragraph has an open bracket"
    # An indented paragraph is a table or code.
    if rest and re.match(r"(And|But|Or)\b|\d+\)|[a-z]+ [a-z]", rest[0]):
        yield "the second paragraph begins in the middle of a sentence"


@cache
def modules_without_test() -> list[str]:
    """Return the modules of the product without a test file of their name.

    Packages, entry points, migrations and modules ``errors`` need none.
    """
    named = [name for name in modules() if not name.startswith("semq.store.migrations.")]
    named = [name for name in named if name.rpartition(".")[2] not in ("__init__", "__main__", "errors")]
    return [name for name in named if not any(map(Path.exists, possible_tests(name)))]


def possible_tests(module: str) -> Iterator[Path]:
    """Yield the possible test files of a module: test_NAME.py, test_NAME_*.py, and those in a folder NAME."""
    place = ROOT.joinpath("tests", *module.removeprefix("semq.").split("."))
    yield place.with_name(f"test_{place.name}.py")
    yield from place.parent.glob(f"test_{place.name}_*.py")
    yield from place.glob("test_*.py")


def has_module(folder: Path, subject: str) -> bool:
    """Return whether a folder has a module whose name is ``subject`` or its first words."""
    words = subject.split("_")
    stems = ["_".join(words[:n]) for n in range(len(words), 0, -1)]
    return any((folder / f"{stem}.py").exists() or (folder / stem).is_dir() for stem in stems)
