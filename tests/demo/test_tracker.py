"""Events in any order, repeated or late: the state of a document never goes back."""

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.app import AppKey, Document, DocumentEvent, Sent
from semq.app.values import EPOCH
from semq.demo.files import SourceFile
from semq.demo.tracker import FINAL, STATES, DocumentTracker, TrackedDocument

BODY = b"an order"
DIGEST = sha256(BODY).hexdigest()


def event(kind: str, lk0: str = "L") -> DocumentEvent:
    return DocumentEvent(kind, lk0, "1.56001", AppKey(), EPOCH)


def delivered(lk0: str = "L", *, redelivered: bool = False, payload: bytes = BODY) -> Document:
    return Document(lk0, "1.10008", "1.56001", AppKey(), payload, DIGEST, redelivered=redelivered)


class Times:
    """A clock set by the test."""

    now = 1.0

    def __call__(self) -> float:
        return self.now


def sent(tracker: DocumentTracker, lk0: str = "L") -> TrackedDocument:
    document = TrackedDocument(len(tracker.documents) + 1, SourceFile(Path("o.xml"), "o.xml"), "online")
    tracker.documents.append(document)
    tracker.submitting(document, BODY)
    tracker.accepted(document, Sent(lk0, DIGEST))
    return document


@given(st.lists(st.sampled_from(["sent", "forwarded", "stored", "delivered", "failed", "strange"]), max_size=12))
def test_states_only_go_forward(kinds: list[str]) -> None:
    changed: list[str] = []
    tracker = DocumentTracker(on_change=lambda document: changed.append(document.state))
    document = sent(tracker)
    order = list(STATES)
    for kind in kinds:
        before, was_final, reports = document.state, document.is_final, len(changed)
        tracker.event(event(kind))
        assert order.index(document.state) >= order.index(before)
        assert changed[reports:] == [document.state] * (document.state != before)
        assert not was_final or document.state == before
    assert document.is_final == (document.state in FINAL)


def test_the_time_is_taken_from_submit_to_the_end() -> None:
    clock = Times()
    tracker = DocumentTracker(now=clock)
    document = sent(tracker)
    clock.now = 3.0
    tracker.event(event("delivered"))
    clock.now = 9.0
    tracker.event(event("delivered"))
    assert document.took_ms == pytest.approx(2000)


def test_documents_without_events_are_asked_about() -> None:
    clock = Times()
    tracker = DocumentTracker(now=clock)
    first, second = sent(tracker, "L1"), sent(tracker, "L2")
    clock.now = 3.0
    tracker.event(event("sent", "L1"))
    assert tracker.silent(1.0) == [second]
    clock.now = 5.0
    assert tracker.silent(1.0) == [first, second]
    tracker.event(event("failed", "L2"))
    clock.now = 7.0
    assert tracker.silent(1.0) == [first]


def test_events_may_arrive_before_the_answer_to_the_submit() -> None:
    tracker = DocumentTracker()
    tracker.event(event("stored"))
    tracker.event(event("delivered"))
    tracker.delivery(delivered())
    document = sent(tracker)
    assert (document.state, document.was_stored, document.was_received, document.is_intact) == (
        "delivered",
        True,
        True,
        True,
    )


def test_changed_bytes_are_noticed() -> None:
    read: list[TrackedDocument] = []
    tracker = DocumentTracker(on_read=read.append)
    document = sent(tracker)
    tracker.delivery(delivered(payload=b"another order"))
    tracker.was_read(delivered())
    assert read == [document]
    assert document.was_received
    assert not document.is_intact


def test_a_marked_repeat_is_no_duplicate_and_an_unmarked_one_is() -> None:
    tracker = DocumentTracker()
    sent(tracker)
    tracker.delivery(delivered())
    tracker.delivery(delivered(redelivered=True))
    assert (tracker.repeats, tracker.duplicates) == (1, 0)
    tracker.delivery(delivered())
    assert (tracker.repeats, tracker.duplicates) == (1, 1)


def test_a_refused_document_is_final() -> None:
    tracker = DocumentTracker()
    document = TrackedDocument(1, SourceFile(Path("o"), "o"), "away")
    tracker.documents.append(document)
    tracker.refused(document, "too large")
    assert (document.is_final, document.state, document.reason) == (True, "refused", "too large")
