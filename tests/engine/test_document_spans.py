"""Spans of documents: ledger lines yield each span exactly once, and memory is bounded."""

from typing import Any

import pytest

from semq.amqp.wire import encode_fields
from semq.engine import document_spans
from semq.engine.document_spans import DocumentSpans, Span
from semq.store.rows import Event, LedgerLine, Side
from semq.trace_context import span_id
from semq.umx_t.address import parse_address
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.locator import LK0
from semq.umx_t.status import SaveFwd
from tests.test_trace_context import PARENT, SPAN, TRACE

NOW = 9_000
TARGET = "1.56001"


class SpanRecorder:
    """The document spans of one node; ``reported`` has the exported ones."""

    def __init__(self, ratio: float = 0.0) -> None:
        self.reported: list[Span] = []
        self.tracked = DocumentSpans(ratio, lambda: NOW, self.reported.append)

    def commit(
        self, side: Side, document: Envelope, *events: tuple[int, Event, int]
    ) -> list[tuple[str, int, int, str]]:
        """Commit lines; return stage, start, end and error of the spans that end with them.

        ``events``: time in milliseconds, event and attempt of each line.
        """
        before = len(self.reported)
        self.tracked.committed(
            [LedgerLine(at, side, event, document.ident, TARGET, att, size=3) for at, event, att in events]
        )
        return [(span.stage, span.began, span.ended, span.error) for span in self.reported[before:]]


def envelope(number: int = 1, target: str = TARGET, headers: dict[str, Any] | None = None, **more: Any) -> Envelope:
    source = parse_address("1.10008")
    a = Attributes(user_headers=encode_fields({"traceparent": PARENT} if headers is None else headers), **more)
    return Envelope(source=source, target=parse_address(target), lk0=LK0(1, "10008", 1, 1, 7, number), attributes=a)


def test_the_sender_reports_acceptance_and_end() -> None:
    spans, document = SpanRecorder(), envelope()
    spans.tracked.begin(Side.SENDER, document, 1_000)
    result = spans.commit(Side.SENDER, document, (1_100, Event.ACCEPTED, 0), (1_100, Event.SENT, 1))
    assert result == [("submit", 1_000, NOW, "")]
    result = spans.commit(Side.SENDER, document, (1_200, Event.STORED, 1), (1_300, Event.DELIVERED, 1))
    assert result == [("deliver", 1_100, 1_300, "")]
    submit, deliver = spans.reported
    assert (submit.parent.trace_id, submit.parent_id, submit.size) == (TRACE, SPAN, 3)
    assert (deliver.parent_id, submit.span_id) == (submit.span_id, span_id(document.ident, "submit"))
    assert deliver.steps == (("sent", 1_100), ("stored", 1_200))
    assert spans.commit(Side.SENDER, document, (1_400, Event.DELIVERED, 1)) == []


@pytest.mark.parametrize("event", [Event.REJECTED, Event.CANCELLED, Event.LOST, Event.UNKNOWN, Event.DROPPED])
def test_an_end_without_delivery_is_an_error(event: Event) -> None:
    spans, document = SpanRecorder(), envelope()
    spans.tracked.begin(Side.SENDER, document, 1_000)
    assert spans.commit(Side.SENDER, document, (1_500, event, 1)) == [("deliver", 1_000, 1_500, event.name.lower())]


def test_a_document_of_class_1_without_a_receipt_ends_when_it_is_sent() -> None:
    spans, document = SpanRecorder(), envelope(save_fwd=SaveFwd.DROP, ack2=False)
    spans.tracked.begin(Side.SENDER, document, 1_000)
    result = spans.commit(Side.SENDER, document, (1_100, Event.ACCEPTED, 0), (1_200, Event.SENT, 1))
    assert [stage for stage, *_ in result] == ["submit", "deliver"]


