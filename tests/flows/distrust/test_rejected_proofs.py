"""Copies whose proof the receiver does not accept: repeats at a limited rate, and answers from the ledger."""

from hashlib import sha256

import pytest
from msgspec.structs import replace
from msgspec.structs import replace as replaced

from semq.engine.secrecy.sealing import Policy
from semq.pki.keys import key_id
from semq.seal.errors import SignatureWrong, SignerAwaited
from semq.store.rows import Event
from semq.umx_t.envelope import Data, Frame, Packet
from semq.umx_t.records import Answer, Receipt
from semq.umx_t.status import SendStatus
from tests.flows.lying import honest, sealing, violations
from tests.flows.sealed import SealedWorld, key_named, keys_of, watching
from tests.flows.trio import SETTINGS, TrioWire

COPIES_MAX = 12  # how often A may send the document in 300 s


def test_a_document_signed_with_an_unknown_key_is_sent_a_few_times_until_the_key_is_known(
    world: SealedWorld,
) -> None:
    copies: list[str] = []

    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Data) and wire is world.b.down:
            copies.append(frame.envelope.ident)
            assert len(copies) <= COPIES_MAX
        return frame

    world.tamper = tamper
    keys_of(world.a).own_keys = world.certified_keys(world.a.address, "X")  # not introduced yet
    world.a.send(b"in clear")
    world.later(300)
    assert len(copies) > 4  # B has stopped waiting for the certificate
    awaited = world.b.engine.core.counters.counts["signer_awaited"]
    assert 0 < awaited < len(copies)
    assert world.b.lines(Event.VIOLATION) == len(copies) - awaited
    assert [line.detail[:9] for line in world.b.store.tables.ledger if line.event is Event.OPERATOR].count(
        SignerAwaited.code
    ) == 1
    assert world.b.app.payloads == []
    world.tamper = honest
    world.a.engine.introduce()
    world.later(400)
    assert world.b.app.payloads == [b"in clear"]
    assert world.a.reported.kinds[-1] == "delivered"
    assert not world.a.engine.sender.rejected_proofs._rejections
    world.later(100)
    assert world.is_clean()


def test_a_recorded_forgery_is_replaced_only_by_a_document_that_can_be_read() -> None:
    world = SealedWorld(Policy(unproved_from=["10008"]))
    seen: list[Data] = []

    def tamper(wire: TrioWire, frame: Frame) -> Frame | None:
        if isinstance(frame, Data) and wire is world.b.down:
            seen.append(frame)
            return None
        return frame

    world.settle()
    world.tamper = tamper
    world.a.send(b"in clear")
    world.settle()
    frame, recorded = seen[0], world.b.store.tables.recorded
    forged = replace(frame.envelope, digest=sha256(b"pay me!!").digest(), signature="")
    world.b.receive(replace(frame, envelope=forged, body=b"pay me!!", header=None))
    world.settle()
    before = dict(recorded)
    assert len(before) == 1
    world.b.receive(replace(frame, body=b"unclear!", header=None))  # a body of the signed length
    world.settle()
    assert recorded == before
    assert (world.b.lines(Event.MISMATCH), violations(world.b)) == (1, 0)
    world.b.receive(frame)
    world.settle()
    assert world.b.app.payloads[-1] == b"in clear"
    assert violations(world.b) == 1


def test_an_unproved_copy_is_answered_from_the_ledger(world: SealedWorld) -> None:
    seen: list[Data] = []
    received: list[Answer] = []

    def tamper(wire: TrioWire, frame: Frame) -> Frame | None:
        if isinstance(frame, Data):
            seen.append(frame)
        if not isinstance(frame, Packet) or wire is not world.b.up:
            return frame
        received.extend(r.status for r in frame.records if isinstance(r, Receipt) and r.status is not None)
        return None  # else A's ReAck2 lets B delete the entry of the ledger

    world.tamper = tamper
    world.a.send(b"in clear")
    world.later(2)
    assert received == [Answer.RECV]
    received.clear()
    world.roll(world.a, "X")
    world.settle()
    frame, before = seen[-1], violations(world.b)
    world.b.receive(frame)
    world.later(61)
    assert received == []  # the certificate may still arrive
    world.b.receive(frame)
    world.settle()
    assert received == [Answer.RECV]
    other = replace(frame.envelope, digest=sha256(b"pay me").digest())
    world.b.receive(replace(frame, envelope=other, body=b"pay me"))
    world.later(2)
    assert received == [Answer.RECV]
    assert violations(world.b) == before + 2  # none for the first copy, which waited for the certificate
    assert world.b.app.payloads == [b"in clear"]


def test_a_signature_of_one_key_is_valid_under_no_other(world: SealedWorld) -> None:
    world.roll(world.a, "X", "A1")  # B has both certificates
    world.settle()
    seen: list[Data] = []
    world.tamper = watching(seen)
    world.a.send(b"in clear")
    world.settle()
    frame, opener = seen[-1], sealing(world.b)
    assert opener.check_origin(frame)
    version, name, *rest = frame.envelope.signature.split(".")
    assert name == key_id(key_named("X"))
    other = ".".join((version, key_id(key_named("A1")), *rest))
    with pytest.raises(SignatureWrong):
        opener.check_origin(replace(frame, envelope=replace(frame.envelope, signature=other)))
    opener.check_all()
    assert opener.check_origin(frame)


