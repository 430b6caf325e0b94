"""The end of the demo in numbers: what was accepted, how it went, what is left, and whether that is good."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from semq.demo.board import Board, Item


@dataclass(frozen=True, slots=True)
class Verdict:
    """The numbers; ``--json`` prints them."""

    documents: int  #: in both rounds
    accepted: int  #: committed at 10008, which promised them to its application
    refused: int  #: not accepted, with a reason
    forwarded: int  #: delivered directly, past no store
    stored: int  #: delivered out of the store of the hub
    delivered: int  #: 10008 knows that 56001 holds it (SS_ACK2)
    received: int  #: given to the application of 56001
    redelivered: int  #: given again after a crash, marked so
    duplicated: int  #: given again without a mark, or accepted twice
    lost: int  #: accepted, and not delivered or not received
    left_in_queues: int
    left_in_each_queue: dict[str, int]
    digest_mismatches: int
    restarts: int  #: processes that died and were started again
    p50_ms: float  #: from submit to SS_ACK2, of the documents that were sent while 56001 was online
    p99_ms: float

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, duplicated, changed, refused or left behind."""
        bad = (self.lost, self.duplicated, self.left_in_queues, self.digest_mismatches, self.refused)
        return not any(bad) and self.accepted == self.documents

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {"ok": self.is_good, **asdict(self)}


def count(board: Board, left: Mapping[str, int], restarts: int) -> Verdict:
    """Count at the end."""
    accepted = [item for item in board.items if item.lk0]
    delivered = [item for item in accepted if item.state == "delivered"]
    # Two documents under one locator, or a locator that nobody was told: something was accepted twice.
    strangers = len(board.received.keys() - board.by_lk0.keys()) + len(accepted) - len(board.by_lk0)
    took = sorted(item.took_ms for item in delivered if item.round == "online")
    return Verdict(
        documents=len(board.items),
        accepted=len(accepted),
        refused=sum(item.state == "refused" for item in board.items),
        forwarded=sum(not item.was_stored for item in delivered),
        stored=sum(item.was_stored for item in delivered),
        delivered=len(delivered),
        received=sum(item.was_received for item in accepted),
        redelivered=board.repeats,
        duplicated=board.duplicates + strangers,
        lost=sum(is_lost(item) for item in accepted),
        left_in_queues=sum(left.values()),
        left_in_each_queue=dict(left),
        digest_mismatches=sum(item.was_received and not item.is_intact for item in accepted),
        restarts=restarts,
        p50_ms=percentile(took, 0.50),
        p99_ms=percentile(took, 0.99),
    )


def is_lost(item: Item) -> bool:
    """Accepted, and at the end of the demo one of the two ends does not have it."""
    return item.state != "delivered" or not item.was_received


def percentile(ascending: list[float], part: float) -> float:
    """The smallest value that so many of all do not exceed (nearest rank); 0 for none."""
    return round(ascending[max(ceil(len(ascending) * part) - 1, 0)], 2) if ascending else 0.0
