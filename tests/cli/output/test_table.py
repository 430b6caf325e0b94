"""Tables show every character, and are not wider than the terminal if their short columns fit."""

from hypothesis import given
from hypothesis import strategies as st

from semq.cli.output.table import UNFOLDED_MAX, fold, lines_of, width_of

COLUMNS = (("name", "<"), ("size", ">"), ("document", "<"))


def test_a_table_has_headings_a_rule_and_rows() -> None:
    assert list(lines_of(COLUMNS, [["1-4F2K", "12", "order S1"], ["2", "7", ""]], 80)) == [
        "name    size  document",
        "──────────────────────",
        "1-4F2K    12  order S1",
        "2          7",
    ]


def test_a_long_column_is_folded_between_words_and_short_ones_are_not() -> None:
    result = list(lines_of(COLUMNS, [["1-4F2K-9QX7M", "12", "an order with a key of many words " + "x" * 40]], 50))
    assert result[2].startswith("1-4F2K-9QX7M    12  an order with a key of many")
    assert "".join(line[20:] for line in result[2:]).replace(" ", "").endswith("x" * 40)
    assert max(map(width_of, result)) <= 50


def test_wide_characters_count_twice_and_combining_ones_do_not_count() -> None:
    assert (width_of("单据"), width_of("e\u0301"), width_of("ab")) == (4, 1, 2)
    assert fold("单据单据", 5) == ["单据", "单据"]
    assert fold("单", 1) == ["单"]  # a character that does not fit is printed anyway


@given(
    rows=st.lists(st.lists(st.text(st.characters(exclude_categories=("C", "Z")), max_size=60), min_size=3, max_size=3)),
    width=st.integers(20, 120),
)
def test_every_character_of_a_cell_is_shown(rows: list[list[str]], width: int) -> None:
    result = list(lines_of(COLUMNS, rows, width))
    assert sorted("".join("".join(row) for row in rows)) == sorted("".join(result[2:]).replace(" ", ""))
    width_max = max(width, 3 * UNFOLDED_MAX + 4)
    assert all(width_of(line) <= width_max for line in result)
