"""Reading of grids: dots keep the state, exclamation marks are impossible, and an unknown word fails at import."""

from enum import Enum

import pytest

from semq.umx_t.errors import ImpossibleNews
from semq.umx_t.grid import Grid, GridRule

Light = Enum("Light", "RED GREEN")
Seen = Enum("Seen", "car night")
Act = Enum("Act", "stop")
TEXT = """
light   RED        GREEN
car     GREEN      .:stop
night   !          RED
"""


def grid(text: str = TEXT) -> Grid[Light, Seen, Act]:
    return Grid(text, Light, Seen, Act)


def test_a_grid_is_read_cell_by_cell() -> None:
    lights = grid()
    assert lights.name == "light"
    assert lights.columns == (Light.RED, Light.GREEN)
    assert lights.rows == (Seen.car, Seen.night)
    assert lights.step(Light.RED, Seen.car) == GridRule(Light.GREEN, None)
    assert lights.step(Light.GREEN, Seen.car) == GridRule(Light.GREEN, Act.stop)
    assert list(lights.cells()) == [(Light.RED, Seen.car), (Light.GREEN, Seen.car), (Light.GREEN, Seen.night)]
    assert lights.rules()[Light.RED, Seen.night] is None


def test_an_impossible_event_is_a_violation_with_facts() -> None:
    with pytest.raises(ImpossibleNews) as refusal:
        grid().step(Light.RED, Seen.night)
    assert refusal.value.facts == {"grid": "light", "standing": "RED", "news": "night"}


@pytest.mark.parametrize(
    ("word", "instead"),
    [("GREEN  ", "GREN  "), ("car", "cart"), (":stop", ":stup"), ("     GREEN", "     BLUE"), ("!", "? !")],
)
def test_a_misspelt_word_or_a_cell_too_many_fails(word: str, instead: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        grid(TEXT.replace(word, instead, 1))
