"""A hub sends forged statements of other nodes to nodes with certificates: altered, to a wrong node, or late.

The forgeries have no effect, and most are noted as violations.
"""

import pytest
from msgspec.structs import replace

from semq.engine.sender.endings import REFUSALS
from semq.store.rows import Event
from semq.umx_t.envelope import Data, Frame, Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Answer, HubFlag, Inquiry, InquiryRole, Presence, Receipt
from semq.umx_t.status import Outcome
from tests.flows.lying import (
    FAR_FLOOR,
    STATEMENTS_OF_B,
    A,
    B,
    C,
    dropping_frames_of_b,
    floors,
    honest,
    is_ignoring_b,
    open_row,
    signed,
    violations,
)
from tests.flows.sealed import SECRET, SealedWorld, outcomes, send
from tests.flows.trio import HUB, TrioWire


def test_a_reack2_for_another_node_raises_no_floor(world: SealedWorld) -> None:
    """The hub delivers to A what B has signed for C."""
    world.a.receive(signed(world.b, C, Function.RECEIPTS, Primitive.RESPONSE, floors(world.b)))
    assert violations(world.a) == 1
    assert not is_ignoring_b(world)


def test_a_reack2_for_another_node_is_refused_when_the_hub_readdresses_it(world: SealedWorld) -> None:
    packet = signed(world.b, C, Function.RECEIPTS, Primitive.RESPONSE, floors(world.b))
    world.a.receive(replace(packet, target=A))
    assert violations(world.a) == 1
    assert not is_ignoring_b(world)


@pytest.mark.parametrize("is_signed", [True, False])
def test_a_node_refuses_its_own_statements_when_the_hub_returns_them(world: SealedWorld, is_signed: bool) -> None:
    """The hub returns a genuine ReAck2 of A, or one that it has made, addressed to A or B, signed or not."""
    packet = signed(world.a, B, Function.RECEIPTS, Primitive.RESPONSE, floors(world.b))
    of_a = replace(floors(world.a), floors={f"{world.b.engine.core.inc:x}": (FAR_FLOOR, None)})
    for statement in (packet, replace(packet, records=[of_a])):
        for target in (A, B):
            world.a.receive(replace(statement, target=target, signature=packet.signature if is_signed else ""))
    assert violations(world.a) == 4
    assert not is_ignoring_b(world)


def test_a_receipt_for_another_node_ends_nothing(world: SealedWorld) -> None:
    row = open_row(world)
    receipt = Receipt(ident=str(row.lk0), ack_flag=AckFlag.END_TO_END, status=Answer.RECV, sid=row.sid)
    packet = signed(world.b, C, Function.RECEIPTS, Primitive.INDICATION, receipt)
    for receipts in (packet, replace(packet, target=A)):
        world.a.receive(receipts)
    assert outcomes(world.a) == [None]
    assert violations(world.a) == 2


@pytest.mark.parametrize("kind", STATEMENTS_OF_B)
def test_a_signature_serves_no_other_kind_source_or_target(world: SealedWorld, kind: str) -> None:
    row = open_row(world)
    function, primitive, record = STATEMENTS_OF_B[kind](row)
    genuine = signed(world.b, A, function, primitive, record)
    for other_kind in STATEMENTS_OF_B:
        if other_kind != kind:
            function, primitive, record = STATEMENTS_OF_B[other_kind](row)
            world.a.receive(Packet(B, A, function, primitive, [record], signature=genuine.signature))
    world.a.receive(replace(genuine, source=C))  # A waits for a certificate of C
    assert world.a.engine.core.counters.counts["signer_awaited"] == 1
    world.a.receive(replace(genuine, target=B))
    world.a.receive(replace(genuine, signature=""))
    assert outcomes(world.a) == [None]
    assert violations(world.a) == 4
    world.a.receive(genuine)
    assert outcomes(world.a) in ([Outcome.DELIVERED], [])


@pytest.mark.parametrize("kind", STATEMENTS_OF_B)
def test_only_the_statement_about_a_third_nodes_message_is_refused(world: SealedWorld, kind: str) -> None:
    row = open_row(world)
    function, primitive, record = STATEMENTS_OF_B[kind](row)
    foreign = replace(record, ident=str(row.lk0).replace("1.10008.", "1.88001.", 1))
    world.a.receive(signed(world.b, A, function, primitive, foreign, record))
    assert outcomes(world.a) in ([Outcome.DELIVERED], [])
    assert violations(world.a) == 1


