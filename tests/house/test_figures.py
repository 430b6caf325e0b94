"""Figures of the sources: every circle of imports is found, and every module is counted."""

from tests.covered import COVERED
from tests.house.figures import circles, figures, import_graph, untyped_answers

ROWS = "the row of a message has other facts for each side and state, and is a mapping in the views"
LEDGER = "the lines of a ledger are mappings, as other nodes and older versions send them"
OWN = "an endpoint of the web process, whose answer is described in the documentation"
# Endpoint whose answer has no schema | why
UNTYPED = {
    "msg.show": ROWS, "msg.list": ROWS, "msg.body": ROWS, "stuck.explain": ROWS, "stuck.list": ROWS,
    "stuck.causes": ROWS, "failed.list": ROWS, "failed.show": ROWS, "queue.census": ROWS, "held.list": ROWS,
    "documents.search": ROWS, "documents.show": ROWS, "msg.trace": LEDGER, "documents.trace": LEDGER,
    "documents.submit": OWN, "inbox.receive": OWN, "who": OWN, "openapi": OWN,
}  # fmt: skip


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
