"""A copy in a store that the hub does not serve (PROTOCOL.md section 10, H6 and H9)."""

from typing import Any

import pytest

from semq.engine.errors import StoreInUse
from semq.umx_t.envelope import Frame, Packet
from semq.umx_t.records import AckFlag, Answer
from semq.umx_t.status import AckStatus, SendStatus
from tests.flows.trio import HUB, Trio, TrioWire, records
from tests.memory_store.store import MemoryStore

AFTER_INQUIRIES_S = 3700.0  # longer than the longest interval between inquiries to a custodian
STEP = 5.0  # of the simulated clock, in seconds


def with_copy_in_other_store(*, arrived: bool = False, **attributes: Any) -> Trio:
    """Return a trio in which store 1.1 of the hub has a copy, and the hub works with store 1.2.

    ``arrived``: B has recorded the document, and its acknowledgements were lost.
    """
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x", **attributes)
    trio.settle()
    assert trio.held == 1
    if arrived:
        trio.lose = lambda wire, frame: wire is trio.b.up
        trio.connect(trio.b)
        trio.settle()
        trio.lose = lambda wire, frame: False
        assert trio.b.app.payloads == [b"x"]
    switch_store(trio, 2, MemoryStore())
    return trio


def switch_store(trio: Trio, db_id: int, store: MemoryStore) -> MemoryStore:
    """Restart the hub with another of its stores; return the former store."""
    old, trio.hub_store = trio.hub_store, store
    trio.hub_home = trio.hub_home._replace(semq_db_id=db_id)
    trio.crash_hub()
    for node in trio.nodes:
        trio.connect(node)
    trio.settle()
    return old


def retire(trio: Trio, db_id: int = 1) -> bool:
    """Declare store 1.``db_id`` lost; return whether it was declared lost before."""
    received: list[bool] = []
    trio.hub.custody.stores.retire((1, db_id), "ops", "the disk is gone", received.append, fail)
    assert received == []  # nothing before the commit
    trio.settle()
    return received[0]


def fail(error: Exception) -> None:
    raise error


def is_ack_owed(trio: Trio) -> bool:
    """Whether B still waits for the hub to note its Ack."""
    (row,) = trio.b.store.tables.pending.values()
    return row.p_ack_status is AckStatus.AS_INIT


def test_an_ack_about_a_copy_in_another_store_waits_for_that_store() -> None:
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"x")
    trio.settle()
    trio.lose = lambda wire, frame: wire is trio.b.up
    trio.connect(trio.b)
    trio.settle()
    trio.lose = lambda wire, frame: False
    received: list[Any] = []

    def listen(wire: TrioWire, frame: Frame) -> bool:
        if wire is trio.b.down and isinstance(frame, Packet) and frame.source == HUB:
            received.extend(record for record in records([frame]) if getattr(record, "ack_flag", None))
        return False

    trio.lose = listen
    first = switch_store(trio, 2, MemoryStore())
    trio.later(AFTER_INQUIRIES_S, STEP)
    assert (received, is_ack_owed(trio)) == ([], True)
    assert trio.hub.custody.stores.missed[1, 1] > 1
    switch_store(trio, 1, MemoryStore(first.tables))
    trio.later(AFTER_INQUIRIES_S, STEP)
    assert {record.ack_flag for record in received} == {AckFlag.TRANSPORT}
    assert trio.is_clean()


@pytest.mark.parametrize("arrived", [False, True], ids=["it had not arrived", "it had arrived"])
def test_the_document_of_a_copy_in_a_lost_store_ends_delivered_if_it_had_arrived_and_else_lost(arrived: bool) -> None:
    """@Ack2=0: the sender has no payload; the document ends only when the store is declared lost."""
    trio = with_copy_in_other_store(arrived=arrived, ack2=False)
    trio.lose = lambda wire, frame: arrived and wire is trio.b.up and _is_for_a(trio, frame)
    trio.later(2 * AFTER_INQUIRIES_S, STEP)
    (row,) = trio.a.store.tables.outbound.values()
    assert (row.ss_status, row.outcome, row.has_payload) == (SendStatus.SS_ACK, None, False)
    assert row.object_id in trio.a.engine.sender.away_since
    trio.lose = lambda wire, frame: False
    assert retire(trio) is False
    assert retire(trio) is True
    trio.later(AFTER_INQUIRIES_S, STEP)
    assert trio.a.reported.events[-1].outcome == ("DELIVERED" if arrived else "LOST")
    assert trio.b.app.payloads == ([b"x"] if arrived else [])
    assert trio.is_clean()


def _is_for_a(trio: Trio, frame: Frame) -> bool:
    return isinstance(frame, Packet) and frame.target.node == trio.a.address


def test_an_offline_receiver_is_asked_when_it_is_online_again() -> None:
    trio = with_copy_in_other_store(ack2=False)
    trio.cut(trio.b)
    retire(trio)
    trio.later(AFTER_INQUIRIES_S, STEP)
    (row,) = trio.a.store.tables.outbound.values()
    assert row.outcome is None
    trio.connect(trio.b)
    trio.later(600, STEP)
    assert trio.a.reported.events[-1].outcome == "LOST"
    assert trio.is_clean()


def test_a_sender_with_the_payload_needs_no_operator() -> None:
    trio = with_copy_in_other_store()
    trio.later(AFTER_INQUIRIES_S, STEP)
    assert trio.b.app.payloads == [b"x"]
    assert trio.a.reported.events[-1].outcome == "DELIVERED"


def test_the_hub_remembers_retired_stores() -> None:
    trio = with_copy_in_other_store(ack2=False)
    retire(trio)
    trio.crash_hub()
    assert trio.hub.custody.stores.retired == {(1, 1)}
    answers: list[Any] = []

    def listen(wire: TrioWire, frame: Frame) -> bool:
        if wire is trio.a.down:
            answers.extend(r.answer for r in records([frame]) if getattr(r, "answer", None))
        return False

    trio.lose = listen
    for node in trio.nodes:
        trio.connect(node)
    trio.later(60)
    assert Answer.GONE in answers
    assert Answer.UNAVAIL not in answers


def test_a_working_store_is_not_declared_lost() -> None:
    trio = Trio()
    failed: list[Exception] = []
    trio.hub.custody.stores.retire((1, 1), "ops", "a mistake", lambda was: None, failed.append)
    trio.settle()
    assert [type(error) for error in failed] == [StoreInUse]
    assert trio.hub.custody.stores.retired == set()


def test_stores_named_by_peers_are_counted_within_bounds() -> None:
    trio = Trio()
    stores = trio.hub.custody.stores
    assert not any(stores.is_retired(trio.hub.core.lk1(1)._replace(semq_db_id=number)) for number in range(2, 500))
    assert len(stores.missed) == 100
