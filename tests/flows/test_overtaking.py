"""Large documents, whose bodies are stored ahead of their rows, and documents that overtake them."""

import pytest
from msgspec.structs import replace

from tests.flows.trio import CLEAN, SETTINGS, Trio

LARGE = b"large" * 20


@pytest.fixture
def trio() -> Trio:
    return Trio(replace(SETTINGS, ahead_bytes=len(LARGE)))


def arrived(trio: Trio) -> list[bytes]:
    """Let all work end; return the bodies that B's application has received."""
    trio.settle()
    assert trio.a.refused == []
    assert (trio.a.rows["tb_0031"], trio.b.rows["tb_0030"]) == (CLEAN["tb_0031"], len(trio.b.app.held))
    return trio.b.app.payloads


def test_a_small_document_overtakes_a_large_one(trio: Trio) -> None:
    trio.a.send(LARGE, b"small")
    assert arrived(trio) == [b"small", LARGE]


def test_a_small_document_overtakes_a_large_one_submitted_before(trio: Trio) -> None:
    trio.a.send(LARGE)
    trio.a.send(b"small")
    assert arrived(trio) == [b"small", LARGE]


def test_documents_with_one_order_key_keep_their_order(trio: Trio) -> None:
    trio.a.send(LARGE, b"small", order_key="k")
    trio.a.send(b"last", order_key="k")
    assert arrived(trio) == [LARGE, b"small", b"last"]


def test_documents_of_a_fixed_sequence_keep_their_order(trio: Trio) -> None:
    trio.a.send(LARGE, b"small", fixed=True)
    assert arrived(trio) == [LARGE, b"small"]


def test_a_large_document_of_class_2_is_not_overtaken(trio: Trio) -> None:
    trio.a.send(LARGE, b"small", save_fwd=2)
    assert arrived(trio) == [LARGE, b"small"]


def test_a_token_is_used_once_by_large_documents_too(trio: Trio) -> None:
    trio.a.send(LARGE, token="t")
    trio.a.send(LARGE, token="t")
    assert arrived(trio) == [LARGE]
    assert [each.repeated for each in trio.a.accepted] == [False, True]


def test_a_crash_before_the_commit_of_its_row_leaves_nothing_of_a_large_document(trio: Trio) -> None:
    trio.a.send(LARGE)
    trio.a.send(b"small")
    trio.a.store.run()  # commits the small document; the large one waits for its row
    trio.a.crash()
    assert len(trio.a.accepted) == trio.a.rows["tb_0031"] == 1
    trio.connect(trio.a)
    trio.later(2)
    assert arrived(trio) == [b"small"]
