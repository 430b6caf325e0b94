"""Two engines without a hub: the configuration names their partners, a direct session brings certificates."""

from semq.engine.errors import UnknownTarget
from semq.seal.errors import CannotSeal
from semq.store.rows import Event
from semq.umx_t.status import Outcome
from tests.flows.sealed import SealedWorld, outcomes


def world() -> SealedWorld:
    """Return A and B with a direct session, and without a hub."""
    sealed_world = SealedWorld(has_hub=False)
    sealed_world.lose = lambda wire, frame: False
    sealed_world.connect_directly()
    sealed_world.settle()
    return sealed_world


def test_sealed_documents_go_both_ways_with_signed_receipts() -> None:
    trio = world()
    trio.a.send(b"to B", encrypt=True)
    trio.b.send(b"to A", to="10008", encrypt=True)
    trio.settle()
    assert (trio.b.app.payloads, trio.a.app.payloads) == ([b"to B"], [b"to A"])
    assert trio.a.reported.kinds == ["sent", "delivered"]
    assert trio.a.lines(Event.VIOLATION) == trio.b.lines(Event.VIOLATION) == 0
    trio.later(1)
    assert trio.is_clean()


def test_a_target_that_the_configuration_does_not_name_and_a_group_are_refused() -> None:
    trio = world()
    trio.a.send(b"x", to="77001")
    trio.a.send(b"x", to="3.banks")
    assert [type(error) for error in trio.a.refused] == [UnknownTarget, UnknownTarget]
    assert trio.a.rows["tb_0031"] == 0


def test_documents_wait_for_a_partner_that_is_away_and_survive_crashes_of_both() -> None:
    trio = world()
    trio.cut_directly()
    trio.a.send(b"1", b"2", order_key="k")
    trio.settle()
    trio.later(600)
    trio.a.crash()
    trio.b.crash()
    assert trio.a.rows["tb_0031"] == 2
    trio.connect_directly()
    trio.later(20)
    assert trio.b.app.payloads == [b"1", b"2"]
    assert trio.is_clean()


def test_a_document_can_be_sealed_after_the_first_session_has_ended_but_not_before_it() -> None:
    trio = SealedWorld(has_hub=False)
    trio.lose = lambda wire, frame: False
    trio.a.send(b"x", encrypt=True)
    assert [type(error) for error in trio.a.refused] == [CannotSeal]
    trio.connect_directly()
    trio.settle()
    trio.cut_directly()
    trio.a.send(b"sealed", encrypt=True)
    trio.settle()
    assert trio.a.rows["tb_0031"] == 1


def test_a_renewed_certificate_arrives_in_the_present_session() -> None:
    trio = world()
    trio.a.send(b"1", encrypt=True)
    trio.settle()
    trio.roll(trio.b, "B2", "B1")
    trio.settle()
    trio.a.send(b"2", encrypt=True)
    trio.b.send(b"signed with B2", to="10008")
    trio.settle()
    assert trio.b.app.payloads == [b"1", b"2"]
    assert trio.a.app.payloads == [b"signed with B2"]
    trio.later(1)
    assert trio.is_clean()


def test_a_document_sealed_for_a_lost_key_is_sealed_again_for_the_key_that_the_next_session_brings() -> None:
    trio = world()
    trio.cut_directly()
    trio.a.send(b"x", encrypt=True)
    trio.settle()
    trio.roll(trio.b, "B2")
    trio.connect_directly()
    trio.later(60)
    assert trio.b.app.payloads == [b"x"]
    assert Outcome.REJECTED not in outcomes(trio.a)
