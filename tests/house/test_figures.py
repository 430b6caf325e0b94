"""Figures of the sources: every circle of imports is found, and every module is counted."""

from tests.covered import COVERED
from tests.house.figures import circles, figures, import_graph


def test_circles_are_groups_that_import_one_another() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}, "g": set()}
    assert sorted(circles(graph)) == [["a", "b", "c"], ["d", "e"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_every_module_is_counted() -> None:
    assert figures()["modules"] == len(import_graph())


def test_modules_without_a_test_of_their_name_are_counted_and_all_have_a_row() -> None:
    found = figures()
    assert (found["unmirrored"], found["uncovered"]) == (len(COVERED), 0)
