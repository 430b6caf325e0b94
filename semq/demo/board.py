"""What has become of each document, as 10008 and 56001 tell it. News may come twice, late or out of step; nothing
goes back.
"""

from dataclasses import dataclass, field
from hashlib import sha256

from semq.app import Document, Event, Sent
from semq.demo.papers import Paper

# What is shown of a document, in its order: state | in the words of the design | in words.
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
class Item:
    """One document of the demo on its way."""

    number: int
    paper: Paper
    round: str  #: online or away: where 56001 was when it was sent
    state: str = "new"
    lk0: str = ""
    size: int = 0
    digest: str = ""  #: of the file
    digest_sent: str = ""  #: as the node of 10008 has it
    digest_received: str = ""  #: of what the application of 56001 has been given
    submitted: float = 0.0  #: monotonic seconds, as all times here
    ended: float = 0.0
    heard: float = 0.0  #: last news
    was_stored: bool = False
    was_received: bool = False
    reason: str = ""

    @property
    def is_final(self) -> bool:
        """Whether its sender knows how it ended."""
        return self.state in FINAL

    @property
    def took_ms(self) -> float:
        """From submit to SS_ACK2."""
        return (self.ended - self.submitted) * 1000

    @property
    def is_intact(self) -> bool:
        """Whether both ends have the bytes of the file."""
        return self.digest == self.digest_sent == self.digest_received


@dataclass(slots=True)
class Board:
    """All documents of the demo."""

    items: list[Item] = field(default_factory=list)
    by_lk0: dict[str, Item] = field(default_factory=dict)
    early: dict[str, list[Event]] = field(default_factory=dict)  #: news of documents whose sender has no answer yet
    received: dict[str, int] = field(default_factory=dict)  #: deliveries to the application of 56001 by LK0
    digests: dict[str, str] = field(default_factory=dict)  #: of what it was given
    repeats: int = 0  #: given again after a crash and marked so: the promise to applications is at least once
    duplicates: int = 0  #: given again without the mark: must never be

    def sending(self, item: Item, body: bytes, now: float) -> None:
        """The application of 10008 is about to hand it over."""
        item.size, item.digest, item.submitted = len(body), sha256(body).hexdigest(), now

    def accepted(self, item: Item, sent: Sent, now: float) -> None:
        """The node of 10008 has committed it."""
        item.lk0, item.digest_sent = sent.lk0, sent.digest
        self.by_lk0[sent.lk0] = item
        self._advance(item, "accepted", now)
        self._join(item)
        for event in self.early.pop(sent.lk0, ()):
            self.told(event, now)

    def refused(self, item: Item, reason: str, now: float) -> None:
        """The node of 10008 did not take it."""
        item.reason = reason
        self._advance(item, "refused", now)

    def told(self, event: Event, now: float) -> Item | None:
        """An event at 10008; the document, if it has changed."""
        item = self.by_lk0.get(event.lk0)
        if item is None:
            self.early.setdefault(event.lk0, []).append(event)
            return None
        if event.kind not in STATES:
            return None
        item.was_stored |= event.kind == "stored"
        item.reason = event.reason or item.reason
        return item if self._advance(item, event.kind, now) else None

    def given(self, document: Document) -> Item | None:
        """The application of 56001 was given a document; the item, if it is the first time and 10008 knows it."""
        times = self.received[document.lk0] = self.received.get(document.lk0, 0) + 1
        if times > 1:
            if document.redelivered:
                self.repeats += 1
            else:
                self.duplicates += 1
            return None
        self.digests[document.lk0] = sha256(document.payload).hexdigest()
        item = self.by_lk0.get(document.lk0)
        if item is not None:
            self._join(item)
        return item

    def open(self, round_: str | None = None) -> list[Item]:
        """Documents without an end."""
        return [item for item in self.items if not item.is_final and round_ in (None, item.round)]

    def _join(self, item: Item) -> None:
        """The receiver may have it before its sender has the answer of its own node."""
        if item.lk0 in self.digests:
            item.was_received, item.digest_received = True, self.digests[item.lk0]

    def _advance(self, item: Item, state: str, now: float) -> bool:
        item.heard = now
        if item.is_final or _RANK[state] <= _RANK[item.state]:
            return False
        item.state = state
        if state in FINAL:
            item.ended = now
        return True
