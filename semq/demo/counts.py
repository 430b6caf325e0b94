"""The result of the demo in numbers."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from semq.demo.tracker import DocumentTracker


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers; ``--json`` prints them."""

    documents: int  #: in both rounds
    accepted: int  #: committed at 10008
    refused: int  #: not accepted, with a reason
    forwarded: int  #: delivered without being stored at the hub
    stored: int  #: delivered from the hub's store
    delivered: int  #: 10008 knows that 56001 has the document (SS_ACK2)
    received: int  #: delivered to the application of 56001
    redelivered: int  #: delivered again after a crash, marked as redelivered
    duplicated: int  #: delivered again without the mark, or accepted twice
    lost: int  #: accepted, but not delivered or not received
    left_in_queues: int
    left_in_each_queue: dict[str, int]
    digest_mismatches: int
    restarts: int  #: nodes that died and were started again
    p50_ms: float  #: from submit to SS_ACK2, of documents sent while 56001 was online
    p99_ms: float

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, duplicated, changed, refused or left in a queue."""
        bad = (self.lost, self.duplicated, self.left_in_queues, self.digest_mismatches, self.refused)
        return not any(bad) and self.accepted == self.documents

    def as_json(self) -> dict[str, Any]:
        """Return the numbers for ``--json``."""
        return {"ok": self.is_good, **asdict(self)}


def count(tracker: DocumentTracker, left: Mapping[str, int], restarts: int) -> Counts:
    """Count at the end. ``left``: rows by queue."""
    accepted = [document for document in tracker.documents if document.lk0]
    delivered = [document for document in accepted if document.state == "delivered"]
    # Two documents with one locator, or a delivery whose locator no submit returned: accepted twice.
    accepted_twice = len(tracker.digests.keys() - tracker.by_lk0.keys()) + len(accepted) - len(tracker.by_lk0)
    took_ms = sorted(document.took_ms for document in delivered if document.round == "online")
    return Counts(
        documents=len(tracker.documents),
        accepted=len(accepted),
        refused=sum(document.state == "refused" for document in tracker.documents),
        forwarded=sum(not document.was_stored for document in delivered),
        stored=sum(document.was_stored for document in delivered),
        delivered=len(delivered),
        received=sum(document.was_received for document in accepted),
        redelivered=tracker.repeats,
        duplicated=tracker.duplicates + accepted_twice,
        lost=sum(document.state != "delivered" or not document.was_received for document in accepted),
        left_in_queues=sum(left.values()),
        left_in_each_queue=dict(left),
        digest_mismatches=sum(document.was_received and not document.is_intact for document in accepted),
        restarts=restarts,
        p50_ms=percentile(took_ms, 0.50),
        p99_ms=percentile(took_ms, 0.99),
    )


def percentile(ascending: list[float], part: float) -> float:
    """Return the percentile by nearest rank; 0 for an empty list."""
    return round(ascending[max(ceil(len(ascending) * part) - 1, 0)], 2) if ascending else 0.0
