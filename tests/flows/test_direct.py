"""Direct sessions of A with B in addition to the hub: ways of documents and receipts (PROTOCOL.md section 26)."""

from msgspec.structs import replace

from semq.engine.direct import INTRODUCTIONS_MAX
from semq.engine.uplink import DIRECTLY
from semq.store.rows import Event
from semq.umx_t.address import Address, NodeType
from semq.umx_t.envelope import Data, Function, Packet, Primitive
from semq.umx_t.records import HubFlag, Presence, Receipt
from semq.umx_t.status import SendStatus
from tests.flows.sealed import SealedWorld, key_named, keys_of
from tests.flows.trio import Trio, TrioWire, is_message, records


def direct() -> Trio:
    """Return a trio with a direct session of A and B."""
    trio = Trio()
    trio.connect_directly()
    trio.settle()
    return trio


def messages(wire: TrioWire) -> list[Data]:
    return [frame for frame in wire.sent if isinstance(frame, Data)]


def lines_about_the_way(trio: Trio) -> list[tuple[str, str]]:
    """Return event and detail of the ledger lines that name the way of a message."""
    ledgers = (trio.a.store.tables.ledger, trio.b.store.tables.ledger)
    steps = (Event.SENT, Event.RECEIVED)
    return [(line.event.name, line.detail) for ledger in ledgers for line in ledger if line.event in steps]


def test_a_document_and_its_receipts_take_the_direct_way() -> None:
    trio = direct()
    trio.a.send(b"order")
    trio.settle()
    assert trio.b.app.payloads == [b"order"]
    assert trio.a.reported.kinds == ["sent", "delivered"]
    to_b, to_a = trio.direct
    assert [is_message(frame) for frame in to_b.sent] == [True, False]  # the document, then ReAck2
    assert len(to_a.sent) == 1  # Ack2
    assert trio.a.up is not None
    assert not trio.a.up.sent
    assert lines_about_the_way(trio) == [("SENT", DIRECTLY), ("RECEIVED", DIRECTLY)]
    trio.later(1)
    assert trio.is_clean()


def test_the_ledger_names_the_direct_way_of_documents_that_waited_and_of_repeats() -> None:
    trio = Trio(connected=False)
    trio.a.send(b"waits")
    trio.settle()
    trio.lose = lambda wire, frame: is_message(frame)
    trio.connect_directly()
    trio.settle()
    trio.cut_directly()
    trio.lose = lambda wire, frame: False
    trio.connect_directly()
    trio.later(20)
    assert trio.b.app.payloads == [b"waits"]
    assert lines_about_the_way(trio) == [("SENT", DIRECTLY), ("SENT", DIRECTLY), ("RECEIVED", DIRECTLY)]


def test_without_a_hub_documents_of_each_class_go_both_ways() -> None:
    trio = Trio(connected=False)
    trio.connect_directly()
    for save_fwd in (1, 2, 3):
        trio.a.send(b"to B", save_fwd=save_fwd)
        trio.b.send(b"to A", to="10008", save_fwd=save_fwd)
    trio.settle()
    assert trio.b.app.payloads == [b"to B"] * 3
    assert trio.a.app.payloads == [b"to A"] * 3
    trio.later(1)
    assert trio.is_clean()


def test_after_a_cut_inquiries_over_the_hub_precede_repeated_documents() -> None:
    trio = direct()
    trio.lose = lambda wire, frame: is_message(frame) and wire in trio.direct
    trio.a.send(b"lost")
    trio.settle()
    trio.cut_directly()
    trio.connect_directly()
    trio.lose = lambda wire, frame: wire is trio.direct[1] and isinstance(frame, Packet)
    trio.a.send(b"recorded")
    trio.settle()
    trio.cut_directly()
    trio.lose = lambda wire, frame: False
    trio.later(20)
    assert sorted(trio.b.app.payloads) == [b"lost", b"recorded"]
    assert trio.a.up is not None
    assert [message.envelope.lk0 for message in messages(trio.a.up)] == [trio.a.accepted[0].lk0]
    assert trio.b.lines(Event.DUPLICATE) == 0
    assert trio.is_clean()


def test_the_hub_stores_what_the_direct_way_lost_while_the_receiver_is_away() -> None:
    trio = direct()
    trio.lose = lambda wire, frame: wire in trio.direct
    trio.a.send(b"x")
    trio.settle()
    trio.cut_directly()
    trio.cut(trio.b)
    trio.later(20)
    assert trio.held == 1
    trio.connect(trio.b)
    trio.later(20)
    assert trio.b.app.payloads == [b"x"]
    assert trio.is_clean()


def test_the_order_is_kept_through_changes_of_the_way() -> None:
    trio = direct()
    trio.cut(trio.a)
    trio.cut_directly()
    trio.connect(trio.a)
    trio.cut(trio.b)
    trio.a.send(b"1", b"2", order_key="k")  # stored by the hub
    trio.settle()
    trio.connect_directly()
    trio.a.send(b"3", order_key="k")  # overtakes the first two, and waits at B
    trio.settle()
    assert trio.b.app.payloads == []
    trio.connect(trio.b)
    trio.settle()
    trio.cut_directly()
    trio.a.send(b"4", order_key="k")
    trio.settle()
    assert trio.b.app.payloads == [b"1", b"2", b"3", b"4"]
    trio.later(60)
    assert trio.is_clean()


