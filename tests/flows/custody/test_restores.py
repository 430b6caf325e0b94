"""A document that the hub refuses after its sender's store was restored is never reported as rejected: it may have
arrived before."""

import pytest

from semq.engine.errors import UnknownTarget
from semq.store.rows import Event
from semq.umx_t.status import Outcome
from tests.flows.trio import Trio


def restored_after_delivery(*, order_key: str = "", save_fwd: int = 3) -> Trio:
    """Return a trio whose A was restored to the state before it sent a document, which B has; A is offline.

    B is no longer in the hub's definitions.
    """
    trio = Trio(connected=False)
    trio.a.send(b"x", order_key=order_key, save_fwd=save_fwd)
    trio.settle()
    backup = trio.a.store.tables.snapshot()
    trio.connect(trio.a)
    trio.connect(trio.b)
    trio.later(2)
    assert trio.b.app.payloads == [b"x"]
    assert trio.a.reported.kinds[-1] == "delivered"
    trio.a.store.tables.restore(backup)
    trio.a.crash()
    trio.cut(trio.b)
    trio.directory.addresses.remove(trio.b.address)
    return trio


@pytest.mark.parametrize("order_key", ["", "k"])
def test_a_restored_document_whose_target_the_hub_no_longer_knows_waits_for_the_target(order_key: str) -> None:
    trio = restored_after_delivery(order_key=order_key)
    trio.connect(trio.a)
    trio.later(600, step=1)
    (row,) = trio.a.store.tables.outbound.values()
    assert (row.outcome, row.void, row.reason and row.reason[0]) == (None, True, UnknownTarget.code)
    assert trio.a.store.tables.bodies[row.object_id].payload == b"x"
    trio.directory.addresses.append(trio.b.address)
    trio.connect(trio.b)
    trio.later(310, step=1)
    assert trio.a.lines(Event.REJECTED) == 0
    assert trio.a.reported.events[-1].outcome in (Outcome.DELIVERED.name, Outcome.UNKNOWN.name)
    assert trio.b.app.payloads == [b"x"]
    assert trio.is_clean()


def test_an_operator_ends_a_restored_document_without_a_target_as_unknown() -> None:
    trio = restored_after_delivery()
    trio.connect(trio.a)
    trio.later(60)
    trio.a.engine.acts.cancel(trio.a.accepted[0].lk0, lambda: None, trio.a.refused.append)
    trio.later(1)
    assert not trio.a.refused
    ended = trio.a.reported.events[-1]
    assert (ended.outcome, ended.reason and ended.reason[0]) == (Outcome.UNKNOWN.name, UnknownTarget.code)


def test_a_restored_document_of_class_2_that_the_hub_refuses_ends_unknown() -> None:
    trio = restored_after_delivery(save_fwd=2)
    trio.connect(trio.a)
    trio.later(1)
    ended = trio.a.reported.events[-1]
    assert (ended.outcome, ended.reason and ended.reason[0]) == (Outcome.UNKNOWN.name, UnknownTarget.code)
    assert trio.a.lines(Event.REJECTED) == 0


def test_a_document_sent_before_a_restore_and_refused_after_it_ends_unknown() -> None:
    """The restored row is SS_INIT, although the document was sent and recorded."""
    trio = Trio(connected=False)
    trio.a.send(b"x")
    trio.settle()
    backup = trio.a.store.tables.snapshot()
    trio.connect(trio.a)
    trio.connect(trio.b)
    trio.settle()
    assert trio.b.app.payloads == [b"x"]
    trio.a.store.tables.restore(backup)
    trio.a.crash()
    trio.directory.forbidden.add(trio.b.address)
    trio.connect(trio.a)
    trio.later(60)
    assert trio.a.lines(Event.REJECTED) == 0
    assert trio.a.lines(Event.UNKNOWN) == 1
    assert trio.b.app.payloads == [b"x"]
    assert trio.is_clean()
