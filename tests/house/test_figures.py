"""Figures of the sources: every circle of imports is found, and every module is counted."""

from tests.covered import COVERED
from tests.house.figures import circles, figures, import_graph, untyped_answers

OWN = "an endpoint of the web process, whose answer is described in the documentation"
# Endpoint whose answer has no schema | why
UNTYPED = dict.fromkeys(("documents.submit", "inbox.receive", "openapi"), OWN)


def test_circles_are_groups_that_import_one_another() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}, "g": set()}
    assert sorted(circles(graph)) == [["a", "b", "c"], ["d", "e"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_every_module_is_counted() -> None:
    assert figures()["modules"] == len(import_graph())


def test_modules_without_a_test_of_their_name_are_counted_and_all_have_a_row() -> None:
    found = figures()
    assert (found["unmirrored"], found["uncovered"]) == (len(COVERED), 0)


def test_each_answer_without_a_schema_has_a_reason() -> None:
    found = {name.removesuffix(".post") for names in untyped_answers().values() for name in names}
    assert found == UNTYPED.keys()
