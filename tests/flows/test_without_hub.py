"""Two engines without a hub: the configuration names their partners, a direct session brings certificates."""

from semq.engine.errors import UnknownTarget
from semq.seal.errors import CannotSeal
from semq.store.rows import Event
from semq.umx_t.status import Outcome
from tests.flows.sealed import SealedWorld, keys_of, outcomes


def world() -> SealedWorld:
    """Return A and B with a direct session, and without a hub."""
    sealed_world = SealedWorld(has_hub=False)
    sealed_world.lose = lambda wire, frame: False
    sealed_world.connect_directly()
    sealed_world.settle()
    return sealed_world


def test_sealed_documents_go_both_ways_with_signed_receipts() -> None:
    pair = world()
    pair.a.send(b"to B", encrypt=True)
    pair.b.send(b"to A", to="10008", encrypt=True)
    pair.settle()
    assert (pair.b.app.payloads, pair.a.app.payloads) == ([b"to B"], [b"to A"])
    assert pair.a.reported.kinds == ["sent", "delivered"]
    assert pair.a.lines(Event.VIOLATION) == pair.b.lines(Event.VIOLATION) == 0
    pair.later(1)
    assert pair.is_clean()


def test_a_session_that_replaces_a_half_open_one_brings_the_certificates_again() -> None:
    """What B sends takes the older of two sessions, until B notices its end."""
    pair = world()
    half_open = pair.direct[1]
    half_open.is_up = False
    pair.b.crash()
    pair.b.engine.link_up(half_open)
    keys_of(pair.b).own_keys = pair.certified_keys(pair.b.address, "X")
    pair.connect_directly()
    pair.b.send(b"to A", to="10008")
    pair.later(100)
    assert pair.a.app.payloads == []
    pair.b.engine.link_down(half_open)
    pair.later(400)
    assert pair.a.app.payloads == [b"to A"]
    assert pair.is_clean()


def test_a_target_that_the_configuration_does_not_name_and_a_group_are_refused() -> None:
    pair = world()
    pair.a.send(b"x", to="77001")
    pair.a.send(b"x", to="3.banks")
    assert [type(error) for error in pair.a.refused] == [UnknownTarget, UnknownTarget]
    assert pair.a.rows["tb_0031"] == 0


def test_documents_wait_for_a_partner_that_is_away_and_survive_crashes_of_both() -> None:
    pair = world()
    pair.cut_directly()
    pair.a.send(b"1", b"2", order_key="k")
    pair.settle()
    pair.later(600)
    pair.a.crash()
    pair.b.crash()
    assert pair.a.rows["tb_0031"] == 2
    pair.connect_directly()
    pair.later(20)
    assert pair.b.app.payloads == [b"1", b"2"]
    assert pair.is_clean()


def test_a_document_can_be_sealed_after_the_first_session_has_ended_but_not_before_it() -> None:
    pair = SealedWorld(has_hub=False)
    pair.lose = lambda wire, frame: False
    pair.a.send(b"x", encrypt=True)
    assert [type(error) for error in pair.a.refused] == [CannotSeal]
    pair.connect_directly()
    pair.settle()
    pair.cut_directly()
    pair.a.send(b"sealed", encrypt=True)
    pair.settle()
    assert pair.a.rows["tb_0031"] == 1


def test_a_renewed_certificate_arrives_in_the_present_session() -> None:
    pair = world()
    pair.a.send(b"1", encrypt=True)
    pair.settle()
    pair.roll(pair.b, "B2", "B1")
    pair.settle()
    pair.a.send(b"2", encrypt=True)
    pair.b.send(b"signed with B2", to="10008")
    pair.settle()
    assert pair.b.app.payloads == [b"1", b"2"]
    assert pair.a.app.payloads == [b"signed with B2"]
    pair.later(1)
    assert pair.is_clean()


def test_a_document_sealed_for_a_lost_key_is_sealed_again_for_the_key_that_the_next_session_brings() -> None:
    pair = world()
    pair.cut_directly()
    pair.a.send(b"x", encrypt=True)
    pair.settle()
    pair.roll(pair.b, "B2")
    pair.connect_directly()
    pair.later(60)
    assert pair.b.app.payloads == [b"x"]
    assert Outcome.REJECTED not in outcomes(pair.a)