def test_the_hub_reports_forwarded_and_stored_documents() -> None:
    spans, document = SpanRecorder(), envelope()
    for attempt in (1, 2):
        spans.tracked.begin(Side.HUB, document, 1_000)
        assert spans.commit(Side.HUB, document, (1_000, Event.FORWARDED, attempt)) == [("forward", 1_000, 1_000, "")]
    spans.tracked.begin(Side.HUB, document, 1_900)
    result = spans.commit(
        Side.HUB, document, (2_000, Event.STORED, 0), (2_100, Event.SENT, 1), (2_200, Event.RELEASED, 1)
    )
    assert result == [("store", 2_000, 2_200, "")]
    spans.tracked.begin(Side.HUB, document, 2_300)  # another copy, of a sender that was not informed of the first
    assert len(spans.commit(Side.HUB, document, (2_300, Event.STORED, 0), (2_400, Event.RELEASED, 1))) == 1
    assert len({span.span_id for span in spans.reported}) == 4
    spans.tracked.begin(Side.HUB, document, 3_000)
    assert spans.commit(Side.HUB, document, (3_000, Event.REFUSED, 1)) == [("forward", 3_000, 3_000, "refused")]


def test_a_copy_that_was_stored_before_a_restart_has_one_span() -> None:
    spans, document = SpanRecorder(), envelope()
    spans.tracked.begin(Side.HUB, document, 1_000)
    result = spans.commit(Side.HUB, document, (2_100, Event.SENT, 1), (2_200, Event.RELEASED, 1))
    assert result == [("store", 1_000, 2_200, "")]


def test_the_receiver_reports_each_delivery() -> None:
    spans, document = SpanRecorder(), envelope()
    spans.tracked.begin(Side.RECEIVER, document, 1_000)
    result = spans.commit(Side.RECEIVER, document, (1_000, Event.RECEIVED, 0), (1_200, Event.GIVEN, 1))
    assert result == [("record", 1_000, NOW, ""), ("wait", 1_000, 1_200, "")]
    result = spans.commit(Side.RECEIVER, document, (1_300, Event.GIVEN, 2), (1_400, Event.DONE, 2))
    assert result == [("wait", 1_200, 1_300, ""), ("process", 1_300, 1_400, "")]
    assert len({span.span_id for span in spans.reported}) == 4
    record, *others = spans.reported
    assert {span.parent_id for span in others} == {record.span_id}
    spans.tracked.begin(Side.RECEIVER, document, 1_000)
    result = spans.commit(Side.RECEIVER, document, (1_500, Event.GIVEN, 3), (1_600, Event.PARKED, 3))
    assert result[-1] == ("process", 1_500, 1_600, "parked")


def test_documents_that_are_not_sampled_have_no_spans() -> None:
    spans = SpanRecorder()
    for document in (
        envelope(headers={}),
        envelope(headers={"traceparent": PARENT.removesuffix("1") + "0"}),
        envelope(headers={"traceparent": 7}),
        envelope(target=f"{TARGET}/_pieces"),
    ):
        spans.tracked.begin(Side.SENDER, document, 1_000)
        assert spans.commit(Side.SENDER, document, (1_100, Event.ACCEPTED, 0)) == []


def test_without_a_trace_of_the_application_the_spans_of_all_nodes_form_one_trace() -> None:
    sender, receiver, document = SpanRecorder(1.0), SpanRecorder(1.0), envelope(headers={})
    sender.tracked.begin(Side.SENDER, document, 1_000)
    receiver.tracked.begin(Side.RECEIVER, document, 1_000)
    sender.commit(Side.SENDER, document, (1_100, Event.ACCEPTED, 0))
    receiver.commit(Side.RECEIVER, document, (1_100, Event.RECEIVED, 0))
    assert sender.reported[0].parent == receiver.reported[0].parent
    assert (sender.reported[0].parent_id, receiver.reported[0].parent_id) == ("", sender.reported[0].span_id)


def test_documents_in_progress_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_spans, "OPEN_MAX", 10)
    monkeypatch.setattr(document_spans, "STEPS_MAX", 4)
    spans = SpanRecorder()
    for number in range(30):
        spans.tracked.begin(Side.SENDER, envelope(number), 1_000)
    assert spans.tracked.forgotten == 20
    assert spans.commit(Side.SENDER, envelope(3), (1_100, Event.DELIVERED, 1)) == []
    last = envelope(29)
    spans.commit(Side.SENDER, last, *[(1_100, Event.AGAIN, 1)] * 50, (1_200, Event.DELIVERED, 1))
    assert len(spans.reported[0].steps) == 4
