"""Members of ``Word`` and ``Status`` enums as dictionary keys."""

import pickle

from semq.umx_t.grids import SenderState
from semq.umx_t.status import SendStatus


def test_the_states_of_a_message_are_distinct_keys() -> None:
    numbers = {state: number for number, state in enumerate(SenderState)}
    assert [numbers[state] for state in SenderState] == list(range(len(SenderState)))


def test_statuses_are_keys_like_their_numbers() -> None:
    names = {status: status.name for status in SendStatus}
    assert names[SendStatus(20)] == "SS_SENT"
    assert {50: "the end"}[SendStatus.SS_ACK2] == "the end"


def test_an_unpickled_state_is_the_same_object() -> None:
    assert pickle.loads(pickle.dumps(SenderState.GONE)) is SenderState.GONE


def test_the_hash_functions_are_those_of_object_and_int() -> None:
    assert hash(SenderState.SS_SENT) == object.__hash__(SenderState.SS_SENT)
    assert hash(SendStatus.SS_SENT) == int(SendStatus.SS_SENT)
