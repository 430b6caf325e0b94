"""Floors, void markers and ReAck2: a hub could forge them in a sender's name, so they need the sender's signature."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from semq.engine.secrecy.sealing import Policy, Sealing
from semq.store.rows import Event
from semq.umx_t.envelope import Data, Frame, Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Receipt
from semq.umx_t.status import Outcome
from tests.flows.lying import Tamper, honest
from tests.flows.sealed import SECRET, SealedWorld, outcomes, send, watching
from tests.flows.trio import TrioWire


def altering_documents_to_b(world: SealedWorld, change: Callable[[Data], Data | None]) -> Tamper:
    """Return a ``tamper`` that changes the documents to B, or drops them if ``change`` returns None."""

    def tamper(wire: TrioWire, frame: Frame) -> Frame | None:
        return change(frame) if isinstance(frame, Data) and wire is world.b.down else frame

    return tamper


def stream_floors(world: SealedWorld) -> list[int]:
    return [stream.floor for stream in world.b.store.tables.in_streams.values()]


def test_a_floor_that_the_hub_raises_skips_nothing(world: SealedWorld) -> None:
    """The hub drops two documents, and raises the floor in the third."""

    def raise_floor(frame: Data) -> Data | None:
        e = frame.envelope
        return None if e.sid < 2 else replace(frame, envelope=replace(e, floor=e.sid), header=None)

    world.tamper = altering_documents_to_b(world, raise_floor)
    send(world, b"1", b"2", b"3")
    world.settle()
    assert world.b.app.payloads == [b"3"]
    world.tamper = honest
    world.later(60)
    assert sorted(world.b.app.payloads) == [b"1", b"2", b"3"]
    assert world.a.reported.kinds.count("delivered") == 3


def test_an_unproved_copy_leaves_only_the_alarm(world: SealedWorld) -> None:
    """Its floor, stream, incarnation and body are ignored."""
    seen: list[Data] = []
    world.tamper = watching(seen)
    send(world, b"1")
    world.settle()
    before = stream_floors(world)
    e = seen[-1].envelope
    for envelope in (
        replace(e, lk0=e.lk0._replace(object_id=999), sid=900, floor=900),
        replace(e, lk0=e.lk0._replace(inc=e.lk0.inc + 77, object_id=999)),
    ):
        world.b.receive(replace(seen[-1], envelope=envelope, header=None))
        world.settle()
    assert stream_floors(world) == before
    assert world.b.lines(Event.VIOLATION) == 2


def reack2(world: SealedWorld, **more: object) -> Packet:
    """Return a ReAck2 in A's name with a far too high floor; ``more`` replaces fields."""
    inc = world.a.engine.core.inc
    receipt = Receipt(ack_flag=AckFlag.END_TO_END, ident=f"1.10008.1.1.{inc:x}.1", floors={f"{inc:x}": (10_000, None)})
    packet = Packet(world.a.address, world.b.address, Function.RECEIPTS, Primitive.RESPONSE, [receipt])
    return replace(packet, **more)


def test_floors_that_the_hub_makes_up_or_alters_skip_nothing(world: SealedWorld) -> None:
    packets: list[Packet] = []

    def altering(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Packet) and wire is world.b.down and frame.primitive is Primitive.RESPONSE:
            packets.append(frame)
            return reack2(world, signature=frame.signature)
        return frame

    world.tamper = altering
    send(world, b"1")
    world.settle()
    assert packets
    assert packets[0].signature
    world.tamper = honest
    for packet in (reack2(world), reack2(world, signature="forged"), reack2(world, signature=packets[0].signature)):
        world.b.receive(packet)
        world.settle()
    assert set(stream_floors(world)) == {0}
    assert world.b.lines(Event.VIOLATION) == 4
    send(world, b"2")
    world.later(40)
    assert world.b.app.payloads == [b"1", b"2"]
    assert set(stream_floors(world)) == {2}
    assert world.is_clean()


