"""Events in any order, repeated or late: the state of a document only goes forward."""

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


def sent(tracker: DocumentTracker, lk0: str = "L") -> TrackedDocument:
    document = TrackedDocument(len(tracker.documents) + 1, SourceFile(Path("o.xml"), "o.xml"), "online")
    tracker.documents.append(document)
    tracker.submitting(document, BODY, 1.0)
    tracker.accepted(document, Sent(lk0, DIGEST), 1.5)
    return document


@given(st.lists(st.sampled_from(["sent", "forwarded", "stored", "delivered", "failed", "strange"]), max_size=12))
def test_states_only_go_forward(kinds: list[str]) -> None:
    tracker = DocumentTracker()
    document = sent(tracker)
    order = list(STATES)
    for now, kind in enumerate(kinds, 2):
        before, was_final = document.state, document.is_final
        changed = tracker.event(event(kind), float(now))
        assert order.index(document.state) >= order.index(before)
        assert (changed is document) == (document.state != before)
        assert not was_final or document.state == before
    assert document.is_final == (document.state in FINAL)


def test_the_time_is_taken_from_submit_to_the_end() -> None:
    tracker = DocumentTracker()
    document = sent(tracker)
    tracker.event(event("delivered"), 3.0)
    tracker.event(event("delivered"), 9.0)
    assert document.took_ms == pytest.approx(2000)


def test_events_may_arrive_before_the_answer_to_the_submit() -> None:
    tracker = DocumentTracker()
    assert tracker.event(event("stored"), 1.0) is None
    assert tracker.event(event("delivered"), 1.0) is None
    assert tracker.delivery(delivered()) is None
    document = sent(tracker)
    assert (document.state, document.was_stored, document.was_received, document.is_intact) == (
        "delivered",
        True,
        True,
        True,
    )


def test_changed_bytes_are_noticed() -> None:
    tracker = DocumentTracker()
    document = sent(tracker)
    assert tracker.delivery(delivered(payload=b"another order")) is document
    assert document.was_received
    assert not document.is_intact


def test_a_marked_repeat_is_no_duplicate_and_an_unmarked_one_is() -> None:
    tracker = DocumentTracker()
    sent(tracker)
    tracker.delivery(delivered())
    assert tracker.delivery(delivered(redelivered=True)) is None
    assert (tracker.repeats, tracker.duplicates) == (1, 0)
    tracker.delivery(delivered())
    assert (tracker.repeats, tracker.duplicates) == (1, 1)


def test_a_refused_document_is_final() -> None:
    tracker = DocumentTracker()
    document = TrackedDocument(1, SourceFile(Path("o"), "o"), "away")
    tracker.documents.append(document)
    assert tracker.unfinished() == [document]
    tracker.refused(document, "too large", 1.0)
    assert (tracker.unfinished(), document.reason) == ([], "too large")
