"""Answers of applications: which deliveries count."""

from msgspec.structs import replace

from semq.store.rows import Event
from tests.flows.trio import SETTINGS, Trio


def test_a_parked_document_says_how_often_it_was_delivered() -> None:
    trio = Trio(replace(SETTINGS, deliveries_max=3))
    trio.b.app.acks = False
    trio.a.send(b"returned")
    for _ in range(3):
        trio.settle()
        trio.b.engine.answers.give_back([delivery.bref for delivery in trio.b.app.held])
        trio.b.app.held.clear()
    trio.settle()
    (line,) = [line for line in trio.b.store.tables.ledger if line.event is Event.PARKED]
    assert line.detail == "delivered 3 times without an acknowledgement"


def test_a_delivery_that_no_client_could_take_does_not_count() -> None:
    trio = Trio(replace(SETTINGS, deliveries_max=3))
    trio.b.app.acks = False
    trio.a.send(b"free")
    trio.a.send(b"in order", order_key="k")
    for _ in range(5):
        trio.settle()
        brefs = [delivery.bref for delivery in trio.b.app.held]
        assert len(brefs) == 2
        trio.b.app.held.clear()
        trio.b.engine.answers.take_back(brefs)
    trio.b.app.acks = True
    trio.settle()
    assert len(trio.b.app.deliveries) == 12
    assert {(d.deliveries, d.redelivered) for d in trio.b.app.deliveries} == {(1, False)}
    assert trio.b.lines(Event.PARKED) == 0
    assert trio.b.lines(Event.DONE) == 2
