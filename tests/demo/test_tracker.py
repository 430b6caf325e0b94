"""Files of the demo; repeated, late and disordered events; counts of lost, duplicated and changed documents."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.app import Document, Sent
from semq.demo.tracker import FINAL, STATES, DocumentTracker, TrackedDocument, documents_of, files_in
from semq.umx_t.app_key import check_app_key

BODY = b"an order"
DIGEST = sha256(BODY).hexdigest()
CLEAN = {"10008.tb_0031": 0, "hub.tb_0031": 0, "56001.tb_0030": 0}


def delivered(document: TrackedDocument, lk0: str = "", *, again: bool = False, payload: bytes = BODY) -> Document:
    return Document(
        lk0 or document.lk0, "1.10008", "1.56001", document.app_key, payload, DIGEST, redelivered=again
    )  # fmt: skip


class SetClock:
    now = 1.0

    def __call__(self) -> float:
        return self.now


def added(tracker: DocumentTracker, name: str = "o.xml") -> TrackedDocument:
    document = TrackedDocument(len(tracker.documents) + 1, Path(name), name, "online", "56001")
    tracker.documents[document.app_key] = document
    return document


def sent(tracker: DocumentTracker) -> TrackedDocument:
    document = added(tracker)
    tracker.note_submission(document, BODY)
    tracker.note_acceptance(document, Sent(f"L{document.number}", DIGEST))
    return document


def good() -> DocumentTracker:
    tracker = DocumentTracker()
    for state in ("stored", "forwarded", "forwarded"):
        document = sent(tracker)
        tracker.advance(document, state)
        tracker.advance(document, "delivered")
        tracker.note_delivery(delivered(document))
    return tracker


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_documents_are_the_files_of_a_folder_and_its_subfolders_sorted_by_path(tmp_path: Path) -> None:
    make(tmp_path, "b.xml", "a.xml", "more/c.xml", ".hidden", ".git/config")
    found = documents_of(tmp_path, None, "online", 1, ["56001"])
    assert [document.name for document in found] == ["a.xml", "b.xml", "more/c.xml"]


@pytest.mark.parametrize(("count", "names"), [(1, ["a"]), (2, ["a", "b"]), (5, ["a", "b", "a", "b", "a"])])
def test_a_folder_is_repeated_or_cut(tmp_path: Path, count: int, names: list[str]) -> None:
    make(tmp_path, "a", "b")
    found = documents_of(tmp_path, count, "away", 4, ["56001", "20010"])
    assert [document.name for document in found] == names
    assert len({document.app_key for document in found}) == count
    assert [document.target for document in found] == ["56001", "20010", "56001", "20010", "56001"][:count]


def test_hidden_files_are_not_documents(tmp_path: Path) -> None:
    make(tmp_path, ".hidden")
    assert files_in(tmp_path) == []


@pytest.mark.parametrize(
    "name", ["order.xml", "a/b/c.xml", "tab\there.xml", "订单.txt", "n" * 200, "a" * 140 + "-1.xml"]
)
def test_every_file_name_becomes_a_valid_app_key(name: str) -> None:
    check_app_key(added(DocumentTracker(), name).app_key)


@pytest.mark.parametrize(
    ("name", "type_"),
    [("order-1.xml", "order"), ("order-change-L1.xml", "order-change"), ("a.xml", "document"), ("x-y", "document")],
)
def test_the_beginning_of_a_file_name_is_the_type_of_the_document(name: str, type_: str) -> None:
    assert added(DocumentTracker(), name).app_key.type == type_


@given(st.lists(st.sampled_from(["sent", "forwarded", "stored", "delivered", "failed", "strange"]), max_size=12))
def test_the_state_of_a_document_never_goes_back(kinds: list[str]) -> None:
    changed: list[str] = []
    tracker = DocumentTracker(on_change=lambda document: changed.append(document.state))
    document = sent(tracker)
    order = list(STATES)
    for kind in kinds:
        before, was_final, reports = document.state, document.is_final, len(changed)
        tracker.advance(document, kind)
        assert order.index(document.state) >= order.index(before)
        assert changed[reports:] == [document.state] * (document.state != before)
        assert not was_final or document.state == before
    assert document.is_final == (document.state in FINAL)


def test_the_duration_ends_with_the_first_report_of_the_delivery() -> None:
    clock = SetClock()
    tracker = DocumentTracker(now=clock)
    document = sent(tracker)
    clock.now = 3.0
    tracker.advance(document, "delivered")
    clock.now = 9.0
    tracker.advance(document, "delivered")
    assert document.took_ms == pytest.approx(2000)


def test_events_and_deliveries_may_come_before_the_answer_to_the_submit() -> None:
    tracker = DocumentTracker()
    document = added(tracker)
    tracker.note_submission(document, BODY)
    tracker.advance(document, "stored")
    tracker.note_delivery(delivered(document, "L1"))
    tracker.advance(document, "delivered")
    tracker.note_acceptance(document, Sent("L1", DIGEST))
    assert (document.state, document.was_stored) == ("delivered", True)
    assert tracker.count(CLEAN, 0)["ok"]


def test_an_event_about_another_document_changes_nothing() -> None:
    DocumentTracker().advance(None, "delivered")


def test_a_delivery_at_another_institution_counts_as_a_duplicate() -> None:
    tracker = DocumentTracker()
    document = sent(tracker)
    document.target = "20010"
    tracker.note_delivery(delivered(document))
    assert (document.received, tracker.duplicates) == ({}, 1)


def test_a_marked_repeat_is_no_duplicate_and_an_unmarked_one_is() -> None:
    tracker = DocumentTracker()
    document = sent(tracker)
    tracker.note_delivery(delivered(document))
    tracker.note_delivery(delivered(document, again=True))
    assert (tracker.repeats, tracker.duplicates) == (1, 0)
    tracker.note_delivery(delivered(document))
    assert (tracker.repeats, tracker.duplicates) == (1, 1)


def test_complete_deliveries_are_a_success() -> None:
    counts = good().count(CLEAN, 1)
    printed = json.loads(json.dumps(counts))
    expected = {"ok": True, "accepted": 3, "forwarded": 2, "stored": 1, "delivered": 3, "received": 3, "restarts": 1}
    assert printed | expected == printed
    assert [printed[name] for name in ("duplicated", "lost", "left_in_queues", "digest_mismatches")] == [0, 0, 0, 0]
    assert printed["left_in_each_queue"] == CLEAN


def unread(tracker: DocumentTracker, first: TrackedDocument) -> None:
    first.received.clear()


def undelivered(tracker: DocumentTracker, first: TrackedDocument) -> None:
    first.state = "stored"


def given_twice(tracker: DocumentTracker, first: TrackedDocument) -> None:
    tracker.note_delivery(delivered(first))


def accepted_twice(tracker: DocumentTracker, first: TrackedDocument) -> None:
    tracker.note_delivery(delivered(first, "another"))


def of_unknown_document(tracker: DocumentTracker, first: TrackedDocument) -> None:
    tracker.note_delivery(delivered(added(DocumentTracker(), "other"), "L9"))


def changed(tracker: DocumentTracker, first: TrackedDocument) -> None:
    first.received.clear()
    tracker.note_delivery(delivered(first, payload=b"another order"))


def refused(tracker: DocumentTracker, first: TrackedDocument) -> None:
    first.state, first.lk0, first.received = "new", "", {}
    tracker.advance(first, "refused", "too large")
    assert (first.is_final, first.reason) == (True, "too large")


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (unread, "lost"),
        (undelivered, "lost"),
        (given_twice, "duplicated"),
        (accepted_twice, "duplicated"),
        (of_unknown_document, "duplicated"),
        (changed, "digest_mismatches"),
        (refused, "refused"),
    ],
)
def test_every_failure_is_counted(spoil: Callable[[DocumentTracker, TrackedDocument], None], name: str) -> None:
    tracker = good()
    spoil(tracker, next(iter(tracker.documents.values())))
    counts = tracker.count(CLEAN, 0)
    assert not counts["ok"]
    assert counts[name] == 1


def test_rows_left_in_a_queue_are_a_failure() -> None:
    counts = good().count(CLEAN | {"hub.tb_0031": 2}, 0)
    assert (counts["ok"], counts["left_in_queues"]) == (False, 2)
