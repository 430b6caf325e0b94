"""The oracle finds each kind of broken promise, and reports no fault for a kept one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.book import Book, BookEntry
from tests.crash.documents import MUST, STORE, CrashDocument, DocumentStream, token_of
from tests.crash.oracle import OracleFindings, _judge_book, unused_ways


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    book = Book(tmp_path / "book")
    yield book
    book.close()


@pytest.fixture
def stream() -> DocumentStream:
    """Return six accepted documents, three of them with an order key."""
    stream = DocumentStream(1, "a", "b")
    for number in range(1, 7):
        stream.accepted.append(CrashDocument(1, "a", ("b",), number, MUST, 1, "orders" if number <= 3 else "", 10))
    return stream


def entry(document: CrashDocument, lk0: str = "", digest: str = "") -> BookEntry:
    """Return the entry of a received document, or one with another LK0 or digest."""
    return BookEntry(lk0 or f"lk0-{document.number}", document.token, digest or document.digest, document.order_key)


def judged(stream: DocumentStream, book: Book, target: str = "b") -> OracleFindings:
    findings = OracleFindings()
    _judge_book(stream, target, book, set(), findings)
    return findings


def test_a_kept_promise_is_no_violation(stream: DocumentStream, book: Book) -> None:
    for document in reversed(stream.accepted[3:]):  # unordered documents may arrive in any order
        assert book.write(entry(document), flagged=False)
    for document in stream.accepted[:3]:
        assert book.write(entry(document), flagged=False)
        assert not book.write(entry(document), flagged=True)  # a repeat after a crash
    assert judged(stream, book).good
    assert book.count_received([document.token for document in stream.accepted]) == 6


def test_a_lost_document_is_found(stream: DocumentStream, book: Book) -> None:
    for document in stream.accepted[1:]:
        book.write(entry(document), flagged=False)
    findings = judged(stream, book)
    assert len(findings.lost) == 1
    assert "1-a-1 " in findings.lost[0]


def test_a_lost_document_of_a_lower_class_is_no_violation(stream: DocumentStream, book: Book) -> None:
    for document in stream.accepted:
        book.write(entry(document), flagged=False)
    stream.accepted.append(CrashDocument(1, "a", ("b",), 7, STORE, 1, "", 10))
    assert judged(stream, book).good


@pytest.mark.parametrize("save_fwd", [MUST, STORE])
def test_a_document_recorded_twice_is_found(stream: DocumentStream, book: Book, save_fwd: int) -> None:
    stream.accepted.append(CrashDocument(1, "a", ("b",), 7, save_fwd, 1, "", 10))
    for document in stream.accepted:
        book.write(entry(document), flagged=False)
    book.write(entry(stream.accepted[6], lk0="another"), flagged=True)
    assert len(judged(stream, book).duplicated) == 1


def test_a_repeat_that_is_not_marked_redelivered_is_found(stream: DocumentStream, book: Book) -> None:
    for document in stream.accepted:
        book.write(entry(document), flagged=False)
    book.write(entry(stream.accepted[4]), flagged=False)
    assert len(judged(stream, book).duplicated) == 1


def test_a_document_with_other_bytes_is_found(stream: DocumentStream, book: Book) -> None:
    for document in stream.accepted:
        book.write(entry(document, digest="f" * 64 if document.number == 5 else ""), flagged=False)
    book.write(entry(stream.accepted[5], digest="e" * 64), flagged=True)
    assert len(judged(stream, book).violations) == 2


def test_a_broken_order_is_found(stream: DocumentStream, book: Book) -> None:
    for number in (1, 0, 2, 3, 4, 5):
        book.write(entry(stream.accepted[number]), flagged=False)
    assert len(judged(stream, book).violations) == 1


def test_a_delivery_that_was_never_accepted_is_found(stream: DocumentStream, book: Book) -> None:
    for document in stream.accepted:
        book.write(entry(document), flagged=False)
    book.write(BookEntry("lk0-9", "1-a-9", "", ""), flagged=False)
    assert len(judged(stream, book).violations) == 1


def test_each_member_of_the_group_must_receive_once(tmp_path: Path, stream: DocumentStream, book: Book) -> None:
    document = CrashDocument(1, "a", ("b", "c"), 7, MUST, 1, "orders", 10)
    stream.accepted.append(document)
    for accepted in stream.accepted:
        book.write(entry(accepted), flagged=False)
    assert judged(stream, book).good
    at_c = Book(tmp_path / "c")
    assert judged(stream, at_c, "c").lost == ["1-a-7 @SaveFwd=3 @Ack2=1 order key orders for c"]
    at_c.write(entry(CrashDocument(1, "b", ("a", "c"), 9, MUST, 1, "orders", 10)), flagged=False)  # has another source
    at_c.write(entry(document), flagged=False)
    assert judged(stream, at_c, "c").good
    at_c.write(entry(stream.accepted[3]), flagged=False)
    assert judged(stream, at_c, "c").violations == ["1-a-4 was received by c and never accepted for it"]
    at_c.close()


def test_a_way_that_no_message_took_is_named() -> None:
    assert unused_ways({"direct": 3, "hub": 1}) == []
    assert unused_ways({"direct": 3, "hub": 0}) == ["no message was received by way of the hub"]
    assert unused_ways({"direct": 0, "hub": 1}) == ["no message was received by way of the direct link"]


def test_a_seed_draws_the_same_documents_again() -> None:
    streams = DocumentStream(4, "a", "b"), DocumentStream(4, "a", "b")
    drawn = [[stream.next(), stream.next("orders"), stream.next()] for stream in streams]
    assert drawn[0] == drawn[1]
    assert [document.save_fwd for document in drawn[0]][1] == MUST
    for document in drawn[0]:
        assert token_of(document.body) == document.token
        assert document.body == document.body  # calculated again
    assert DocumentStream(5, "a", "b").next().body != drawn[0][0].body
