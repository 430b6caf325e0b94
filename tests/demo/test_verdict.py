"""The numbers at the end say exactly what was lost, doubled, changed or left."""

import json
from collections.abc import Callable

import pytest

from semq.demo.board import Board
from semq.demo.verdict import count, percentile
from tests.demo.test_board import document, event, sent

CLEAN = {"10008.tb_0031": 0, "hub.tb_0031": 0, "56001.tb_0030": 0}


def good() -> Board:
    board = Board()
    for number in range(3):
        sent(board, f"L{number}")
        board.told(event("delivered", f"L{number}"), 2.0)
        board.given(document(f"L{number}"))
    board.told(event("stored", "L0"), 2.0)
    return board


def test_a_good_end() -> None:
    verdict = count(good(), CLEAN, 1)
    assert verdict.is_good
    told = json.loads(json.dumps(verdict.as_json()))
    expected = {"ok": True, "accepted": 3, "forwarded": 2, "stored": 1, "delivered": 3, "received": 3, "restarts": 1}
    assert told | expected == told
    assert [told[name] for name in ("duplicated", "lost", "left_in_queues", "digest_mismatches")] == [0, 0, 0, 0]
    assert told["left_in_each_queue"] == CLEAN


def unread(board: Board) -> None:
    board.items[0].was_received = False


def undelivered(board: Board) -> None:
    board.items[0].state = "stored"


def given_twice(board: Board) -> None:
    board.given(document("L0"))


def accepted_twice(board: Board) -> None:
    board.given(document("a stranger"))


def changed(board: Board) -> None:
    board.items[0].digest_received = "other"


def refused(board: Board) -> None:
    board.items[0].state, board.items[0].lk0 = "refused", ""


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (unread, "lost"),
        (undelivered, "lost"),
        (given_twice, "duplicated"),
        (accepted_twice, "duplicated"),
        (changed, "digest_mismatches"),
        (refused, "refused"),
    ],
)
def test_a_bad_end_has_a_number(spoil: Callable[[Board], None], name: str) -> None:
    board = good()
    spoil(board)
    verdict = count(board, CLEAN, 0)
    assert not verdict.is_good
    assert verdict.as_json()[name] == 1


def test_what_is_left_in_a_queue_is_not_good() -> None:
    verdict = count(good(), CLEAN | {"hub.tb_0031": 2}, 0)
    assert (verdict.is_good, verdict.left_in_queues) == (False, 2)


def test_percentiles_are_values_that_were_met() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (50, 99, 100)
    assert percentile([7.0], 0.99) == 7
    assert percentile([], 0.5) == 0
