"""Application events: one for each step of a document, and for a void marker only the event of its end.

Documents that are sent without a row are remembered, up to a bound, so that later events can be reported.
"""

import pytest

from semq.store.rows import Event
from tests.flows.trio import Trio, is_message


@pytest.mark.parametrize("save_fwd", [2, 3])
def test_a_document_without_a_receipt_is_reported_as_stored(save_fwd: int) -> None:
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x", save_fwd=save_fwd, ack2=False, key="S1")
    trio.settle()
    assert trio.a.reported.kinds == ["sent", "stored"]
    assert [event.app_key.key for event in trio.a.reported.events] == ["S1", "S1"]
    assert trio.a.engine.rows.unkept == {}
    trio.connect(trio.b)
    trio.later(60)
    assert trio.b.app.payloads == [b"x"]
    assert trio.is_clean()


def test_documents_without_a_row_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semq.engine.sender.outbound.UNKEPT_MAX", 2)
    trio = Trio()
    trio.lose = lambda wire, frame: is_message(frame)
    trio.a.send(b"1", b"2", b"3", save_fwd=2, ack2=False)
    trio.settle()
    assert sorted(trio.a.engine.rows.unkept) == [accepted.lk0.object_id for accepted in trio.a.accepted[1:]]


def test_the_only_event_of_a_marker_is_its_end_and_its_attempt_has_a_ledger_line() -> None:
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x")
    trio.settle()
    lk0 = trio.a.accepted[0].lk0
    trio.a.engine.acts.cancel(lk0, lambda: None, trio.a.refused.append)
    trio.settle()
    trio.connect(trio.b)
    trio.later(2)
    assert trio.a.reported.kinds == ["sent", "stored", "failed"]
    lines = [line for line in trio.a.store.tables.ledger if line.lk0 == str(lk0)]
    assert [line.att for line in lines if line.event is Event.SENT] == [1, 2]
    assert lines[-1].event is Event.CANCELLED
    assert trio.is_clean()
