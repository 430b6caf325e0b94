"""A document that the hub refuses after its sender's store was restored ends UNKNOWN: it may have arrived before."""

from semq.store.rows import Event
from tests.flows.trio import Trio


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
