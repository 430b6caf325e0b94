"""Ordered documents at a receiver whose users have no free place: applications that use SQL only, or busy consumers."""

from typing import Any

import pytest

from semq.store.rows import Pending
from semq.store.unit import Unit, Waiting
from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes, Data, Frame, Packet
from semq.umx_t.locator import Pos
from semq.umx_t.records import Inquiry, InquiryRole
from semq.umx_t.status import AppStatus, Arrival
from tests.flows.order.test_turns import document_of, without_consumer
from tests.flows.trio import SETTINGS, Trio, TrioWire, is_message
from tests.memory_store import store
from tests.memory_store.tables import Tables

SOURCE = Address(1, "77001")


def chained(number: int, order_key: str = "k", *, refused: bool = False) -> Data:
    """Return document ``number`` of an order. ``refused``: it arrives after its time, so the receiver refuses it."""
    attributes = Attributes(order_key=order_key, expires_at=int(refused))
    return document_of(SOURCE, number, prev=Pos(5, number - 1) if number else None, attributes=attributes)


def waiting(trio: Trio) -> list[tuple[int, Arrival]]:
    """Return position and status of B's rows in state NEW. SQL can read the first one if its status is RECV."""
    rows = sorted(trio.b.store.tables.pending.values(), key=lambda row: row.lk0.object_id)
    return [(row.sid, row.status) for row in rows if row.app_status is AppStatus.NEW]


def finish_by_sql(trio: Trio, *brefs: int) -> None:
    """Do what ``semq_done`` does, without the work that follows."""
    trio.b.store.tables.done.update(dict.fromkeys(brefs))
    trio.b.engine.completions.poll()


def test_a_refused_document_lets_its_successor_pass_when_its_predecessor_is_done_by_sql() -> None:
    trio = without_consumer()
    trio.b.receive(chained(0), chained(1, refused=True), chained(2))
    trio.settle()
    assert waiting(trio) == [(0, Arrival.RECV), (1, Arrival.REJ), (2, Arrival.RECV)]
    finish_by_sql(trio, min(trio.b.store.tables.pending))
    trio.settle()
    assert waiting(trio) == [(2, Arrival.RECV)]


def test_a_refused_document_at_the_head_of_its_order_lets_its_successor_pass() -> None:
    trio = without_consumer()
    trio.b.crash()  # a new process has not read which documents wait
    trio.connect(trio.b)
    trio.b.receive(chained(0, refused=True), chained(1))
    trio.settle()
    assert waiting(trio) == [(1, Arrival.RECV)]


def test_refused_documents_that_arrive_before_their_predecessor_let_their_successor_pass() -> None:
    trio = without_consumer()
    trio.b.receive(chained(3), chained(2, refused=True), chained(1, refused=True))
    trio.settle()
    assert waiting(trio) == [(1, Arrival.REJ), (2, Arrival.REJ), (3, Arrival.RECV)]
    trio.b.receive(chained(0))
    trio.settle()
    finish_by_sql(trio, max(trio.b.store.tables.pending))
    trio.settle()
    assert waiting(trio) == [(3, Arrival.RECV)]


def test_a_new_engine_continues_an_order_that_was_left_at_a_refused_document() -> None:
    """The process ends after the commit of ``semq_done``, before the search for the next document."""
    trio = without_consumer()
    trio.b.receive(chained(0), chained(1, refused=True), chained(2))
    trio.settle()
    (first, *_) = sorted(trio.b.store.tables.pending)
    finish_by_sql(trio, first)
    while trio.b.store.tables.done:
        trio.b.store.begin()
        trio.b.store.commit()
        if trio.b.store.tables.done:
            trio.b.store.deliver()
    trio.b.crash()
    assert waiting(trio) == [(1, Arrival.REJ), (2, Arrival.RECV)]
    trio.settle()
    assert waiting(trio) == [(2, Arrival.RECV)]


def test_the_sender_is_asked_about_a_blocked_document_that_nobody_consumes() -> None:
    """Its predecessor does not arrive, and the sender has nothing more to send that would tell a floor (F4)."""
    trio = without_consumer()
    trio.b.crash()
    trio.connect(trio.b)
    trio.lose = lambda wire, frame: is_message(frame) and bytes(frame.body) == b"1"
    trio.a.send(b"1", b"2", order_key="k")
    trio.a.send(b"3", b"4", order_key="not blocked")
    trio.settle()
    trio.later(20)
    (blocked,) = (row for row in trio.b.store.tables.pending.values() if row.order_key == "k")
    assert not any(row.owes for row in trio.b.store.tables.pending.values())
    asked: list[Inquiry] = []

    def keep(wire: TrioWire, frame: Frame) -> bool:
        if wire is trio.b.up and isinstance(frame, Packet):
            asked.extend(each for each in frame.records if isinstance(each, Inquiry) and each.role is InquiryRole.R)
        return is_message(frame)

    trio.lose = keep
    trio.later(SETTINGS.inquiry_s_max * 2)
    assert {each.ident for each in asked} == {str(blocked.lk0)}
    assert [order.blocked for order in trio.b.engine.handover.orders.values()] == [blocked.bref]


