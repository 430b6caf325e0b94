"""The documents of the demo: their files, their states, and the counts at the end.

Events may arrive repeatedly, late or out of order; the state of a document never goes back. Documents are identified
by AppKey, because an event or a delivery may arrive before the answer to the submit, which contains the LK0.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import cycle, islice
from pathlib import Path
from statistics import median

from msgspec import Struct, field

from semq.app import AppKey, Document, Sent
from semq.umx_t.app_key import PART_MAX

# State, in order | status of the protocol, description, colour of its line
STATES: dict[str, tuple[str, str, str]] = {
    "new": ("", "not sent yet", ""),
    "accepted": ("SS_INIT", "committed at 10008", "yellow"),
    "sent": ("SS_SENT", "sent by 10008", "yellow"),
    "forwarded": ("SS_ACK_FWD", "forwarded by the hub", "cyan"),
    "stored": ("SS_ACK", "stored at the hub", "magenta"),
    "delivered": ("SS_ACK2", "the receiver has it", "green"),
    "failed": ("", "ended without delivery", "red"),
    "refused": ("", "not accepted", "red"),
}
_ORDER = list(STATES)
TYPE = re.compile(r"[a-z]{1,16}(-[a-z]{1,16}){0,2}(?=-[A-Z0-9])")  # of a document, at the beginning of its file's name
FINAL = ("delivered", "failed", "refused")


class TrackedDocument(Struct, eq=False):
    """A document of the demo."""

    number: int
    path: Path
    name: str  #: path in the folder of documents
    round: str  #: online, away (56001 is offline) or killed (an instance of the hub is killed)
    target: str  #: node id of the receiver
    state: str = "new"
    lk0: str = ""
    digest: str = ""  #: SHA-256 of the file
    digest_sent: str = ""  #: SHA-256 according to the node of 10008
    received: dict[str, str] = field(default_factory=dict)  #: SHA-256 of each received body, by LK0
    submitted: float = 0.0  #: monotonic seconds
    took_ms: float = 0.0  #: milliseconds from the submit to the present state
    was_stored: bool = False
    reason: str = ""

    @property
    def app_key(self) -> AppKey:
        """The AppKey, with the type, the number and the file name: ``demo/order/0003/order-LW-2041.xml``."""
        key = "".join(letter if letter.isprintable() else "?" for letter in self.name)
        named = TYPE.match(self.path.name)
        return AppKey("demo", named[0] if named else "document", f"{self.number:04d}", key[-PART_MAX:])

    @property
    def is_final(self) -> bool:
        """Whether the sender knows the outcome of the document."""
        return self.state in FINAL


def files_in(folder: Path) -> list[Path]:
    """Return the files of a folder and its subfolders in the order of their paths, without hidden ones.

    The list is empty if ``folder`` is not a folder.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def documents_of(
    folder: Path, count: int | None, round_: str, first: int, targets: Sequence[str]
) -> list[TrackedDocument]:
    """Return a document for each file of a folder, repeated or cut to ``count``, numbered from ``first``.

    ``count``: None for each file once. The targets take turns.
    """
    files = files_in(folder)
    chosen = files if count is None else islice(cycle(files), count)
    return [
        TrackedDocument(number, path, str(path.relative_to(folder)), round_, target)
        for (number, path), target in zip(enumerate(chosen, first), cycle(targets), strict=False)
    ]


class DocumentTracker(Struct):
    """All documents of the demo."""

    on_change: Callable[[TrackedDocument], None] = lambda document: None  #: called after each change of a state
    now: Callable[[], float] = time.monotonic
    documents: dict[AppKey, TrackedDocument] = field(default_factory=dict)
    repeats: int = 0  #: repeated deliveries marked as redelivered
    duplicates: int = 0  #: other repeated deliveries, and unexpected ones

    def note_submission(self, document: TrackedDocument, body: bytes) -> None:
        """Record that a document will be submitted now."""
        document.digest, document.submitted = sha256(body).hexdigest(), self.now()

    def note_acceptance(self, document: TrackedDocument, sent: Sent) -> None:
        document.lk0, document.digest_sent = sent.lk0, sent.digest
        self.advance(document, "accepted")

    def advance(self, document: TrackedDocument | None, state: str, reason: str = "") -> None:
        """Record a state of a document, unless the document has this state, a later one, or an outcome.

        An unknown document (None) and an unknown state are ignored.
        """
        if document is None or state not in STATES:
            return
        document.was_stored |= state == "stored"
        document.reason = reason or document.reason
        if not document.is_final and _ORDER.index(state) > _ORDER.index(document.state):
            document.state = state
            document.took_ms = (self.now() - document.submitted) * 1000
            self.on_change(document)

    def note_delivery(self, delivered: Document) -> None:
        document = self.documents.get(delivered.app_key)
        if document is not None and delivered.target != f"1.{document.target}":
            document = None
        if document is not None and delivered.lk0 not in document.received:
            document.received[delivered.lk0] = sha256(delivered.payload).hexdigest()
        elif document is not None and delivered.redelivered:
            self.repeats += 1
        else:
            self.duplicates += 1

    def count(self, left: Mapping[str, int], restarts: int) -> dict[str, object]:
        """Return the counts for ``--json``. ``left``: rows by queue. ``restarts``: number of deaths of nodes."""
        documents = list(self.documents.values())
        accepted = [document for document in documents if document.lk0]
        delivered = [document for document in accepted if document.state == "delivered"]
        accepted_twice = sum(len({document.lk0, *document.received}) - 1 for document in accepted)
        took_ms = [document.took_ms for document in delivered if document.round == "online"]
        counts = {
            "documents": len(documents),
            "accepted": len(accepted),
            "refused": sum(document.state == "refused" for document in documents),
            "forwarded": sum(not document.was_stored for document in delivered),
            "stored": sum(document.was_stored for document in delivered),
            "delivered": len(delivered),
            "received": sum(bool(document.received) for document in accepted),
            "redelivered": self.repeats,
            "duplicated": self.duplicates + accepted_twice,
            "lost": sum(document.state != "delivered" or not document.received for document in accepted),
            "left_in_queues": sum(left.values()),
            "left_in_each_queue": dict(left),
            "digest_mismatches": sum(
                {document.digest, document.digest_sent, *document.received.values()} != {document.digest}
                for document in accepted
            ),
            "restarts": restarts,
            "median_ms": round(median(took_ms or [0.0]), 2),
        }
        is_bad = any(counts[name] for name in ("lost", "duplicated", "left_in_queues", "digest_mismatches", "refused"))
        return {"ok": not is_bad and counts["accepted"] == counts["documents"], **counts}