def test_a_partner_speaks_for_itself_only() -> None:
    trio = direct()
    trio.a.send(b"x")
    trio.lose = lambda wire, frame: True
    trio.settle()
    trio.a.send(b"y")
    trio.settle()
    lk0 = trio.a.accepted[1].lk0
    to_b, to_a = trio.direct
    other = Address(NodeType.LOCAL, "30000")
    [message] = [message for message in messages(to_b) if message.envelope.lk0 == lk0]
    note = Receipt(ident=str(lk0), flag=HubFlag.STORED, lk1=(1, 1, 7), att=1)
    ack = Packet(trio.b.address, trio.a.address, Function.RECEIPTS, Primitive.INDICATION, [note])
    trio.a.engine.receive(to_b, [ack])  # only the hub may state custody
    foreign = replace(message.envelope, source=other, lk0=lk0._replace(id=other.id))
    trio.b.engine.receive(to_a, [Data(foreign, b"y"), Data(replace(message.envelope, lk1=(1, 1, 7)), b"y")])
    trio.a.engine.receive(to_b, [Packet(other, trio.a.address, Function.RECEIPTS, Primitive.INDICATION, [note])])
    presence = Presence(node=str(other), online=True, allowed=True, certificates=("x",))
    packet = Packet(trio.b.address, trio.a.address, Function.PRESENCE, Primitive.INDICATION, [presence])
    trio.a.engine.receive(to_b, [packet])
    trio.settle()
    assert trio.b.lines(Event.VIOLATION) == 2
    assert trio.a.lines(Event.VIOLATION) == 3
    assert trio.a.store.tables.outbound[lk0.object_id].ss_status is SendStatus.SS_SENT
    assert str(other) not in trio.a.engine.partners.allowed


def test_a_partner_that_introduces_itself_without_end_is_noted() -> None:
    trio = direct()
    _, to_a = trio.direct
    for number in range(INTRODUCTIONS_MAX + 1):
        presence = Presence(node=str(trio.a.address), online=True, certificates=(f"certificate {number}",))
        packet = Packet(trio.a.address, trio.b.address, Function.PRESENCE, Primitive.INDICATION, [presence])
        trio.b.engine.receive(to_a, [packet])
    trio.settle()
    assert trio.b.lines(Event.VIOLATION) >= 1


def test_of_two_sessions_of_a_pair_one_is_used_and_the_other_stays_ready() -> None:
    trio = direct()
    first = trio.direct
    trio.connect_directly()
    second = trio.direct
    trio.a.send(b"1")
    trio.settle()
    assert records(first[1].sent)
    assert not records(second[1].sent)
    trio.direct = first
    trio.cut_directly()
    trio.direct = second
    trio.a.send(b"2")
    trio.settle()
    assert trio.b.app.payloads == [b"1", b"2"]
    assert records(second[1].sent)


def sealed() -> SealedWorld:
    """Return A and B with certificates and a direct session, an hour after they lost the hub."""
    world = SealedWorld()
    world.connect_directly()
    world.settle()
    for node in (world.a, world.b):
        world.cut(node)
    world.time.now += 3600
    return world


def test_a_renewed_certificate_that_a_known_key_has_signed_is_accepted_while_the_hub_is_away() -> None:
    world = sealed()
    world.roll(world.b, "B2", "B1")
    world.settle()
    world.b.send(b"signed with B2", to="10008")
    world.a.send(b"sealed for B2", encrypt=True)
    world.settle()
    assert world.a.app.payloads == [b"signed with B2"]
    assert world.b.app.payloads == [b"sealed for B2"]
    assert keys_of(world.a).receiver("1.56001") == key_named("B2").public_key()


def test_a_certificate_without_the_signature_of_a_known_key_is_left_to_the_hub() -> None:
    world = sealed()
    world.roll(world.b, "B2")
    world.settle()
    assert keys_of(world.a).receiver("1.56001") == key_named("B1").public_key()


def test_a_renewed_certificate_is_left_to_the_hub_while_a_session_with_the_hub_exists() -> None:
    world = sealed()
    world.connect(world.a)
    world.roll(world.b, "B2", "B1")
    world.settle()
    assert keys_of(world.a).receiver("1.56001") == key_named("B1").public_key()


def test_a_certificate_that_is_older_than_a_known_one_is_left_to_the_hub() -> None:
    """It may have been revoked."""
    world = sealed()
    world.time.now -= 7200
    world.roll(world.b, "B2", "B1")
    world.time.now += 7200
    world.settle()
    assert keys_of(world.a).receiver("1.56001") == key_named("B1").public_key()


def test_logins_at_the_hub_repeat_no_introduction_to_a_partner() -> None:
    world = sealed()
    for _ in range(20):
        world.connect(world.b)
        world.settle()
        world.cut(world.b)
    assert world.a.lines(Event.VIOLATION) == 0
    world.roll(world.b, "B2", "B1")
    world.settle()
    assert keys_of(world.a).receiver("1.56001") == key_named("B2").public_key()


def test_after_the_end_of_a_direct_session_the_sender_asks_within_5_s_by_the_other_way() -> None:
    """Long before the usual inquiry; and unanswered messages no longer take places of the flight."""
    trio = direct()
    to_b = trio.direct[0]
    trio.lose = lambda wire, frame: wire is to_b
    trio.a.send(b"lost with the session")
    trio.settle()
    lane = trio.a.engine.rows.pump.lane("1.56001")
    assert lane.flight
    trio.cut_directly()
    assert not lane.flight
    trio.later(5)
    assert trio.settings.inquiry_s > 5
    assert trio.b.app.payloads == [b"lost with the session"]
    assert trio.a.reported.kinds[-1] == "delivered"