def two_users(**free: int) -> tuple[Trio, dict[str, int]]:
    """Return a trio in which each user of B takes as many documents at a time as ``free`` says."""
    trio = Trio()
    held = trio.b.app.held
    trio.b.app.acks = False
    trio.b.app.free = lambda user: max(free.get(user, 0) - sum(d.envelope.target.user == user for d in held), 0)  # type: ignore[method-assign]
    return trio, free


def answer(trio: Trio, payload: bytes) -> None:
    """Let the application acknowledge a document that it holds."""
    (delivery,) = (each for each in trio.b.app.held if each.payload == payload)
    trio.b.app.held.remove(delivery)
    trio.b.engine.answers.finish([delivery.bref])
    trio.settle()


def test_an_order_continues_with_another_user_although_the_first_one_consumes_no_more() -> None:
    trio, free = two_users(desk=1, sales=5)
    trio.a.send(b"1", to="56001/desk", order_key="k")
    trio.a.send(b"2", to="56001/sales", order_key="k")
    trio.settle()
    for user in free:
        trio.b.engine.handover.feed(user)
    trio.settle()
    assert trio.b.app.payloads == [b"1"]
    free["desk"] = 0
    answer(trio, b"1")
    assert trio.b.app.payloads == [b"1", b"2"]


def test_an_order_continues_with_another_user_although_the_first_one_is_busy_with_other_documents() -> None:
    trio, _ = two_users(desk=1, sales=1)
    trio.a.send(b"1", to="56001/desk", order_key="k")
    trio.settle()
    trio.b.engine.handover.feed("desk")
    trio.b.engine.handover.feed("sales")
    trio.settle()
    trio.a.send(b"other 1", b"other 2", to="56001/desk")
    trio.a.send(b"2", to="56001/sales", order_key="k")
    trio.settle()
    assert trio.b.app.payloads == [b"1"]
    (delivery,) = trio.b.app.held
    trio.b.app.held.clear()
    trio.b.engine.answers.finish([delivery.bref])
    trio.b.engine.handover.feed("desk")
    trio.settle()
    assert sorted(trio.b.app.payloads) == [b"1", b"2", b"other 1"]


def memory(trio: Trio) -> dict[str, Any]:
    """Return what the handover keeps about orders: their number, and by user the keys that wait for a turn."""
    handover = trio.b.engine.handover
    keys = {user: [key for turns in queue.sources.values() for key in turns.keys]
            for user, queue in handover.queues.items()}  # fmt: skip
    return {"orders": len(handover.orders), "keys": {user: found for user, found in keys.items() if found}}


def test_nothing_is_kept_about_orders_whose_documents_are_all_done_by_sql() -> None:
    trio = Trio()
    trio.b.app.places = 0
    for number in range(20):
        order_key = f"k{number}"
        trio.a.send(b"1", b"2", to="56001/desk", order_key=order_key)
        trio.a.send(b"3", order_key=order_key)
        trio.settle()
        while trio.b.store.tables.pending:
            finish_by_sql(trio, min(trio.b.store.tables.pending))
            trio.later(1)
    assert memory(trio) == {"orders": 0, "keys": {}}


def limited_to(places: int) -> Trio:
    """Return a trio in which B's application takes ``places`` documents and acknowledges none."""
    trio = without_consumer()
    trio.b.app.places = places
    trio.b.engine.handover.feed("")
    trio.settle()
    return trio


def test_searches_of_one_unit_give_no_more_documents_than_places_are_free() -> None:
    trio = limited_to(1)
    trio.b.receive(*(document_of(SOURCE, number, order_key=f"k{number}") for number in range(50)))
    trio.settle()
    for _ in range(50):
        (delivery,) = trio.b.app.held
        trio.b.app.held.clear()
        trio.b.engine.answers.finish([delivery.bref])
        trio.settle()
    assert trio.b.app.held == []
    assert waiting(trio) == []


def test_documents_that_nobody_can_take_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The consumer of fifty documents in order is lost."""
    trio = limited_to(50)
    trio.b.receive(*(document_of(SOURCE, number, order_key=f"k{number}") for number in range(50)))
    trio.settle()
    brefs = [delivery.bref for delivery in trio.b.app.held]
    assert len(brefs) == 50
    trio.b.app.held.clear()
    trio.b.app.places = 0
    read: list[Pending] = []
    from_tables = store._waiting

    def counted(tables: Tables, unit: Unit, query: Waiting) -> list[Pending]:
        read.extend(rows := list(from_tables(tables, unit, query)))
        return rows

    monkeypatch.setattr(store, "_waiting", counted)
    trio.b.engine.answers.give_back(brefs)
    trio.settle()
    assert read == []
    assert len(waiting(trio)) == 50
