"""Markdown documents: whole tables, links to existing targets, numbered decisions, names of existing modules."""

import re
from collections.abc import Iterator
from itertools import groupby

import pytest

from semq import __version__
from tests.house.sources import ROOT, committed

DOCUMENTS = sorted(str(file.relative_to(ROOT)) for file in committed() if file.suffix == ".md")
TESTS = [file for file in committed() if file.name.startswith("test_") and file.suffix == ".py"]
DOCS = ROOT / "docs"
BORDER = re.compile(r"(?<!\\)\|")
RULE = re.compile(r"^\|[\s:|-]+$")


def tables(text: str) -> Iterator[list[tuple[int, str]]]:
    """Yield the rows of each table of a document, with the numbers of their lines; code blocks have no tables."""
    is_code, lines = False, list[tuple[int, str]]()
    for number, line in enumerate(text.splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        lines.append((number, "" if is_code else line))
    for is_table, rows in groupby(lines, key=lambda numbered: numbered[1].startswith("|")):
        if is_table:
            yield list(rows)


def faults(text: str) -> list[int]:
    found = []
    for rows in tables(text):
        number, heading = rows[0]
        if len(rows) < 2 or not RULE.match(rows[1][1]):
            found.append(number)  # also the rest of a table after an empty line
        width = len(BORDER.findall(heading))
        found += [number for number, row in rows if len(BORDER.findall(row)) != width]
    return found


@pytest.mark.parametrize("name", DOCUMENTS)
def test_tables_have_a_heading_and_equal_rows(name: str) -> None:
    assert faults((ROOT / name).read_text("utf-8")) == []


def test_broken_tables_are_found() -> None:
    heading = "| a | b |\n|---|---|\n"
    assert faults(f"{heading}| 1 | 2 |\n") == []
    assert faults(f"{heading}| 1 | `a|b` |\n\n| 3 | 4 |\n") == [3, 5]
    assert faults("```\n| grid\n```\n") == []


LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_heading_follows_an_empty_line(name: str) -> None:
    """After a table, a heading would be one of its rows."""
    is_code, before, found = False, "", []
    for number, line in enumerate((ROOT / name).read_text("utf-8").splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if not is_code and before and re.match(r"#{1,6} ", line):
            found.append(number)
        before = line.strip()
    assert found == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_to_files_and_headings(name: str) -> None:
    broken, folder = [], (ROOT / name).parent
    for link in LINK.findall((ROOT / name).read_text("utf-8")):
        address, _, anchor = link.partition("#")
        target = folder / address if address else ROOT / name
        if target.resolve().is_relative_to(DOCS / "reference"):
            target = ROOT / "documentation" / "reference"  # made when the site is built, which checks the link
            anchor = ""
        if "://" not in link and not (target.exists() and (not anchor or anchor in anchors(target.read_text("utf-8")))):
            broken.append(link)
    assert broken == []


def test_packages_are_installed_from_files() -> None:
    """A command with the bare name would install the package that somebody else has on PyPI, or replace SEMQ by it."""
    by_name = re.compile(r"(?:pip|pipx|tool) (?:install|upgrade)(?: +-\S+)* +['\"]?semq(?:\[|$|[\s`'\"])", re.MULTILINE)
    texts = {
        str(file.relative_to(ROOT)): file.read_text("utf-8", errors="replace")
        for file in committed()
        if not file.is_relative_to(ROOT / "tests")
    }
    assert {name: found for name, text in texts.items() if (found := by_name.findall(text))} == {}
    wheels = {name for text in texts.values() for name in re.findall(r"semq-\d[\d.]*-py3-none-any\.whl", text)}
    assert wheels == {f"semq-{__version__}-py3-none-any.whl"}


def test_anchors_are_those_of_github() -> None:
    assert anchors("# A store, lost\n## `[http]` and more\n") == {"a-store-lost", "http-and-more"}


def test_each_decision_has_its_own_number_in_order_and_a_subject() -> None:
    text = (ROOT / "DECISIONS.md").read_text("utf-8")
    numbers = [int(found) for found in re.findall(r"^(\d+)\. \*\*", text, re.MULTILINE)]
    assert numbers == sorted(set(numbers))
    ranges = [
        each.partition("–")
        for row in re.findall(r"^\|.*\| (\d[\d,– ]*) \|$", text, re.MULTILINE)
        for each in row.split(", ")
    ]
    assert {number for first, _, last in ranges for number in range(int(first), int(last or first) + 1)} == set(numbers)


EXAMPLES = {
    "shop.py",
    "semq/store/migrations/versions/vNNNN_subject.py",
    "test_a_revoked_node_is_refused",
    "test_what_is_refused",
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_named_modules_and_tests_exist(name: str) -> None:
    """A module may be named by the end of its path."""
    text, files = (ROOT / name).read_text("utf-8"), [f"/{file.relative_to(ROOT)}" for file in committed()]
    tests = {test for file in TESTS for test in re.findall(r"def (test_\w+)", file.read_text("utf-8"))}
    tests |= {file.stem for file in TESTS}
    modules = set(re.findall(r"`([\w./]+\.py)`", text)) - EXAMPLES
    assert {module for module in modules if not any(file.endswith(f"/{module}") for file in files)} == set()
    assert set(re.findall(r"`(test_\w+)`", text)) - EXAMPLES - tests == set()


def test_the_picture_of_the_rooms_names_the_upper_packages() -> None:
    picture = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## Rooms")[2].partition("## ")[0]
    named = set(re.findall(r"\w+", picture))
    packages = {file.parent.relative_to(ROOT) for file in committed() if file.name == "__init__.py"}
    houses = ("semq", "local_node", "platform_node")
    rooms = {package for package in packages if package.parts[0] in houses and len(package.parts) <= 3}
    assert {str(room) for room in rooms if room.name not in named} == set()
