"""The state of each document, from the events at 10008 and the deliveries at 56001.

Events may arrive repeatedly, late or out of order; a document's state never goes back.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from semq.app import Document, DocumentEvent, Sent
from semq.demo.files import SourceFile

# The states in their order: name | status of the protocol | description | colour of their lines.
STATES: dict[str, tuple[str, str, str]] = {
    "new": ("", "not sent yet", ""),
    "accepted": ("SS_INIT", "committed at 10008", "yellow"),
    "sent": ("SS_SENT", "sent to the hub", "yellow"),
    "forwarded": ("SS_ACK_FWD", "forwarded by the hub", "cyan"),
    "stored": ("SS_ACK", "stored at the hub", "magenta"),
    "delivered": ("SS_ACK2", "56001 has it", "green"),
    "failed": ("", "ended without delivery", "red"),
    "refused": ("", "not accepted", "red"),
}
_RANK = {state: rank for rank, state in enumerate(STATES)}
FINAL = ("delivered", "failed", "refused")


@dataclass(slots=True, eq=False)
class TrackedDocument:
    """One document. Times are monotonic seconds."""

    number: int
    file: SourceFile
    round: str  #: online or away: the state of 56001 when the document was sent
    state: str = "new"
    lk0: str = ""
    digest: str = ""  #: of the file
    digest_sent: str = ""  #: according to the node of 10008
    digest_received: str = ""  #: of the body that the application of 56001 received; "" before
    submitted: float = 0.0
    changed: float = 0.0  #: time of the last event
    took_ms: float = 0.0  #: from submit to SS_ACK2
    was_stored: bool = False
    reason: str = ""

    @property
    def is_final(self) -> bool:
        """Whether the sender knows the outcome."""
        return self.state in FINAL

    @property
    def was_received(self) -> bool:
        """Whether the application of 56001 has received it."""
        return bool(self.digest_received)

    @property
    def is_intact(self) -> bool:
        """Whether both ends have the bytes of the file."""
        return self.digest == self.digest_sent == self.digest_received


Report = Callable[[TrackedDocument], None]


@dataclass(slots=True)
class DocumentTracker:
    """All documents of the demo."""

    on_change: Report = lambda document: None  #: is called with a document in a new state
    on_read: Report = lambda document: None  #: is called with a document that the application has acknowledged
    now: Callable[[], float] = time.monotonic
    documents: list[TrackedDocument] = field(default_factory=list)
    by_lk0: dict[str, TrackedDocument] = field(default_factory=dict)
    early: dict[str, list[DocumentEvent]] = field(default_factory=dict)  #: events before the answer to the submit
    digests: dict[str, str] = field(default_factory=dict)  #: of the bodies received at 56001, by LK0
    repeats: int = 0  #: repeated deliveries marked redelivered: allowed after a crash
    duplicates: int = 0  #: repeated deliveries without the mark: never allowed

    def submitting(self, document: TrackedDocument, body: bytes) -> None:
        """Note that the application of 10008 is about to submit a document."""
        document.digest, document.submitted = sha256(body).hexdigest(), self.now()

    def accepted(self, document: TrackedDocument, sent: Sent) -> None:
        """Note that the node of 10008 has committed a document."""
        document.lk0, document.digest_sent = sent.lk0, sent.digest
        document.digest_received = self.digests.get(sent.lk0, "")  # the receiver may have been faster
        self.by_lk0[sent.lk0] = document
        self._advance(document, "accepted")
        for event in self.early.pop(sent.lk0, ()):
            self.event(event)

    def refused(self, document: TrackedDocument, reason: str) -> None:
        """Note that the node of 10008 has refused a document."""
        document.reason = reason
        self._advance(document, "refused")

    def event(self, event: DocumentEvent) -> None:
        """Apply an event of 10008."""
        document = self.by_lk0.get(event.lk0)
        if document is None:
            self.early.setdefault(event.lk0, []).append(event)
        elif event.kind in STATES:
            document.was_stored |= event.kind == "stored"
            document.reason = event.reason or document.reason
            self._advance(document, event.kind)

    def delivery(self, delivered: Document) -> None:
        """Apply a delivery at 56001."""
        if delivered.lk0 in self.digests:
            self.repeats += delivered.redelivered
            self.duplicates += not delivered.redelivered
            return
        digest = self.digests[delivered.lk0] = sha256(delivered.payload).hexdigest()
        if delivered.lk0 in self.by_lk0:
            self.by_lk0[delivered.lk0].digest_received = digest

    def was_read(self, delivered: Document) -> None:
        """Report a document that the application of 56001 has acknowledged."""
        if delivered.lk0 in self.by_lk0:
            self.on_read(self.by_lk0[delivered.lk0])

    def silent(self, for_s: float) -> list[TrackedDocument]:
        """Return the accepted documents that are not final and had no event for so long."""
        since = self.now() - for_s
        return [one for one in self.documents if one.lk0 and not one.is_final and one.changed < since]

    def _advance(self, document: TrackedDocument, state: str) -> None:
        document.changed = self.now()
        if not document.is_final and _RANK[state] > _RANK[document.state]:
            document.state = state
            document.took_ms = (document.changed - document.submitted) * 1000
            self.on_change(document)
