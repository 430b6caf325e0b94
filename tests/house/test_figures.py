"""Figures of the sources: every circle of imports is found, and every module is counted."""

from collections import Counter

from tests.covered import COVERED
from tests.house.figures import circles, figures, import_graph, untyped_answers
from tests.house.sources import modules

HEADERS = "field tables of AMQP and headers of applications have any values"
JSON_IN = "JSON of another program or version, read before it is checked"
SHOWN = "answers of a node of any version, shown by their names; absent fields are empty"
SQL = "columns of a query or parameters of a statement"
TEMPLATE = "variables of a page or a chart"
# Room | how often it has the type ``dict[str, Any]``, at most (lower it when it has fewer) | why
DICT_ANY = {
    "semq.amqp": (2, HEADERS), "semq.umx_t": (2, HEADERS), "semq.broker": (4, HEADERS), "semq.app": (2, HEADERS),
    "local_node.doors": (2, HEADERS), "local_node": (4, JSON_IN), "platform_node": (2, JSON_IN),
    "semq.cli": (9, SHOWN), "semq.config": (4, "sections of a TOML file, before they are checked"),
    "semq.console": (5, TEMPLATE), "semq.web": (7, "JSON schemas, forms and arguments of the HTTP API"),
    "semq.store": (4, SQL), "semq.engine": (2, "parameters of errors and of constructors"),
    "semq.service": (2, JSON_IN), "semq.folders": (1, JSON_IN), "semq.legacy": (4, "rows of unknown tables"),
    "semq.demo": (1, SHOWN), "spark_reconcile": (2, SQL),
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


def test_every_answer_has_a_schema() -> None:
    assert not any(untyped_answers().values())


def test_each_use_of_the_type_of_any_mapping_is_in_a_room_that_has_a_reason() -> None:
    found = Counter[str]()
    for name, file in modules().items():
        if uses := file.read_text("utf-8").count("dict[str, Any]"):
            parts = name.split(".")
            rooms = [".".join(parts[:length]) for length in (2, 1)]
            found[next(room for room in rooms if room in DICT_ANY)] += uses
    assert {room: uses for room, uses in found.items() if uses > DICT_ANY[room][0]} == {}
