"""Each row of long tests exists and has one turn; turns are equally long; a turn leaves out no other test."""

import re
from pathlib import Path

from tests.selection.turns import ALL, CHOICES, NUMBERS, TABLE, TODAY, TURNS, _turns_of, is_in_turn, turn_of_today

ROOT = Path(__file__).parents[2]
DIGITS = [choice for choice in CHOICES if choice.isdigit()]


def test_every_row_is_an_existing_test_and_in_one_turn() -> None:
    assert len(NUMBERS) == sum(map(len, TURNS)) == len(TABLE.strip().splitlines())
    for name in NUMBERS:
        file, _, test = name.partition("::")
        source = (ROOT / file).read_text("utf-8")
        assert not test or re.search(
            rf"^(async )?(def|class) {test}\b|^{test.partition('::')[0]} =", source, re.MULTILINE
        ), name


def test_turns_are_equally_long() -> None:
    seconds = [sum(turn.values()) for turn in TURNS]
    assert max(seconds) - min(seconds) <= 10


def test_the_next_row_is_in_the_turn_that_is_the_shortest_so_far() -> None:
    assert _turns_of("2 a\n9 b\n+ e\n4 c\n3 d", 2) == (
        {"tests/b": 9, "tests/e": 0},
        {"tests/c": 4, "tests/d": 3, "tests/a": 2},
    )


def test_a_long_test_is_in_one_turn_and_other_tests_are_in_all() -> None:
    assert len(DIGITS) == len(TURNS) == 7
    for turn, digit in zip(TURNS, DIGITS, strict=True):
        for name in turn:
            node_id = f"{name}[a]" if "::" in name else f"{name}::test_a[a::b]"
            assert [choice for choice in DIGITS if is_in_turn(node_id, choice)] == [digit]
            assert is_in_turn(node_id, ALL)
    assert all(is_in_turn("tests/selection/test_turns.py::test_a", choice) for choice in (*DIGITS, ALL))


def test_today_is_one_of_the_turns() -> None:
    assert turn_of_today() in set(CHOICES) - {ALL, TODAY}
