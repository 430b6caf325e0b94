"""Answers of operations as structs."""

import pytest

from semq.answers.status import NodeStatus
from semq.app.answers import read_answer
from semq.app.errors import UnreadableAnswer


def test_an_answer_of_another_version_is_read_as_far_as_it_is_known() -> None:
    status = read_answer(NodeStatus, {"node": "1.10008", "amqp": {"channels": 3, "later": 1}, "later": []})
    assert status.amqp is not None
    assert (status.node, status.amqp.channels, status.store_open) == ("1.10008", 3, None)


def test_an_answer_of_another_form_is_an_error_that_names_the_place() -> None:
    with pytest.raises(UnreadableAnswer, match=r"\$.amqp.channels"):
        read_answer(NodeStatus, {"amqp": {"channels": "3"}})
