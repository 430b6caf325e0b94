"""Copies that their receiver cannot believe: sent again in measure, answered by what the ledger says."""

from semq.store.rows import Event
from semq.umx_t.envelope import Data, Frame
from tests.flows.lying import honest
from tests.flows.sealed import World, keys_of
from tests.flows.trio import Wire

COPIES_MAX = 12


def test_a_document_of_a_key_that_its_receiver_never_learns_is_sent_a_few_times(world: World) -> None:
    copies: list[str] = []

    def tamper(wire: Wire, frame: Frame) -> Frame:
        if isinstance(frame, Data) and wire is world.b.down:
            copies.append(frame.envelope.ident)
            assert len(copies) <= COPIES_MAX
        return frame

    world.tamper = tamper
    keys_of(world.a).mine = world.own(world.a.address, "X")  # and the directory is not told
    world.a.send(b"in clear")
    world.later(300)
    assert len(copies) > 4  # it goes on after B's patience has ended
    assert world.b.lines(Event.VIOLATION) == len(copies)
    assert world.b.app.payloads == []
    world.tamper = honest
    world.a.engine.introduce()
    world.later(400)
    assert world.b.app.payloads == [b"in clear"]
    assert world.a.told.kinds[-1] == "delivered"
    assert not world.a.engine.sender.disbelieved
    world.later(100)
    assert world.is_clean()