def stored_under_an_unknown_key(world: SealedWorld, *, ack2: bool = True, cancels: bool = False) -> Packet:
    """Let the hub store a document of A, signed with a key unknown to B; return the statement of its custody.

    ``cancels``: the document, with an order key, becomes a void marker there.
    """
    received: list[Packet] = []

    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Packet) and wire is world.a.down:
            received.append(frame)
        return frame

    world.cut(world.b)
    world.settle()
    world.tamper = tamper
    keys_of(world.a).own_keys = world.certified_keys(world.a.address, "X")  # not introduced
    world.a.send(b"in clear", ack2=ack2, order_key="k" if cancels else "")
    world.settle()
    if cancels:
        (row,) = world.a.store.tables.outbound.values()
        world.a.engine.acts.cancel(row.lk0, lambda: None, world.a.refused.append)
        world.settle()
    world.tamper = honest
    world.roll(world.a, "A1")
    assert world.held == 1
    return received[-1]


def test_a_new_signature_reaches_the_hub_although_a_hint_of_custody_overtakes_it(world: SealedWorld) -> None:
    custody = stored_under_an_unknown_key(world)
    (row,) = world.a.store.tables.outbound.values()
    up, copies = world.a.up, []
    assert up is not None

    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Data) and wire is up:
            copies.append(frame)
        return frame

    world.tamper = tamper
    world.connect(world.b)
    up.room = 0  # the document waits at A
    while world.a.store.tables.outbound[row.object_id].ss_status is not SendStatus.SS_INIT:
        world.later(1)
    world.a.receive(custody)
    up.room = 1000
    world.settle()
    assert copies == []
    world.later(400)
    assert world.b.app.payloads == [b"in clear"]
    assert world.is_clean()


def test_a_parked_copy_is_sent_when_it_gets_a_new_signature() -> None:
    world = SealedWorld()
    world.settings = replaced(SETTINGS, hub_attempts_max=8)
    world.start_hub()
    world.connect(world.a)
    stored_under_an_unknown_key(world)
    assert world.a.up is not None
    world.connect(world.b)
    world.a.up.room = 0  # the new signature waits at A
    while not any(line.event is Event.PARKED for line in world.hub_store.tables.ledger):
        world.later(5)
    world.a.up.room = 1000
    world.a.engine.send_waiting()
    world.later(100)
    assert world.b.app.payloads == [b"in clear"]
    assert world.is_clean()


def test_a_parked_copy_gets_a_new_signature_when_its_sender_returns() -> None:
    world = SealedWorld()
    world.settings = replaced(SETTINGS, hub_attempts_max=8)
    world.start_hub()
    world.connect(world.a)
    stored_under_an_unknown_key(world)
    world.cut(world.a)  # for longer than the hub repeats the copy
    world.connect(world.b)
    while not any(line.event is Event.PARKED for line in world.hub_store.tables.ledger):
        world.later(5)
    world.later(100)
    sends = world.hub_store.tables.outbound.copy().popitem()[1].att
    assert sends == 8
    world.connect(world.a)
    world.later(400)
    assert world.b.app.payloads == [b"in clear"]
    assert world.is_clean()


def test_the_copy_at_the_hub_gets_a_new_signature_although_its_sender_has_deleted_the_payload(
    world: SealedWorld,
) -> None:
    stored_under_an_unknown_key(world, ack2=False)
    (row,) = world.a.store.tables.outbound.values()
    assert not row.has_payload
    world.connect(world.b)
    world.later(400)
    assert world.b.app.payloads == [b"in clear"]
    assert world.b.lines(Event.MISMATCH) == 0
    assert world.is_clean()


def test_a_void_marker_at_the_hub_gets_a_new_signature(world: SealedWorld) -> None:
    stored_under_an_unknown_key(world, cancels=True)
    (copy,) = world.hub_store.tables.outbound.values()
    assert copy.void
    world.a.send(b"the next one", order_key="k")
    world.connect(world.b)
    world.later(400)
    assert {event.outcome for event in world.a.reported.events if event.outcome} == {"CANCELLED", "DELIVERED"}
    assert world.b.app.payloads == [b"the next one"]
    assert world.is_clean()


def test_a_signature_without_its_payload_makes_no_copy_and_reaches_no_receiver(world: SealedWorld) -> None:
    """The hub has lost its copy: the document is lost, too, and its sender says so."""
    stored_under_an_unknown_key(world, ack2=False)
    world.hub_store.tables.outbound.clear()
    world.hub_store.tables.bodies.clear()
    world.hub_store.tables.relayed.clear()
    world.crash_hub()
    world.a.crash()
    (row,) = world.a.store.tables.outbound.values()
    row.ss_status = SendStatus.SS_INIT  # as after a report of the receiver (S16)
    seen: list[Frame] = []

    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        if wire is world.b.down:
            seen.append(frame)
        return frame

    world.tamper = tamper
    world.start_hub()
    world.a.start()
    world.connect(world.a)
    world.connect(world.b)
    world.later(1000)
    assert not any(isinstance(frame, Data) and frame.is_bare for frame in seen)
    assert world.b.app.payloads == []
    assert world.a.lines(Event.LOST) == 1
    assert world.is_clean()
