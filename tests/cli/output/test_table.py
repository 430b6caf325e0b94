"""Tables for people: complete, and not wider than the terminal while the short columns fit."""

from hypothesis import given
from hypothesis import strategies as st

from semq.cli.output.table import WHOLE_MAX, cells, folded, lines_of

COLUMNS = (("name", "<"), ("size", ">"), ("document", "<"))


def test_a_table_is_heading_line_and_rows() -> None:
    assert list(lines_of(COLUMNS, [["1-4F2K", "12", "order S1"], ["2", "7", ""]], 80)) == [
        "name    size  document",
        "──────────────────────",
        "1-4F2K    12  order S1",
        "2          7",
    ]


def test_a_long_column_is_folded_between_words_and_short_ones_stay_whole() -> None:
    result = list(lines_of(COLUMNS, [["1-4F2K-9QX7M", "12", "an order with a key of many words " + "x" * 40]], 50))
    assert result[2].startswith("1-4F2K-9QX7M    12  an order with a key of many")
    assert "".join(line[20:] for line in result[2:]).replace(" ", "").endswith("x" * 40)
    assert max(map(cells, result)) <= 50


def test_wide_characters_count_twice_and_combining_ones_not() -> None:
    assert (cells("单据"), cells("e\u0301"), cells("ab")) == (4, 1, 2)
    assert folded("单据单据", 5) == ["单据", "单据"]
    assert folded("单", 1) == ["单"]  # a character that does not fit is printed anyway


@given(
    rows=st.lists(st.lists(st.text(st.characters(exclude_categories=("C", "Z")), max_size=60), min_size=3, max_size=3)),
    width=st.integers(20, 120),
)
def test_every_character_of_a_cell_is_shown(rows: list[list[str]], width: int) -> None:
    result = list(lines_of(COLUMNS, rows, width))
    assert sorted("".join("".join(row) for row in rows)) == sorted("".join(result[2:]).replace(" ", ""))
    room = max(width, 3 * WHOLE_MAX + 4)
    assert all(cells(line) <= room for line in result)
