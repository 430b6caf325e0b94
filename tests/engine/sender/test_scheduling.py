"""Scheduled documents: they wait without a position, and are sent at their time."""

from collections.abc import Sequence
from typing import Any

import pytest

from local_node.doors.schedule import POLL_S, ScheduledDocuments
from local_node.doors.sql_submissions import SqlSubmissions
from semq.amqp.wire import encode_fields
from semq.engine.ports import Accepted, Submission
from semq.engine.sender.scheduling import DUE_MAX
from semq.errors import SemqError
from semq.store.rows import Event, Submitted
from semq.umx_t.address import parse_address
from semq.umx_t.agreement import Terms
from semq.umx_t.envelope import Attributes
from semq.umx_t.locator import Pos
from semq.umx_t.pieces import AFTER_PIECES_MS
from semq.umx_t.status import SaveFwd
from tests.flows.trio import Trio

FIELDS = encode_fields({"ref": "A1"})


class ScheduledTrio(Trio):
    """A trio with the doors of A that release scheduled documents."""

    def __init__(self, poll_s: float = POLL_S) -> None:
        super().__init__()
        self.waits: list[float] = []
        self.submissions = SqlSubmissions(self.a.engine_handle, lambda: None)
        self.schedule = ScheduledDocuments(self.a.engine_handle, self.waits.append, self.submissions.poll_then, poll_s)
        self.a.engine.acceptance.report_scheduled(self.schedule.note_scheduled)

    def at(self, in_s: float) -> int:
        return self.a.engine.core.now_ms() + round(in_s * 1000)

    def send(self, body: bytes, not_before: int, token: str = "", **attributes: Any) -> None:
        self.a.engine.submit(
            [
                Submission(
                    parse_address("56001"), Attributes(**attributes), body, self.a.accepted.append,
                    self.a.refused.append, token=token, not_before=not_before,
                )
            ]
        )  # fmt: skip
        self.settle()

    def wait(self, seconds: float) -> None:
        """Let time pass, then release the documents that are due."""
        self.later(seconds)
        self.schedule.release_due()
        self.settle()

    @property
    def scheduled(self) -> list[int]:
        return [row.not_before for row in self.a.store.tables.submitted.values()]


def codes(errors: Sequence[Exception]) -> list[str]:
    return [error.code for error in errors if isinstance(error, SemqError)]


def accepted(trio: ScheduledTrio) -> list[Accepted]:
    return list(trio.a.accepted)


def test_a_document_is_sent_at_its_time_and_its_first_name_leads_to_it() -> None:
    trio = ScheduledTrio()
    at = trio.at(5)
    trio.send(b"later", at, content_type="text/plain", user_headers=FIELDS)
    (first,) = accepted(trio)
    assert first.not_before == at
    assert not trio.a.store.tables.outbound
    assert trio.waits == [pytest.approx(5, abs=0.01)]
    trio.wait(3)
    assert trio.b.app.payloads == []
    trio.wait(3)
    (delivery,) = trio.b.app.deliveries
    assert delivery.payload == b"later"
    assert delivery.envelope.attributes == Attributes(content_type="text/plain", user_headers=FIELDS)
    tables = trio.a.store.tables
    assert tables.renamed == {str(first.lk0): first.lk0.object_id}
    assert tables.taken == {first.lk0.object_id: delivery.envelope.lk0}
    (line,) = [line for line in tables.ledger if line.event is Event.ACCEPTED]
    assert line.detail == f"SaveFwd=3 Ack2=1, scheduled as {first.lk0}"
    trio.later(60)
    assert trio.is_clean()


def test_a_scheduled_document_delays_no_other_and_gets_its_position_when_it_is_sent() -> None:
    trio = ScheduledTrio()
    trio.send(b"1", trio.at(5), order_key="k")
    trio.send(b"2", 0, order_key="k")
    assert trio.b.app.payloads == [b"2"]
    trio.wait(6)
    trio.send(b"3", 0, order_key="k")
    assert trio.b.app.payloads == [b"2", b"1", b"3"]
    prevs = [delivery.envelope.prev for delivery in trio.b.app.deliveries]
    assert prevs[1:] == [
        Pos(delivery.envelope.lk0.inc, delivery.envelope.sid) for delivery in trio.b.app.deliveries[:2]
    ]


def test_a_document_whose_time_has_passed_is_sent_immediately() -> None:
    trio = ScheduledTrio()
    trio.send(b"1", trio.at(-5))
    trio.send(b"2", trio.at(0))
    assert trio.b.app.payloads == [b"1", b"2"]


def test_a_read_of_scheduled_documents_is_arranged_for_each_that_is_due_before_the_next_regular_read() -> None:
    trio = ScheduledTrio(poll_s=300)
    trio.schedule.release_due()
    trio.settle()
    trio.send(b"1", trio.at(400))
    assert trio.waits == []
    trio.send(b"2", trio.at(30))
    assert trio.waits == [pytest.approx(30, abs=0.01)]
    trio.wait(31)
    assert trio.b.app.payloads == [b"2"]
    assert len(trio.waits) == 1
    trio.wait(299)  # the first document is due 70 seconds later
    assert trio.waits[1:] == [pytest.approx(70, abs=1)]