def test_the_floors_of_the_sender_delete_entries_of_the_ledger(world: SealedWorld) -> None:
    send(world, *[bytes([n]) for n in range(5)])
    world.later(2)
    assert stream_floors(world) == [5]
    assert world.is_clean()


MARKERS: dict[str, Callable[[Data], Data]] = {
    "with the signature of the document": lambda frame: frame,
    "with an unreadable signature": lambda frame: replace(frame, envelope=replace(frame.envelope, signature="x.y")),
    "with the session key as its signature": lambda frame: replace(
        frame, envelope=replace(frame.envelope, signature=frame.envelope.session_key)
    ),
}


@pytest.mark.parametrize("forgery", MARKERS)
def test_a_void_marker_that_the_hub_makes_cancels_nothing(world: SealedWorld, forgery: str) -> None:
    def void(frame: Data) -> Data:
        return MARKERS[forgery](replace(frame, envelope=replace(frame.envelope, void=True), body=b"", header=None))

    world.tamper = altering_documents_to_b(world, void)
    send(world, SECRET)
    world.settle()
    assert outcomes(world.a) == [None]
    assert not world.b.store.tables.recorded
    assert world.b.lines(Event.VIOLATION) >= 1
    world.tamper = honest
    world.later(60)
    assert world.b.app.payloads == [SECRET]
    assert world.a.reported.kinds[-1] == "delivered"


def cancelled(world: SealedWorld) -> Data:
    """Return the marker of a document that A cancels while B is offline."""
    seen: list[Data] = []
    world.tamper = watching(seen)
    world.cut(world.b)
    send(world, b"taken back")
    world.later(1)
    world.a.engine.acts.cancel(world.a.accepted[-1].lk0, lambda: None, world.a.refused.append)
    world.later(1)
    marker = seen[-1]
    assert marker.envelope.void
    assert marker.envelope.signature
    return marker


def test_a_document_that_its_sender_cancels_ends_cancelled(world: SealedWorld) -> None:
    cancelled(world)
    world.connect(world.b)
    world.later(20)
    assert world.b.app.deliveries == []
    assert world.a.reported.kinds[-1] == "failed"
    assert world.b.lines(Event.CANCELLED) == 1
    assert world.is_clean()


def test_the_marker_of_one_document_cancels_no_other(world: SealedWorld) -> None:
    signature = cancelled(world).envelope.signature

    def void(frame: Data) -> Data:
        e = replace(frame.envelope, void=True, signature=signature)
        return replace(frame, envelope=e, body=b"", header=None)

    world.connect(world.b)
    world.later(20)
    world.tamper = altering_documents_to_b(world, void)
    send(world, SECRET)
    world.settle()
    assert outcomes(world.a) == [None]
    world.tamper = honest
    world.later(60)
    assert world.b.app.payloads == [SECRET]


@pytest.mark.parametrize("named", [True, False])
def test_a_node_of_an_older_version_is_accepted_only_if_it_is_named(named: bool) -> None:
    """An older node signs receipts, but neither floors nor markers."""
    world = SealedWorld()

    def older(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Data) and wire is world.b.down and frame.envelope.void:
            return replace(frame, envelope=replace(frame.envelope, signature=""), header=None)
        if isinstance(frame, Packet) and wire is world.b.down and frame.primitive is Primitive.RESPONSE:
            return replace(frame, signature="")
        return frame

    assert isinstance(world.b.sealing, Sealing)
    world.b.sealing.policy = Policy(unsigned_floors_from=["10008"] if named else [])
    world.settle()
    cancelled(world)
    send(world, SECRET)
    world.tamper = older
    world.connect(world.b)
    world.later(30)
    assert world.b.app.payloads == [SECRET]
    assert (world.b.lines(Event.CANCELLED) == 1) is named
    assert (world.b.lines(Event.VIOLATION) == 0) is named
    assert outcomes(world.a) == ([] if named else [None])
    assert Outcome.DELIVERED not in outcomes(world.a)
