"""The decision whether a unit is written: each field with changes counts, so that no change is lost."""

import pytest

from semq.store.postgres.changes import LOADED, is_read_only
from semq.store.unit import Unit


def unit_with(name: str) -> Unit:
    unit = Unit()
    setattr(unit, name, {1: 1})
    return unit


def test_an_empty_unit_is_only_read() -> None:
    assert is_read_only(Unit())


@pytest.mark.parametrize("name", Unit.__slots__)
def test_a_unit_is_written_when_anything_is_staged(name: str) -> None:
    assert is_read_only(unit_with(name)) == (name in LOADED)


def test_the_end_of_the_last_wait_is_written() -> None:
    unit = Unit()
    unit.submissions_wait = {}
    assert not is_read_only(unit)