def test_a_signed_packet_is_refused_if_the_hub_adds_or_exchanges_a_record(world: SealedWorld) -> None:
    row = open_row(world)
    function, primitive, record = STATEMENTS_OF_B["an Ack2"](row)
    other = replace(record, ident=str(row.lk0._replace(object_id=row.lk0.object_id + 1)))
    packet = signed(world.b, A, function, primitive, other)
    world.a.receive(replace(packet, records=[other, record]))
    world.a.receive(replace(packet, records=[record]))
    assert outcomes(world.a) == [None]


def test_the_hub_may_not_speak_for_a_node_nor_a_node_for_the_hub(world: SealedWorld) -> None:
    row = open_row(world)
    for function, primitive, record in (make(row) for make in STATEMENTS_OF_B.values()):
        world.a.receive(Packet(HUB, A, function, primitive, [record]))
    lk1 = (1, 1, 5)
    notes = [Receipt(ident=str(row.lk0), att=row.att, flag=note, lk1=lk1) for note in HubFlag]
    world.a.receive(signed(world.b, A, Function.RECEIPTS, Primitive.INDICATION, *notes))
    custody = Inquiry(role=InquiryRole.S, ident=str(row.lk0), sid=row.sid, lk1=lk1, answer=Answer.CUSTODY)
    world.a.receive(signed(world.b, A, Function.INQUIRIES, Primitive.CONFIRMATION, custody))
    both = Receipt(ident=str(row.lk0), flag=HubFlag.STORED, ack_flag=AckFlag.END_TO_END, status=Answer.RECV)
    world.a.receive(Packet(HUB, A, Function.RECEIPTS, Primitive.INDICATION, [both]))
    presence = Presence(node=str(B), allowed=False, certificates=())
    world.a.receive(Packet(B, A, Function.PRESENCE, Primitive.INDICATION, [presence]))
    (now,) = world.a.store.tables.outbound.values()
    assert (now.outcome, now.custodian) == (None, None)
    assert world.a.engine.partners.allowed[str(B)]
    assert violations(world.a) == 3 + len(HubFlag) + 3


@pytest.mark.parametrize("lk1", [None, (1, 1, 5)], ids=["of a message", "of a copy"])
@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_by_the_hub_for_a_key_does_not_double_a_document(
    world: SealedWorld, code: str, lk1: tuple[int, int, int] | None
) -> None:
    """The hub forwards the document, drops the receipt, and gives a reason after which A would send a new message."""
    world.tamper = dropping_frames_of_b(world)
    for save_fwd, encrypt in ((3, True), (3, False), (2, True), (2, False)):
        world.a.send(SECRET, save_fwd=save_fwd, encrypt=encrypt, ack2=True)
    world.settle()
    reason = code, f"No valid certificate belongs to key {'0' * 32} any more."
    for row in world.a.store.tables.outbound.values():
        refusal = Receipt(ident=str(row.lk0), att=row.att, flag=HubFlag.REFUSED, reason=reason, lk1=lk1)
        world.a.receive(Packet(HUB, A, Function.RECEIPTS, Primitive.INDICATION, [refusal]))
    world.settle()
    assert (outcomes(world.a), violations(world.a)) == ([None] * 4, 4)
    world.tamper = honest
    world.roll(world.b, "B2", "B1")
    world.later(60)
    assert world.b.app.payloads == [SECRET] * 4
    assert world.a.reported.kinds.count("delivered") == 4


MARKER_SID = 0


def record_marker(world: SealedWorld) -> None:
    """Let B record a void marker of A at position MARKER_SID."""
    world.cut(world.b)
    send(world, b"taken back")
    world.later(1)
    world.a.engine.acts.cancel(world.a.accepted[-1].lk0, lambda: None, world.a.refused.append)
    world.later(1)
    world.tamper = lambda wire, frame: None if wire is world.a.down and isinstance(frame, Packet) else frame
    world.connect(world.b)
    world.settle()
    assert world.b.lines(Event.CANCELLED) == 1


