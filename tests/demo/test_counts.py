"""Counts of documents that were lost, duplicated, changed or left in a queue."""

import json
from collections.abc import Callable

import pytest

from semq.demo.counts import count, percentile
from semq.demo.tracker import DocumentTracker
from tests.demo.test_tracker import delivered, event, sent

CLEAN = {"10008.tb_0031": 0, "hub.tb_0031": 0, "56001.tb_0030": 0}


def good() -> DocumentTracker:
    tracker = DocumentTracker()
    for number in range(3):
        sent(tracker, f"L{number}")
        tracker.event(event("delivered", f"L{number}"))
        tracker.delivery(delivered(f"L{number}"))
    tracker.event(event("stored", "L0"))
    return tracker


def test_a_good_end() -> None:
    counts = count(good(), CLEAN, 1)
    assert counts.is_good
    told = json.loads(json.dumps(counts.as_json()))
    expected = {"ok": True, "accepted": 3, "forwarded": 2, "stored": 1, "delivered": 3, "received": 3, "restarts": 1}
    assert told | expected == told
    assert [told[name] for name in ("duplicated", "lost", "left_in_queues", "digest_mismatches")] == [0, 0, 0, 0]
    assert told["left_in_each_queue"] == CLEAN


def unread(tracker: DocumentTracker) -> None:
    tracker.documents[0].digest_received = ""


def undelivered(tracker: DocumentTracker) -> None:
    tracker.documents[0].state = "stored"


def given_twice(tracker: DocumentTracker) -> None:
    tracker.delivery(delivered("L0"))


def accepted_twice(tracker: DocumentTracker) -> None:
    tracker.delivery(delivered("a stranger"))


def changed(tracker: DocumentTracker) -> None:
    tracker.documents[0].digest_received = "other"


def refused(tracker: DocumentTracker) -> None:
    tracker.documents[0].state, tracker.documents[0].lk0 = "refused", ""


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
def test_a_bad_end_has_a_number(spoil: Callable[[DocumentTracker], None], name: str) -> None:
    tracker = good()
    spoil(tracker)
    counts = count(tracker, CLEAN, 0)
    assert not counts.is_good
    assert counts.as_json()[name] == 1


def test_what_is_left_in_a_queue_is_not_good() -> None:
    counts = count(good(), CLEAN | {"hub.tb_0031": 2}, 0)
    assert (counts.is_good, counts.left_in_queues) == (False, 2)


def test_percentiles_are_values_that_were_met() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (50, 99, 100)
    assert percentile([7.0], 0.99) == 7
    assert percentile([], 0.5) == 0
