"""A new engine in the same process, after a loss of the store: what applications hold stays theirs."""

from tests.flows.trio import Trio
from tests.memory_store.store import MemoryStore


def test_a_document_that_an_application_holds_is_not_given_again_by_the_next_engine() -> None:
    trio = Trio()
    trio.b.app.acks = False
    for order_key in ("", "k"):
        trio.a.send(b"x", order_key=order_key)
    trio.settle()
    held, former = list(trio.b.app.held), trio.b.engine
    assert len(held) == 2
    trio.cut(trio.b)
    trio.b.store = MemoryStore(trio.b.store.tables)
    trio.b.start()
    trio.b.app.held = held
    trio.b.engine.take_over(former)
    trio.connect(trio.b)
    trio.later(60)
    assert len(trio.b.app.deliveries) == 2
    trio.b.app.acks = True
    trio.later(310, step=1)
    assert trio.is_clean()
    assert len(trio.b.app.deliveries) == 2
