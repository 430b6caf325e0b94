"""The state of each document, from the events at 10008 and the deliveries at 56001.

Events may arrive repeatedly, late or out of order; a document's state never goes back.
"""

from dataclasses import dataclass, field
from hashlib import sha256

from semq.app import Document, DocumentEvent, Sent
from semq.demo.files import SourceFile

# The states in their order: name | status of the protocol | description.
STATES: dict[str, tuple[str, str]] = {
    "new": ("", "not sent yet"),
    "accepted": ("SS_INIT", "committed at 10008"),
    "sent": ("SS_SENT", "sent to the hub"),
    "forwarded": ("SS_ACK_FWD", "forwarded by the hub"),
    "stored": ("SS_ACK", "stored at the hub"),
    "delivered": ("SS_ACK2", "56001 has it"),
    "failed": ("", "ended without delivery"),
    "refused": ("", "not accepted"),
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
    digest_received: str = ""  #: of the body that the application of 56001 received
    submitted: float = 0.0
    ended: float = 0.0
    changed: float = 0.0  #: time of the last event
    was_stored: bool = False
    was_received: bool = False
    reason: str = ""

    @property
    def is_final(self) -> bool:
        """Whether the sender knows the outcome."""
        return self.state in FINAL

    @property
    def took_ms(self) -> float:
        """Milliseconds from submit to SS_ACK2."""
        return (self.ended - self.submitted) * 1000

    @property
    def is_intact(self) -> bool:
        """Whether both ends have the bytes of the file."""
        return self.digest == self.digest_sent == self.digest_received


@dataclass(slots=True)
class DocumentTracker:
    """All documents of the demo."""

    documents: list[TrackedDocument] = field(default_factory=list)
    by_lk0: dict[str, TrackedDocument] = field(default_factory=dict)
    early: dict[str, list[DocumentEvent]] = field(
        default_factory=dict
    )  #: events that arrived before the answer to the submit
    received: dict[str, int] = field(default_factory=dict)  #: deliveries to the application of 56001, by LK0
    digests: dict[str, str] = field(default_factory=dict)  #: of the bodies it received, by LK0
    repeats: int = 0  #: repeated deliveries marked redelivered: allowed after a crash
    duplicates: int = 0  #: repeated deliveries without the mark: never allowed

    def submitting(self, document: TrackedDocument, body: bytes, now: float) -> None:
        """Note that the application of 10008 is about to submit a document."""
        document.digest, document.submitted = sha256(body).hexdigest(), now

    def accepted(self, document: TrackedDocument, sent: Sent, now: float) -> None:
        """Note that the node of 10008 has committed a document."""
        document.lk0, document.digest_sent = sent.lk0, sent.digest
        self.by_lk0[sent.lk0] = document
        self._advance(document, "accepted", now)
        self._note_receipt(document)
        for event in self.early.pop(sent.lk0, ()):
            self.event(event, now)

    def refused(self, document: TrackedDocument, reason: str, now: float) -> None:
        """Note that the node of 10008 has refused a document."""
        document.reason = reason
        self._advance(document, "refused", now)

    def event(self, event: DocumentEvent, now: float) -> TrackedDocument | None:
        """Apply an event of 10008; return the document if its state has changed."""
        document = self.by_lk0.get(event.lk0)
        if document is None:
            self.early.setdefault(event.lk0, []).append(event)
            return None
        if event.kind not in STATES:
            return None
        document.was_stored |= event.kind == "stored"
        document.reason = event.reason or document.reason
        return document if self._advance(document, event.kind, now) else None

    def delivery(self, delivered: Document) -> TrackedDocument | None:
        """Apply a delivery at 56001; return the document at its first delivery, if 10008 knows it already."""
        times = self.received[delivered.lk0] = self.received.get(delivered.lk0, 0) + 1
        if times > 1:
            self.repeats += delivered.redelivered
            self.duplicates += not delivered.redelivered
            return None
        self.digests[delivered.lk0] = sha256(delivered.payload).hexdigest()
        document = self.by_lk0.get(delivered.lk0)
        if document is not None:
            self._note_receipt(document)
        return document

    def unfinished(self) -> list[TrackedDocument]:
        """Return the documents that are not final."""
        return [document for document in self.documents if not document.is_final]

    def _note_receipt(self, document: TrackedDocument) -> None:
        # The receiver may have the document before its sender has the answer of its own node.
        if document.lk0 in self.digests:
            document.was_received, document.digest_received = True, self.digests[document.lk0]

    def _advance(self, document: TrackedDocument, state: str, now: float) -> bool:
        document.changed = now
        if document.is_final or _RANK[state] <= _RANK[document.state]:
            return False
        document.state = state
        if state in FINAL:
            document.ended = now
        return True
