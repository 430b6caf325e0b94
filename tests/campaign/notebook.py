"""The notebook of the driver: what was handed over at which door, what the application was told, what was received.

It is kept in memory and written to a file line by line, so that the time line of each document can be printed.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

DELIVERED, REJECTED, CANCELLED, UNKNOWN, DROPPED = "DELIVERED", "REJECTED", "CANCELLED", "UNKNOWN", "DROPPED"
LOST = "LOST"  #: the sender's node has no body any more
REFUSED = "REFUSED"  #: the sender's node did not accept it
ABSENT = "ABSENT"  #: the sender's node never had it
OPEN = "OPEN"  #: the sender's node learns no outcome: class 1 and 2 without a receipt
CONFIRMED, IN_DOUBT = "confirmed", "in doubt"
UNDER_WAY_S = 15.0  #: longest time that a document is under way after its last known step, before it is told


@dataclass(slots=True)
class Handed:
    """A document, and what its application was told about it."""

    number: int
    kind: str  #: row of the table of traffic
    traits: frozenset[str]
    source: str  #: name of the institution
    door: str
    target: str  #: routing key
    receivers: tuple[str, ...]  #: addresses, more than one for a group
    save_fwd: int
    ack2: int
    order_key: str  #: "fixed" for @Fixed
    size: int
    ends: frozenset[str]  #: possible outcomes if the node accepts it
    headers: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0
    not_before: int = 0  #: milliseconds since 1970 UTC; 0: none
    expires_at: int = 0
    batch: int = 0  #: number of the first document of its transaction; 0: alone
    certainty: str = IN_DOUBT
    refusal: str = ""  #: code and text
    lk0: str = ""  #: in the answer
    handed_at: float = 0.0  #: seconds since 1970 of the first act
    answered_at: float = 0.0
    outcomes: dict[str, list[str]] = field(default_factory=dict)  #: told by the node's door, by address of the receiver

    @property
    def token(self) -> str:
        return f"campaign-{self.number}"

    @property
    def app_key(self) -> str:
        return f"trade/{self.kind}//{self.number}"

    @property
    def body(self) -> bytes:
        """The body: the number in a line, then bytes derived from it."""
        return f"{self.number}\n".encode() + Random(self.number).randbytes(self.size)

    @property
    def digest(self) -> str:
        return sha256(self.body).hexdigest()

    @property
    def possible(self) -> frozenset[str]:
        """The ends that the notebook admits."""
        if self.certainty == CONFIRMED:
            return self.ends
        return frozenset({REFUSED, ABSENT}) if self.certainty == REFUSED else self.ends | {ABSENT, REFUSED}


class NotedReceipt(NamedTuple):
    """A delivery of a document to an application."""

    number: int
    receiver: str  #: address
    lk0: str
    digest: str
    flagged: bool  #: the door marked it as a repeat, or cannot mark repeats
    answer: str  #: ack, reject, requeue
    at: float  #: seconds since 1970
    fault: str  #: attributes that differ from those that were handed over
    source: str = ""  #: address of the institution that sent it, as the door says


class PermittedOutcome(NamedTuple):
    """Outcomes that a fault permits to documents that were under way in its time."""

    began: float  #: seconds since 1970
    ended: float
    codes: tuple[str, ...]  #: of the reasons
    source: str = ""  #: name of the institution; empty: any
    target: str = ""  #: address of the institution; empty: any
    verdicts: frozenset[str] = frozenset({"REFUSED"})

    def is_between(self, source: str, receiver: str) -> bool:
        """Whether the fault concerns what an institution sends to an address. ``source``: its name."""
        return self.source in ("", source) and self.target in ("", receiver.partition("/")[0])

    def is_for(self, document: Handed, receiver: str, last_at: float) -> bool:
        """Whether the document was under way. ``last_at``: time of the last known step."""
        is_between = self.is_between(document.source, receiver)
        return is_between and document.handed_at <= self.ended + UNDER_WAY_S and last_at >= self.began - UNDER_WAY_S


class RestoredStore(NamedTuple):
    """A store that was put back to a backup."""

    name: str  #: of the institution
    address: str
    began: float  #: seconds since 1970: the backup was made
    ended: float  #: the node was started again
    lk0s: frozenset[str]  #: messages of which the store has lost lines of the ledger
    numbers: frozenset[int]  #: their documents

    def is_sender_of(self, document: Handed) -> bool:
        """Whether the store may have lost what it knew of a document of its own."""
        was_open = document.handed_at <= self.ended and (document.answered_at or self.ended) >= self.began
        return document.source == self.name and (was_open or document.number in self.numbers)

    def is_receiver_of(self, document: Handed, receiver: str) -> bool:
        """Whether the store may have lost what it knew of a document that it received."""
        return receiver.partition("/")[0] == self.address and document.number in self.numbers


class Notebook:
    """All documents, receipts and faults of a campaign."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", buffering=1)
        self.documents: dict[int, Handed] = {}
        self.receipts: dict[int, list[NotedReceipt]] = defaultdict(list)
        self.faults: list[tuple[float, str]] = []
        #: Times in which the hub may have lost lines of its ledger: a process ended, was suspended or restored.
        self.hub_outages: list[tuple[float, float]] = []
        self.permitted: list[PermittedOutcome] = []
        self.restores: list[RestoredStore] = []
        self.alien: list[str] = []  #: receipts of unknown documents
        self.latencies: list[tuple[float, float]] = []  #: time of the receipt, milliseconds since the first act
        self.path = path

    def close(self) -> None:
        self._file.close()

    def note(self, number: int, event: str, **facts: object) -> None:
        """Write a line of the time line. ``number`` 0: about all documents."""
        print(json.dumps({"at": round(time.time(), 3), "n": number, "event": event, **facts}), file=self._file)

    def hand(self, document: Handed) -> None:
        document.handed_at = time.time()
        self.documents[document.number] = document
        facts = {"kind": document.kind, "source": document.source, "door": document.door, "target": document.target}
        self.note(document.number, "handed over", **facts, order_key=document.order_key, size=document.size)

    def tell(self, document: Handed, answer: str, *, lk0: str = "", reason: str = "") -> None:
        """Record an answer. CONFIRMED and REFUSED are final; IN_DOUBT is what a lost connection leaves."""
        self.note(document.number, answer, lk0=lk0, reason=reason)
        if document.certainty == IN_DOUBT:
            document.certainty, document.answered_at = answer, time.time()
            document.lk0, document.refusal = lk0, reason

    def tell_outcome(self, number: int, receiver: str, outcome: str, reason: str = "") -> None:
        document = self.documents.get(number)
        self.note(number, "outcome", receiver=receiver, outcome=outcome, reason=reason)
        if document is not None:
            known = document.outcomes.setdefault(receiver, [])
            if outcome not in known:
                known.append(outcome)

    def receive(self, receipt: NotedReceipt) -> None:
        facts = receipt._asdict()
        number, at = facts.pop("number"), facts.pop("at")
        self.note(number, "received", received_at=round(at, 3), **facts)
        document = self.documents.get(number)
        if document is None:
            self.alien.append(f"{receipt.receiver} received an unknown document {receipt.lk0}")
            return
        if not self.receipts[number] and not document.not_before:
            self.latencies.append((receipt.at, (receipt.at - document.handed_at) * 1000))
        self.receipts[number].append(receipt)

    def restore(self, restored: RestoredStore) -> None:
        self.restores.append(restored)
        self.note(0, f"restored {restored.name}", documents=sorted(restored.numbers))

    def strike(self, fault: str) -> None:
        self.faults.append((time.time(), fault))
        self.note(0, "fault", fault=fault)

    def time_line(self, number: int) -> Iterator[str]:
        """Yield the lines about a document, with the faults in between."""
        document = self.documents[number]
        end = max([document.answered_at, *(receipt.at for receipt in self.receipts[number])]) + 5
        with self.path.open(encoding="utf-8") as stream:
            for line in stream:
                entry = json.loads(line)
                is_near = document.handed_at - 5 <= entry["at"] <= end
                if entry["n"] == number or (entry["n"] == 0 and is_near):
                    yield line.rstrip()


def number_of(body: bytes) -> int:
    """Return the number in a body; -1 if it has none."""
    line = body.partition(b"\n")[0][:20]
    return int(line) if line.isdigit() else -1