def test_scheduled_documents_outlive_the_process_and_are_sent_if_they_became_due_meanwhile() -> None:
    trio = ScheduledTrio()
    trio.send(b"1", trio.at(5))
    trio.send(b"2", trio.at(500))
    trio.a.crash()
    trio.connect(trio.a)
    trio.a.engine.acceptance.report_scheduled(trio.schedule.note_scheduled)
    trio.wait(10)
    assert trio.b.app.payloads == [b"1"]
    assert len(trio.scheduled) == 1
    assert trio.b.app.deliveries[0].envelope.lk0.inc == trio.a.engine.core.inc


def test_the_same_token_is_the_same_document_before_and_after_its_time() -> None:
    trio = ScheduledTrio()
    at = trio.at(5)
    trio.send(b"x", at, "t")
    trio.send(b"x", at, "t")
    trio.send(b"y", at, "t")
    first, second = accepted(trio)
    assert (second.lk0, second.repeated, second.not_before) == (first.lk0, True, at)
    assert codes(trio.a.refused) == ["SEMQ-1205"]
    trio.wait(6)
    trio.send(b"x", trio.at(5), "t")
    assert accepted(trio)[-1].repeated
    assert trio.b.app.payloads == [b"x"]
    assert not trio.scheduled


@pytest.mark.parametrize(
    ("attributes", "code"),
    [({"expires_at": 1}, "SEMQ-1104"), ({"save_fwd": SaveFwd.STORE, "order_key": "k"}, "SEMQ-1104")],
)
def test_contradictory_attributes_are_refused_at_once(attributes: dict[str, Any], code: str) -> None:
    trio = ScheduledTrio()
    trio.send(b"x", trio.at(5), **attributes)
    assert codes(trio.a.refused) == [code]
    assert not trio.scheduled


def test_times_at_which_documents_in_pieces_wait_are_refused() -> None:
    trio = ScheduledTrio()
    for at in (AFTER_PIECES_MS - 1, AFTER_PIECES_MS, AFTER_PIECES_MS + 1):
        trio.send(b"x", at)
    assert codes(trio.a.refused) == ["SEMQ-1102", "SEMQ-1102"]
    assert trio.scheduled == [AFTER_PIECES_MS - 1]


def test_the_rate_limit_counts_scheduled_documents_at_their_time() -> None:
    trio = ScheduledTrio()
    trio.a.engine.partners.terms["1.56001"] = (Terms(per_minute=1),)
    trio.send(b"1", 0)
    trio.send(b"2", trio.at(5))
    assert not trio.a.refused
    trio.wait(6)
    assert trio.b.app.payloads == [b"1"]
    assert trio.submissions.waiting.keys() == {"1.56001"}
    trio.later(60)
    trio.submissions.poll()
    trio.settle()
    assert trio.b.app.payloads == [b"1", b"2"]


def test_a_scheduled_document_is_released_early_once() -> None:
    trio = ScheduledTrio()
    trio.send(b"1", trio.at(500))
    (number,) = trio.a.store.tables.submitted
    done: list[str] = []
    failed: list[Exception] = []
    for _ in range(2):
        trio.schedule.release(number, lambda: done.append("released"), failed.append)
        trio.settle()
    assert trio.b.app.payloads == [b"1"]
    assert done == ["released"]
    assert codes(failed) == ["SEMQ-1207"]


def test_a_cancelled_document_is_never_sent_and_ends_under_its_name() -> None:
    trio = ScheduledTrio()
    trio.send(b"1", trio.at(5))
    (first,) = accepted(trio)
    ended: list[object] = []
    trio.submissions.withdraw(first.lk0.object_id, "not wanted", ended.append, ended.append)
    trio.settle()
    assert ended == [first.lk0]
    trio.wait(6)
    assert trio.b.app.payloads == []
    (event,) = trio.a.reported.events
    assert (event.kind, event.lk0, event.outcome) == ("failed", first.lk0, "CANCELLED")


def test_a_scheduled_document_that_expired_before_its_release_is_refused_under_its_name() -> None:
    trio = ScheduledTrio()
    trio.send(b"1", trio.at(5), expires_at=trio.at(10))
    (first,) = accepted(trio)
    trio.wait(20)
    assert trio.b.app.payloads == []
    ((number, refusal),) = trio.a.store.tables.refused.items()
    assert (number, refusal.lk0, refusal.reason[0]) == (first.lk0.object_id, first.lk0, "SEMQ-1206")


def test_more_due_documents_than_one_unit_releases_are_all_sent() -> None:
    trio = ScheduledTrio()
    for number in range(1200):
        trio.send(b"%d" % number, trio.at(5))
    trio.send(b"next", trio.at(50))
    trio.wait(6)
    assert len(trio.b.app.payloads) == 1200
    assert len(trio.scheduled) == 1


