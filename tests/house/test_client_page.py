"""The measured tables of docs/applications/values.md are complete, and SEMQ lost nothing."""

import pytest

from tests.interop.matrix.page import IN_DOCUMENT, NOTHING_LOST, PAGE
from tests.interop.matrix.values import PROPERTIES, RECEIVED, SENT

CLIENTS_MIN = 12
PROPERTY_NAMES = [f"`{given.name}`" for given in PROPERTIES]


def table(name: str) -> list[list[str]]:
    """Return the cells of a table, with its headings."""
    _, _, rest = PAGE.read_text("utf-8").partition(f"<!-- {name} -->")
    text, _, _ = rest.partition(f"<!-- end of {name} -->")
    lines = [line for line in text.strip().splitlines() if "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize(
    ("name", "first_cells", "of_interfaces"),
    [
        ("values sent", [given.name for given in SENT], 3),
        ("values received", [f"`{name[0]}`{name[1:]}" for name in RECEIVED], 5),
        ("properties sent", PROPERTY_NAMES, 3),
        ("properties received", PROPERTY_NAMES, 0),
    ],
)
def test_each_value_has_a_row_and_each_client_a_cell(name: str, first_cells: list[str], of_interfaces: int) -> None:
    heading, *rows = table(name)
    assert [row[0] for row in rows] == first_cells
    assert len(heading) >= CLIENTS_MIN
    assert {len(row) for row in rows} == {len(heading)}
    versions = [name.split()[-1] for name in heading[1:] if "." in name and name != "semq.app"]
    assert len(versions) >= len(heading) - 2 - of_interfaces
    assert all(version[0].isdigit() for version in versions)


def test_semq_lost_nothing() -> None:
    heading, *rows = table("values sent")
    assert heading[-1] == "SEMQ"
    assert {row[-1] for row in rows} == {NOTHING_LOST}
    heading, *rows = table("values received")
    assert {row[heading.index("semq.app")] for row in rows} == {"✓"}
    heading, *rows = table("properties sent")
    assert [row[-1] for row in rows] == list(IN_DOCUMENT.values())
    heading, *rows = table("properties shown")
    hidden = {row[0] for row in rows if "–" in row}
    assert hidden == {"`delivery_mode`", "`reply_to`", "`expiration`", "`user_id`"}
