"""Spans of the sampled documents, for distributed tracing.

Spans are made from committed lines of the ledger. After a restart, a document has further spans only if the node sends
or delivers it again. At its sender, a document of class 1 or 2 with @Ack2=0 ends when it is sent.

| span    | node     | from                    | to                                      | parent            |
|---------|----------|-------------------------|-----------------------------------------|-------------------|
| submit  | sender   | submitted               | committed                               | the application's |
| deliver | sender   | accepted                | the receipt or another end is committed | submit            |
| forward | hub      | arrived                 | passed on, refused or dropped           | submit            |
| store   | hub      | custody taken           | released, or refused                    | submit            |
| record  | receiver | arrived                 | committed                               | submit            |
| wait    | receiver | recorded, or last given | given to the application                | record            |
| process | receiver | given                   | acknowledged, or parked                 | record            |
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from semq.amqp.wire import decode_fields
from semq.store.rows import Event, LedgerLine, Side
from semq.trace_context import PARENT, TraceParent, sampled_parent, span_id
from semq.umx_t.envelope import Envelope
from semq.umx_t.pieces import PIECES_USER

PARENT_NAME = PARENT.encode()
OPEN_MAX = 20_000  # documents in progress
STEPS_MAX = 32  # events of one span


class Span(NamedTuple):
    """A finished span; times in milliseconds since 1970 UTC."""

    stage: str  #: column ``span`` of the table above
    parent: TraceParent  #: the trace, and the application's span in it
    span_id: str
    parent_id: str
    lk0: str
    target: str
    began: int
    ended: int
    size: int = 0  #: bytes
    att: int = 0
    error: str = ""  #: the kind of failure; empty: none
    steps: tuple[tuple[str, int], ...] = ()  #: name and time of events within the span


class _Document(Struct):
    parent: TraceParent
    since: int  #: start of the next span: submitted or arrived; later accepted, stored or recorded
    ends_when_sent: bool
    held_since: int = 0  #: start of custody at the hub, or of processing by the receiver's application; 0: not yet
    size: int = 0
    steps: list[tuple[str, int]] = field(default_factory=list)


class DocumentSpans:
    """The sampled documents in progress at one node."""

    def __init__(self, ratio: float, now_ms: Callable[[], int], export: Callable[[Span], None]) -> None:
        """``ratio``: the sampled fraction of documents whose application has set no trace."""
        self._ratio = ratio
        self._now_ms = now_ms
        self._export = export
        self._open: dict[tuple[Side, str], _Document] = {}
        self.forgotten = 0  #: documents removed because of OPEN_MAX

    def begin(self, side: Side, envelope: Envelope, since: int) -> None:
        """Follow a document if it is sampled. ``since``: the submission or arrival, in milliseconds since 1970 UTC."""
        fields = envelope.attributes.user_headers
        if not self._ratio and PARENT_NAME not in fields:
            return  # the usual case, without the cost of the LK0 as text
        if envelope.void or envelope.target.user == PIECES_USER or (side, envelope.ident) in self._open:
            return
        headers = decode_fields(fields) if PARENT_NAME in fields else {}
        parent = sampled_parent(headers, envelope.ident, self._ratio)
        if parent is None:
            return
        if len(self._open) >= OPEN_MAX:
            del self._open[next(iter(self._open))]
            self.forgotten += 1
        is_receipted = envelope.is_class3 or envelope.attributes.ack2
        self._open[side, envelope.ident] = _Document(parent, since, not is_receipted)

    def committed(self, lines: Sequence[LedgerLine]) -> None:
        """Export the spans that end with the ledger lines of one commit."""
        if not self._open:
            return
        for line in lines:
            key = (line.side, line.lk0)
            document = self._open.get(key)
            if document is not None and END_AFTER[line.side](self, document, line):
                del self._open[key]

    # --- each returns whether the document has ended at this side
    def _at_sender(self, document: _Document, line: LedgerLine) -> bool:
        event = line.event
        if event is Event.ACCEPTED:
            document.size = line.size
            self._end("submit", document, line, min(document.since, line.at), self._now_ms())
            document.since = line.at
            return False
        has_ended = event in ENDS_AT_SENDER or (event is Event.SENT and document.ends_when_sent)
        if has_ended:
            self._end("deliver", document, line, document.since, line.at, steps=document.steps)
        elif len(document.steps) < STEPS_MAX:
            document.steps.append((event.name.lower(), line.at))
        return has_ended

    def _at_hub(self, document: _Document, line: LedgerLine) -> bool:
        event = line.event
        if event is Event.STORED:
            document.size, document.held_since, document.since = line.size, line.at, line.at
        elif event in ENDS_AT_HUB:
            stage = "store" if document.held_since or event is Event.RELEASED else "forward"
            self._end(stage, document, line, document.since, line.at, steps=document.steps)
            return True
        elif len(document.steps) < STEPS_MAX:
            document.steps.append((event.name.lower(), line.at))
        return False

    def _at_receiver(self, document: _Document, line: LedgerLine) -> bool:
        event = line.event
        if event in RECORDED:
            document.size = line.size
            self._end("record", document, line, min(document.since, line.at), self._now_ms())
            document.since = line.at
        elif event is Event.GIVEN:
            self._end("wait", document, line, max(document.since, document.held_since), line.at)
            document.held_since = line.at
        elif event in HANDLED and document.held_since:
            self._end("process", document, line, document.held_since, line.at)
        return event in ENDS_AT_RECEIVER

    def _end(
        self, stage: str, document: _Document, line: LedgerLine, began: int, ended: int,
        steps: Sequence[tuple[str, int]] = (),
    ) -> None:  # fmt: skip
        trace, lk0 = document.parent, line.lk0
        parent_stage = PARENTS[stage]
        name = f"{stage} {line.att} {began}" if stage in REPEATED else stage
        parent_id = span_id(lk0, parent_stage) if parent_stage else trace.span_id
        error = line.event.name.lower() if line.event in FAILURES else ""
        self._export(
            Span(
                stage, trace, span_id(lk0, name), parent_id, lk0, line.target, began, max(began, ended),
                document.size, line.att, error, tuple(steps),
            )
        )  # fmt: skip


# stage | parent
PARENTS = {
    "submit": "",
    "deliver": "submit",
    "forward": "submit",
    "store": "submit",
    "record": "submit",
    "wait": "record",
    "process": "record",
}
# A document may have several spans of these stages.
REPEATED = frozenset(PARENTS) - {"submit", "deliver", "record"}
ENDS_AT_SENDER = frozenset(
    {Event.DELIVERED, Event.REJECTED, Event.CANCELLED, Event.LOST, Event.UNKNOWN, Event.DROPPED, Event.REFUSED}
)
ENDS_AT_HUB = frozenset({Event.FORWARDED, Event.RELEASED, Event.REFUSED, Event.DROPPED})
RECORDED = frozenset({Event.RECEIVED, Event.REJECTED})
HANDLED = frozenset({Event.DONE, Event.PARKED})
ENDS_AT_RECEIVER = HANDLED | {Event.REJECTED, Event.CANCELLED}
FAILURES = (ENDS_AT_SENDER - {Event.DELIVERED}) | {Event.PARKED}
# side | method for its lines
END_AFTER = {
    Side.SENDER: DocumentSpans._at_sender,
    Side.HUB: DocumentSpans._at_hub,
    Side.RECEIVER: DocumentSpans._at_receiver,
}
