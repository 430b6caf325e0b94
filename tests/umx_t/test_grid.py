"""The reader of grids: dots, exclamation marks and unknown words."""

from enum import Enum

import pytest

from semq.umx_t.errors import ImpossibleEvent
from semq.umx_t.grid import Grid, GridRule

Light = Enum("Light", "RED GREEN")
LightEvent = Enum("LightEvent", "car night")
LightDeed = Enum("LightDeed", "stop")
TEXT = """
light   RED        GREEN
car     GREEN      .:stop
night   !          RED
"""


def grid(text: str = TEXT) -> Grid[Light, LightEvent, LightDeed]:
    return Grid(text, Light, LightEvent, LightDeed)


def test_a_grid_is_read_cell_by_cell() -> None:
    lights = grid()
    assert lights.name == "light"
    assert lights.columns == (Light.RED, Light.GREEN)
    assert lights.rows == (LightEvent.car, LightEvent.night)
    assert lights.step(Light.RED, LightEvent.car) == GridRule(Light.GREEN, None)
    assert lights.step(Light.GREEN, LightEvent.car) == GridRule(Light.GREEN, LightDeed.stop)
    assert list(lights.cells()) == [
        (Light.RED, LightEvent.car),
        (Light.GREEN, LightEvent.car),
        (Light.GREEN, LightEvent.night),
    ]
    assert lights.rules()[Light.RED, LightEvent.night] is None


def test_an_impossible_event_is_a_violation_with_facts() -> None:
    with pytest.raises(ImpossibleEvent) as refusal:
        grid().step(Light.RED, LightEvent.night)
    assert refusal.value.facts == {"grid": "light", "state": "RED", "event": "night"}


@pytest.mark.parametrize(
    ("word", "instead"),
    [("GREEN  ", "GREN  "), ("car", "cart"), (":stop", ":stup"), ("     GREEN", "     BLUE"), ("!", "? !")],
)
def test_a_misspelt_word_or_a_superfluous_cell_fails(word: str, instead: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        grid(TEXT.replace(word, instead, 1))
