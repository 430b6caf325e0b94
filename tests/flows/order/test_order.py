"""The order of documents: a sequence of events that once broke it, and @Fixed."""

from semq.errors import SemqError
from semq.umx_t.envelope import Frame
from tests.flows.trio import Trio, TrioWire, is_message


def test_a_waiting_document_is_delivered_although_its_predecessor_is_recorded_during_the_search() -> None:
    """Of two documents with one order key, the second arrives first, and waits.

    The first is recorded in the unit that searches for the next document of the order: the query, which runs before
    the unit's changes, does not return the row of the first.
    """
    trio = Trio()
    late: list[tuple[TrioWire, Frame]] = []

    def keep_first(wire: TrioWire, frame: Frame) -> bool:
        if is_message(frame) and not late:
            late.append((wire, frame))
            return True
        return False

    trio.lose = keep_first
    trio.a.send(b"1", order_key="k")
    trio.a.send(b"2", order_key="k")
    trio.settle()
    assert trio.b.app.payloads == []
    ((_, first),) = late
    b = trio.b
    assert b.up is not None
    b.engine.handover.feed("")  # search for the next document
    b.store.begin()
    b.engine.receive(b.up, [first])
    b.store.commit()
    b.store.deliver()
    trio.settle()
    assert b.app.payloads == [b"1", b"2"]
    trio.later(60)
    assert trio.is_clean()


def test_fixed_documents_to_one_address_form_a_sequence() -> None:
    """Without a key, documents with @Fixed=1 to one address wait for each other."""
    trio = Trio()
    trio.lose = lambda wire, frame: is_message(frame) and bytes(frame.body) == b"1"
    trio.a.send(b"1", fixed=True)
    trio.a.send(b"2", fixed=True)
    trio.a.send(b"3", to="56001/buyer", fixed=True)
    trio.a.send(b"4")
    trio.a.send(b"5", order_key="k", fixed=True)
    trio.settle()
    assert sorted(trio.b.app.payloads) == [b"3", b"4", b"5"]
    trio.lose = lambda wire, frame: False
    trio.later(60)
    assert [body for body in trio.b.app.payloads if body in (b"1", b"2")] == [b"1", b"2"]
    keys = {delivery.payload: delivery.envelope.attributes.order_key for delivery in trio.b.app.deliveries}
    assert keys == {b"1": "@Fixed", b"2": "@Fixed", b"3": "@Fixed/buyer", b"4": "", b"5": "k"}
    assert trio.is_clean()


def test_a_fixed_sequence_needs_class_3() -> None:
    trio = Trio()
    trio.a.send(b"1", fixed=True, save_fwd=2)
    trio.settle()
    assert [error.code for error in trio.a.refused if isinstance(error, SemqError)] == ["SEMQ-1104"]
