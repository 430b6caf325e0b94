"""The measured tables of docs/clients.md are complete, and SEMQ lost nothing."""

from tests.interop.matrix.page import BEGIN, END, NOTHING_LOST, PAGE
from tests.interop.matrix.values import RECEIVED, SENT

CLIENTS_MIN = 12


def tables() -> list[list[list[str]]]:
    """Return the cells of both tables, with their headings."""
    _, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    text, _, _ = rest.partition(END)
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    return [
        [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if "---" not in line]
        for lines in blocks
    ]


def test_each_value_has_a_row_and_each_client_a_cell() -> None:
    senders, receivers = tables()
    assert [row[0] for row in senders[1:]] == [given.name for given in SENT]
    assert [row[0] for row in receivers[1:]] == [f"`{name[0]}`{name[1:]}" for name in RECEIVED]
    for heading, *rows in (senders, receivers):
        assert len(heading) > CLIENTS_MIN
        assert {len(row) for row in rows} == {len(heading)}
        versions = [name.split()[-1] for name in heading[1:] if "." in name and name != "semq.app"]
        assert len(versions) >= len(heading) - 5
        assert all(version[0].isdigit() for version in versions)


def test_semq_lost_nothing() -> None:
    senders, receivers = tables()
    assert senders[0][-1] == "SEMQ"
    assert {row[-1] for row in senders[1:]} == {NOTHING_LOST}
    assert receivers[0][-1] == "semq.app"
    assert {row[-1] for row in receivers[1:]} == {"✓"}
