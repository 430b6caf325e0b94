"""Documents of other senders to the target of a refused copy that its sender has not noted."""

import pytest

from semq.store.rows import Event
from semq.umx_t.address import Address
from semq.umx_t.status import Outcome
from tests.flows.custody.test_refused_copies import hub_details, refuse, row_of_a, stored
from tests.flows.trio import Local, records


@pytest.mark.parametrize("restarted", [False, True])
def test_a_refused_copy_keeps_no_document_of_others_from_being_forwarded(restarted: bool) -> None:
    trio = stored()
    trio.cut(trio.a)  # so that A does not note the refusal
    trio.directory.addresses.append(Address(1, "90001"))
    other = Local(trio, "90001")
    trio.nodes.append(other)
    refuse(trio)
    if restarted:
        trio.crash_hub()
    for node in (trio.b, other):
        trio.connect(node)
    trio.settle()
    other.send(b"y", b"z")
    trio.later(2)
    assert trio.b.app.payloads == [b"y", b"z"]
    assert len(hub_details(trio, Event.STORED)) == 1
    # The sender of the refused copy may repeat its message, which must not pass by its refusal.
    trio.lose = lambda wire, frame: wire is trio.a.down and any(hasattr(r, "flag") for r in records([frame]))
    trio.connect(trio.a)
    trio.a.send(b"later")
    trio.later(2)
    assert len(hub_details(trio, Event.STORED)) == 2
    trio.lose = lambda wire, frame: False
    trio.later(120)
    assert trio.b.app.payloads == [b"y", b"z", b"later"]
    assert trio.is_clean() or row_of_a(trio).outcome is Outcome.REJECTED
    count = len(hub_details(trio, Event.STORED))
    trio.a.send(b"last")
    trio.later(2)
    assert trio.b.app.payloads[-1:] == [b"last"]
    assert len(hub_details(trio, Event.STORED)) == count
