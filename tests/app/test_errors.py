"""Errors reported by a node: they keep the node's code, and their class states who can correct them."""

from semq.app import NodeBusy, RefusedByNode
from semq.app.errors import IncompleteAnswer, node_error
from semq.errors import BadInput, Unavailable


def test_a_refusal_has_the_code_of_the_node() -> None:
    error = node_error({"code": "SEMQ-1201", "text": "No such target.", "remedy": "Look.", "facts": {"target": "9"}})
    assert isinstance(error, RefusedByNode)
    assert isinstance(error, BadInput)
    assert error.advice() == "SEMQ-1201 No such target. (target='9') — Look."


def test_a_temporary_refusal_may_be_repeated() -> None:
    error = node_error({"code": "SEMQ-1230", "text": "Stopping.", "retry": True})
    assert isinstance(error, NodeBusy)
    assert isinstance(error, Unavailable)
    assert (error.code, error.remedy) == ("SEMQ-1230", NodeBusy.remedy)


def test_an_answer_without_an_error_is_a_refusal() -> None:
    assert node_error({}).code == RefusedByNode.code


def test_an_incomplete_answer_has_its_partial_result() -> None:
    error = node_error({"code": "SEMQ-2104", "text": "x", "retry": True, "facts": {"store 1.1": "gone"}}, [1])
    assert isinstance(error, IncompleteAnswer)
    assert (error.result, error.code, error.facts) == ([1], "SEMQ-2104", {"store 1.1": "gone"})
