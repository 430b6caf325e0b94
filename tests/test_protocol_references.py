"""The protocol defines every reference such as S5c, N14 or B01."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import ROOT, at, committed, protocol

# Letter | kind of reference | form of its definition in PROTOCOL.md
DEFINITIONS: dict[str, tuple[str, str]] = {
    "S": ("event of the sender", r"^\| (S\d+[a-c]?) \|"),
    "H": ("event of the hub", r"^\| (H\d+[a-c]?) \|"),
    "R": ("event of the receiver", r"^\| (R\d+[a-c]?) \|"),
    "I": ("invariant", r"\b(I\d)\b"),
    "N": ("rule", r"^\| (N\d+b?) "),
    "B": ("break of the design", r"^\| (B\d\d) \|"),
    "F": ("break found while correcting the design", r"\b(F\d+) "),
}
# Sections with definitions in running text.
IN_TEXT = {"I": r"^## 6\..*?^## ", "F": r"^## 9\..*?^## "}
REFERENCE = re.compile(r"(?<![-\w.`'\"/])([SHRINBF]\d{1,2}[a-c]?)(?![-\w'\"])")
# File with a name that only looks like a reference | its meaning
OTHERS: dict[str, str] = {
    "spark_reconcile/DESIGN.md": "S0001 is an AppKey",
}
# Tests that cite PROTOCOL.md in strings.
TABLES = ("tests/simulation/", "tests/crash/")


def defined() -> dict[str, set[str]]:
    """Return the names that the protocol defines, by letter."""
    text = protocol()
    definitions = {}
    for letter, (_, pattern) in DEFINITIONS.items():
        section = re.search(IN_TEXT[letter], text, re.DOTALL | re.MULTILINE) if letter in IN_TEXT else None
        definitions[letter] = set(re.findall(pattern, section[0] if section else text, re.MULTILINE))
    return definitions


def cited(file: Path) -> Iterator[tuple[int, str]]:
    """Yield line and name of each reference in a file.

    In tests outside TABLES, only comments and the first and last lines of docstrings count.
    """
    name = str(file.relative_to(ROOT))
    lines = file.read_text("utf-8").splitlines()
    if name.startswith("tests/") and not name.startswith(TABLES):
        lines = [line if '"""' in line else line[line.find("# ") :] if "# " in line else "" for line in lines]
    for number, line in enumerate(lines, start=1):
        yield from ((number, name) for name in REFERENCE.findall(line))


def sources() -> list[Path]:
    return [file for file in committed() if file.suffix in (".py", ".md") and str(file.relative_to(ROOT)) not in OTHERS]


def test_each_kind_of_reference_has_definitions() -> None:
    counts = {letter: len(names) for letter, names in defined().items()}
    assert min(counts.values()) >= 6, counts


def test_every_reference_is_defined() -> None:
    names = set().union(*defined().values())
    unknown = [f"{at(file, line)}: {name}" for file in sources() for line, name in cited(file) if name not in names]
    assert unknown == []


def test_rules_have_a_letter_of_their_own() -> None:
    wrong = [
        f"{at(file, number)}: {line.strip()}"
        for file in sources()
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1)
        if re.search(r"\b[Rr]ules? [SHRIBF]\d", line)
    ]
    assert wrong == []
