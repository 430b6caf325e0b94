"""A unit is written if any of its fields, except those with loaded rows, has content."""

import pytest

from semq.store.postgres.changes import LOADED, is_read_only
from semq.store.unit import Unit


def unit_with(name: str) -> Unit:
    unit = Unit()
    setattr(unit, name, {1: 1})
    return unit


def test_an_empty_unit_is_read_only() -> None:
    assert is_read_only(Unit())


@pytest.mark.parametrize("name", Unit.__struct_fields__)
def test_a_unit_is_written_if_any_field_but_the_loaded_rows_has_content(name: str) -> None:
    assert is_read_only(unit_with(name)) == (name in LOADED)


def test_a_unit_that_empties_tb_0031_wait_is_written() -> None:
    unit = Unit()
    unit.submissions_wait = {}
    assert not is_read_only(unit)