@pytest.mark.parametrize("save_fwd", [SaveFwd.DROP, SaveFwd.STORE])
def test_documents_of_classes_1_and_2_are_scheduled_too(save_fwd: SaveFwd) -> None:
    trio = ScheduledTrio()
    trio.send(b"1", trio.at(5), save_fwd=save_fwd, ack2=False)
    trio.wait(6)
    assert trio.b.app.payloads == [b"1"]
    assert not trio.a.store.tables.submitted


def test_the_token_of_a_cancelled_document_accepts_no_other_document_even_after_a_crash() -> None:
    trio = ScheduledTrio()
    trio.send(b"x", trio.at(50), token="t")
    [first] = trio.a.accepted
    ended: list[object] = []
    trio.submissions.withdraw(first.lk0.object_id, "not wanted", ended.append, ended.append)
    trio.settle()
    trio.a.crash()
    trio.connect(trio.a)
    trio.settle()
    trio.send(b"x", 0, token="t")
    trio.send(b"x", trio.at(50), token="t")
    trio.send(b"other", 0, token="t")
    assert [(each.lk0, each.repeated) for each in trio.a.accepted[1:]] == [(first.lk0, True)] * 2
    assert codes(trio.a.refused) == ["SEMQ-1205"]
    assert trio.b.app.payloads == []


def test_a_scheduled_document_whose_token_was_used_for_a_message_can_be_cancelled() -> None:
    trio = ScheduledTrio()
    trio.send(b"x", trio.at(50), token="t")
    trio.send(b"x", 0, token="t")  # without @NotBefore
    waiting, sent = trio.a.accepted
    ended: list[object] = []
    trio.submissions.withdraw(waiting.lk0.object_id, "not wanted", ended.append, ended.append)
    trio.settle()
    assert ended == [waiting.lk0]
    assert trio.scheduled == []
    assert trio.a.store.tables.tokens["t"].lk0 == sent.lk0


def test_a_repeat_in_the_same_commit_as_the_cancellation_accepts_no_other_document() -> None:
    trio = ScheduledTrio()
    trio.send(b"x", trio.at(50), token="t")
    [first] = trio.a.accepted
    trio.submissions.withdraw(first.lk0.object_id, "not wanted", lambda lk0: None, print)
    trio.send(b"x", trio.at(50), token="t")
    assert [(each.lk0, each.repeated) for each in trio.a.accepted] == [(first.lk0, False), (first.lk0, True)]
    assert trio.scheduled == []


def write_row(trio: ScheduledTrio, number: int, not_before: int = 0, target: str = "56001") -> None:
    """Write a row to the store of A, as by SQL."""
    row = Submitted(number, target, b"x", "", 3, 1, "", "", "", "{}", not_before=not_before)
    trio.a.store.tables.submitted[number] = row


def write_due_rows(trio: ScheduledTrio, count: int, target: str = "56001") -> None:
    due_at = trio.at(-1)
    for number in range(1, count + 1):
        write_row(trio, number, due_at, target)


def test_many_due_documents_are_released_in_turns_between_which_others_are_accepted() -> None:
    trio = ScheduledTrio()
    write_due_rows(trio, 5 * DUE_MAX)
    tables, others, most_released = trio.a.store.tables, 5 * DUE_MAX, 0
    trio.schedule.release_due()
    while any(row.not_before for row in tables.submitted.values()):
        trio.a.store.run()
        others += 1
        write_row(trio, others)  # other documents, whose application notifies
        trio.schedule.release_due()
        trio.submissions.poll()
        released = sum(number <= 5 * DUE_MAX and not row.not_before for number, row in tables.submitted.items())
        most_released = max(most_released, released)
    assert most_released == DUE_MAX
    accepted_others = tables.taken.keys() - set(range(1, 5 * DUE_MAX + 1))
    assert len(accepted_others) >= 4
    trio.settle()
    assert len(tables.taken) == others


def test_a_target_that_takes_no_documents_stops_no_release_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local_node.doors.sql_submissions.BATCH", 30)
    for module in ("semq.engine.sender.scheduling", "local_node.doors.schedule"):
        monkeypatch.setattr(f"{module}.DUE_MAX", 10)
    trio = ScheduledTrio()
    trio.a.engine.partners.terms["1.56001"] = (Terms(per_minute=1),)
    write_due_rows(trio, 100)
    write_row(trio, 101, trio.at(-1), "10008")
    trio.schedule.release_due()
    trio.settle()
    assert not any(trio.scheduled)
    assert trio.a.app.payloads == [b"x"]


def test_releases_go_on_after_a_read_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    trio = ScheduledTrio()
    write_due_rows(trio, DUE_MAX + 1)
    trio.schedule.release_due()
    trio.a.store.run()  # the first turn
    monkeypatch.setattr(trio.submissions, "_submit", lambda engine, rows: trio.submissions._read_failed(ValueError()))
    trio.settle()
    monkeypatch.undo()
    trio.submissions.poll()
    trio.settle()
    assert not tuple(trio.scheduled)
