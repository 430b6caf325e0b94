"""News in any order, twice or late: a document on the board only ever goes forward."""

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.app import AppKey, Document, Event, Sent
from semq.app.values import EPOCH
from semq.demo.board import FINAL, STATES, Board, Item
from semq.demo.papers import Paper

BODY = b"an order"
DIGEST = sha256(BODY).hexdigest()


def event(kind: str, lk0: str = "L") -> Event:
    return Event(kind, lk0, "1.56001", AppKey(), EPOCH)


def document(lk0: str = "L", *, redelivered: bool = False, payload: bytes = BODY) -> Document:
    return Document(lk0, "1.10008", "1.56001", AppKey(), payload, DIGEST, redelivered=redelivered)


def sent(board: Board, lk0: str = "L") -> Item:
    item = Item(len(board.items) + 1, Paper(Path("o.xml"), "o.xml"), "online")
    board.items.append(item)
    board.sending(item, BODY, 1.0)
    board.accepted(item, Sent(lk0, DIGEST), 1.5)
    return item


@given(st.lists(st.sampled_from(["sent", "forwarded", "stored", "delivered", "failed", "strange"]), max_size=12))
def test_states_only_go_forward(kinds: list[str]) -> None:
    board = Board()
    item = sent(board)
    order = list(STATES)
    for now, kind in enumerate(kinds, 2):
        before, was_final = item.state, item.is_final
        changed = board.told(event(kind), float(now))
        assert order.index(item.state) >= order.index(before)
        assert (changed is item) == (item.state != before)
        assert not was_final or item.state == before
    assert item.is_final == (item.state in FINAL)


def test_the_time_is_taken_from_submit_to_the_end() -> None:
    board = Board()
    item = sent(board)
    board.told(event("delivered"), 3.0)
    board.told(event("delivered"), 9.0)
    assert item.took_ms == pytest.approx(2000)


def test_news_may_come_before_the_answer_of_the_own_node() -> None:
    board = Board()
    assert board.told(event("stored"), 1.0) is None
    assert board.told(event("delivered"), 1.0) is None
    assert board.given(document()) is None
    item = sent(board)
    assert (item.state, item.was_stored, item.was_received, item.is_intact) == ("delivered", True, True, True)


def test_changed_bytes_are_noticed() -> None:
    board = Board()
    item = sent(board)
    assert board.given(document(payload=b"another order")) is item
    assert item.was_received
    assert not item.is_intact


def test_a_marked_repeat_is_no_duplicate_and_an_unmarked_one_is() -> None:
    board = Board()
    sent(board)
    board.given(document())
    assert board.given(document(redelivered=True)) is None
    assert (board.repeats, board.duplicates) == (1, 0)
    board.given(document())
    assert (board.repeats, board.duplicates) == (1, 1)


def test_a_refused_document_is_open_no_more() -> None:
    board = Board()
    item = Item(1, Paper(Path("o"), "o"), "away")
    board.items.append(item)
    assert board.open("away") == [item]
    assert board.open("online") == []
    board.refused(item, "too large", 1.0)
    assert (board.open(), item.reason) == ([], "too large")