def test_a_statement_about_one_position_is_not_accepted_for_another(world: SealedWorld) -> None:
    """The hub asks B in A's name about a document at wrong positions. At the position of a marker, B signs VOID."""
    record_marker(world)
    world.tamper = dropping_frames_of_b(world)
    send(world, SECRET)
    world.settle()
    row = max(world.a.store.tables.outbound.values(), key=lambda row: row.sid)
    assert row.sid > MARKER_SID
    received: list[Packet] = []

    def catch(wire: TrioWire, frame: Frame) -> Frame | None:
        if wire is world.b.up and isinstance(frame, Packet) and frame.primitive is Primitive.CONFIRMATION:
            received.append(frame)
        return None if wire is world.b.up else frame

    world.tamper = catch
    for sid in (MARKER_SID, -1, row.sid + 1):
        inquiry = Inquiry(
            role=InquiryRole.S, ident=str(row.lk0), sid=sid, nonce=world.a.engine.sender.nonces.get(row.object_id, 0)
        )
        world.b.receive(Packet(A, B, Function.INQUIRIES, Primitive.REQUEST, [inquiry]))
        world.settle()
    assert [record.answer for packet in received for record in packet.records] == [Answer.VOID, Answer.NOT, Answer.NOT]
    before = violations(world.a)
    for packet in received:
        world.a.receive(packet)
    (now,) = [kept for kept in world.a.store.tables.outbound.values() if kept.object_id == row.object_id]
    assert (now.outcome, now.ss_status) == (None, row.ss_status)
    assert violations(world.a) == before + 1  # for VOID; the answers NOT match no inquiry of A and are ignored


def test_a_copy_at_another_position_has_no_receipt(world: SealedWorld) -> None:
    """The hub delivers a document at a settled position, and the second time as a marker."""
    send(world, b"first")
    world.later(2)
    seen: list[Data] = []

    def moved(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Data) and wire is world.b.down:
            seen.append(frame)
            return replace(frame, envelope=replace(frame.envelope, sid=0, floor=0, void=len(seen) == 2), header=None)
        return frame

    world.tamper = moved
    send(world, SECRET)
    world.settle()
    assert outcomes(world.a) == [None]
    world.later(20)
    assert outcomes(world.a) == [None]
    assert violations(world.b) >= 2
    world.tamper = honest
    world.later(60)
    assert world.b.app.payloads == [b"first", SECRET]


def test_each_incarnation_inquires_with_a_nonce_of_its_own(world: SealedWorld) -> None:
    """So an answer to an inquiry of an earlier incarnation matches no inquiry of a later one."""
    world.tamper = lambda wire, frame: None if wire is world.b.down else frame
    send(world, SECRET)
    world.later(20)
    (row,) = world.a.store.tables.outbound.values()
    nonces = {world.a.engine.sender.nonces[row.object_id]}
    for _ in range(2):
        world.time.lives += 1 << 20
        world.a.crash()
        world.connect(world.a)
        world.later(20)
        nonces.add(world.a.engine.sender.nonces[row.object_id])
    assert len(nonces) == 3


def test_replayed_packets_change_no_outcome_and_repeat_no_document(world: SealedWorld) -> None:
    """Each packet is replayed twice to both nodes, in their next incarnations."""
    received: list[Packet] = []

    def record(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Packet) and frame.source in (A, B) and frame.target in (A, B):
            received.append(frame)
        return frame

    world.tamper = record
    send(world, *[bytes([n]) for n in range(3)])
    world.b.send(b"back", to="10008", encrypt=True)
    world.later(30)
    world.tamper = honest
    for node in (world.a, world.b):
        node.crash()
        world.connect(node)
    world.settle()
    send(world, b"new")
    world.b.send(b"new back", to="10008", encrypt=True)
    for packet in received * 2:
        world.a.receive(packet)
        world.b.receive(packet)
        world.settle()
    world.later(60)
    assert world.b.app.payloads == [b"\0", b"\1", b"\2", b"new"]
    assert world.a.app.payloads == [b"back", b"new back"]
    assert world.a.reported.kinds.count("delivered") == 4
    assert world.a.reported.kinds.count("failed") == 0
