"""Figures of the house: circles are found, and their number only falls."""

from tests.house_figures import circles, figures, import_graph

CIRCLES_MAX = 4  # as many as there were when they were first counted


def test_circles_are_groups_that_import_one_another() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}, "g": set()}
    assert sorted(circles(graph)) == [["a", "b", "c"], ["d", "e"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_no_new_circle_is_drawn() -> None:
    found = circles(import_graph())
    assert len(found) <= CIRCLES_MAX, found
    assert figures()["modules"] == len(import_graph())
