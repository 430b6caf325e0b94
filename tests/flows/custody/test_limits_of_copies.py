"""Limits for messages that the hub does not refuse: void markers and later attempts beyond a limit are not answered."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from msgspec.structs import replace as changed

from semq.engine.errors import QuotaReached, TooFast
from semq.engine.hub import forwarding
from semq.store.rows import Event, Reason
from semq.umx_t.agreement import Terms
from semq.umx_t.envelope import Data, Envelope
from semq.umx_t.status import Outcome, SendStatus
from tests.flows.trio import SETTINGS, Trio, records

LIMIT = 3


def offline_target(quota: int = SETTINGS.quota_rows_per_partner) -> tuple[Trio, Data]:
    """Return a trio in which B is offline, and A's message, of which the hub stores a copy."""
    trio = Trio()
    trio.hub.core.reconfigure(replace(SETTINGS, quota_rows_per_partner=quota))
    trio.cut(trio.b)
    trio.a.send(b"x")
    trio.settle()
    assert trio.a.up is not None
    (message,) = [frame for frame in trio.a.up.sent if isinstance(frame, Data)]
    return trio, message


def send_markers(trio: Trio, message: Data, count: int) -> None:
    """Send void markers for documents of which the hub has no copy."""
    assert trio.a.down is not None
    for number in range(1000, 1000 + count):
        lk0 = message.envelope.lk0._replace(object_id=number)
        marker = changed(message.envelope, lk0=lk0, sid=number, void=True)
        trio.hub.receive(trio.a.down, [Data(marker, b"")])
        trio.hub_store.run()
    trio.settle()


def beyond_limit(trio: Trio) -> int:
    return trio.hub.core.counters.counts.get("beyond_limit", 0)


@pytest.mark.parametrize("limited_by", ["no agreement", "waiting_max"])
def test_a_pair_whose_documents_are_refused_has_few_markers_stored(
    limited_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "MARKERS_MAX", LIMIT)
    trio, message = offline_target()
    if limited_by == "waiting_max":
        monkeypatch.setattr(trio.directory, "terms", lambda source, target: (Terms(waiting_max=2),))
    else:
        trio.directory.forbidden.add(trio.b.address)
    send_markers(trio, message, 10)
    assert trio.held == LIMIT
    assert beyond_limit(trio) == 11 - LIMIT
    assert not any(line.event is Event.REFUSED for line in trio.hub_store.tables.ledger)


def test_markers_of_a_pair_without_a_limit_are_stored_up_to_the_quota_of_their_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forwarding, "MARKERS_MAX", 1)
    trio, message = offline_target(quota=LIMIT)
    send_markers(trio, message, 10)
    assert trio.held == LIMIT
    assert beyond_limit(trio) == 11 - LIMIT


def test_a_pair_without_an_agreement_has_a_rate_of_markers_for_a_target_that_is_online(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forwarding, "MARKERS_MAX", LIMIT)
    trio, message = offline_target()
    trio.connect(trio.b)
    trio.later(3)
    trio.directory.forbidden.add(trio.b.address)
    before = trio.b.rows["dedup"]
    send_markers(trio, message, 10)
    assert trio.b.rows["dedup"] == before + LIMIT
    assert beyond_limit(trio) == 10 - LIMIT
    trio.later(60)
    trio.directory.forbidden.clear()
    send_markers(trio, message, 10)  # with an agreement all arrive
    assert trio.b.rows["dedup"] == before + 10
    assert beyond_limit(trio) == 10 - LIMIT


def test_a_marker_ends_a_stored_document_although_the_quota_is_used_up() -> None:
    trio, message = offline_target(quota=1)
    trio.directory.forbidden.add(trio.b.address)
    trio.a.engine.acts.cancel(message.envelope.lk0, lambda: None, trio.a.refused.append)
    trio.settle()
    (copy,) = trio.hub_store.tables.outbound.values()
    assert copy.void
    assert not trio.a.refused
    trio.connect(trio.b)
    trio.later(30)
    assert trio.b.app.payloads == []
    assert trio.a.reported.events[-1].outcome == Outcome.CANCELLED.name
    assert trio.is_clean()


def test_a_marker_beyond_a_limit_arrives_when_there_is_room_again() -> None:
    """The second document of A was lost on its way to the hub, so the hub has no copy of it."""
    trio, _ = offline_target(quota=1)
    trio.lose = lambda wire, frame: isinstance(frame, Data)
    trio.a.send(b"y")
    trio.settle()
    (second,) = [row for row in trio.a.store.tables.outbound.values() if row.ss_status is SendStatus.SS_SENT]
    trio.lose = lambda wire, frame: False
    trio.a.engine.acts.cancel(second.lk0, lambda: None, trio.a.refused.append)
    trio.later(60)
    assert trio.held == 1
    assert beyond_limit(trio) > 1
    trio.connect(trio.b)
    trio.later(60)
    assert trio.b.app.payloads == [b"x"]
    assert trio.a.reported.events[-1].outcome == Outcome.CANCELLED.name
    assert trio.is_clean()


@pytest.mark.parametrize("code", [QuotaReached.code, TooFast.code])
def test_a_later_attempt_beyond_a_limit_is_neither_refused_nor_lost(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trio = Trio()
    accepts = trio.directory.refuse

    def refuse(envelope: Envelope, size: int, waiting: Callable[[str, str], int]) -> Reason | None:
        return code, "beyond a limit"

    trio.lose = lambda wire, frame: isinstance(frame, Data) and wire is trio.b.down
    trio.a.send(b"x")
    trio.settle()
    trio.lose = lambda wire, frame: False
    monkeypatch.setattr(trio.directory, "refuse", refuse)
    trio.cut(trio.b)  # A sends the document again (H15)
    trio.later(60)
    assert trio.held == 0
    assert beyond_limit(trio) > 1
    assert not any(line.event is Event.REFUSED for line in trio.hub_store.tables.ledger)
    monkeypatch.setattr(trio.directory, "refuse", accepts)
    trio.later(60)
    assert trio.held == 1
    trio.connect(trio.b)
    trio.later(60)
    assert trio.b.app.payloads == [b"x"]
    assert trio.a.reported.events[-1].outcome == Outcome.DELIVERED.name
    assert trio.is_clean()


def test_a_later_attempt_beyond_a_limit_is_sent_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    trio = Trio()
    trio.lose = lambda wire, frame: isinstance(frame, Data) and wire is trio.b.down
    trio.a.send(b"x")
    trio.settle()
    trio.lose = lambda wire, frame: False
    monkeypatch.setattr(trio.directory, "refuse", lambda envelope, size, waiting: (TooFast.code, "beyond a limit"))
    trio.cut(trio.b)
    trio.later(600, step=1.0)
    first = beyond_limit(trio)
    trio.later(3600, step=1.0)
    assert first >= 5
    assert beyond_limit(trio) - first <= 3 * 3600 / SETTINGS.inquiry_s_max


def test_a_later_attempt_beyond_a_limit_is_answered_if_the_hub_has_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    trio, message = offline_target()
    assert trio.a.up is not None
    assert trio.a.down is not None
    monkeypatch.setattr(trio.directory, "refuse", lambda envelope, size, waiting: (TooFast.code, "beyond a limit"))
    before = len(records(trio.a.down.sent))
    trio.a.up.send(changed(message, envelope=changed(message.envelope, att=2)))
    trio.settle()
    (answer,) = records(trio.a.down.sent)[before:]
    assert (answer.ident, answer.lk1 is not None, answer.reason) == (message.envelope.ident, True, None)
    assert trio.held == 1
    assert not beyond_limit(trio)
