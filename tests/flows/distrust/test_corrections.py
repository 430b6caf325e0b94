"""A hub reports the refusal of a document that it has forwarded: the receiver's receipt corrects that outcome."""

import pytest
from msgspec.structs import replace

from semq.store.rows import Event
from semq.umx_t.envelope import Frame, Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Answer, HubFlag, Receipt
from semq.umx_t.status import Outcome
from tests.flows.lying import A, B, honest, open_row, signed
from tests.flows.sealed import SECRET, SealedWorld, outcomes, send
from tests.flows.trio import HUB, TrioWire


@pytest.mark.parametrize("code", ["SEMQ-1201", "SEMQ-1202", "SEMQ-1203", "SEMQ-1206"])
def test_a_receipt_corrects_a_refusal(world: SealedWorld, code: str) -> None:
    """The hub forwards the document, but reports a refusal to A."""

    def tamper(wire: TrioWire, frame: Frame) -> Frame | None:
        if wire is world.a.down and isinstance(frame, Packet) and frame.source == HUB:
            notes = [r for r in frame.records if isinstance(r, Receipt) and r.flag is HubFlag.FORWARDED]
            if notes:
                refusals = [replace(r, flag=HubFlag.REFUSED, reason=(code, "no")) for r in notes]
                return replace(frame, records=refusals, header=None, body=b"")
        return None if wire is world.b.up else frame

    world.tamper = tamper
    send(world, SECRET)
    world.later(2)  # the note of forwarding is delayed for a second
    (row,) = world.a.store.tables.outbound.values()
    assert row.outcome is Outcome.REJECTED
    assert world.a.reported.kinds[-1] == "failed"
    world.tamper = honest
    world.later(30)
    assert world.a.reported.kinds[-1] == "delivered"
    event = world.a.reported.events[-1]
    assert (event.outcome, event.corrects, event.reason) == ("DELIVERED", "REJECTED", None)
    assert world.a.reported.kinds.count("delivered") == 1
    result = [line.detail for line in world.a.store.tables.ledger if line.detail.startswith("corrects ")]
    assert result == [f"corrects REJECTED {code} no: the receiver has it"]
    assert world.a.lines(Event.DELIVERED) == 1
    assert world.b.app.payloads == [SECRET]
    world.later(30)
    assert world.is_clean()


def test_an_unsigned_receipt_corrects_no_outcome(world: SealedWorld) -> None:
    def tamper(wire: TrioWire, frame: Frame) -> Frame | None:
        is_note = wire is world.a.down and isinstance(frame, Packet) and frame.function is Function.RECEIPTS
        return None if is_note or wire is world.b.up else frame

    world.tamper = tamper
    send(world, SECRET)
    world.settle()
    (row,) = world.a.store.tables.outbound.values()
    note = Receipt(flag=HubFlag.REFUSED, ident=str(row.lk0), att=row.att, reason=("SEMQ-1201", "no"))
    world.a.receive(Packet(HUB, A, Function.RECEIPTS, Primitive.INDICATION, [note]))
    assert outcomes(world.a) == [Outcome.REJECTED]
    forged = Receipt(ident=str(row.lk0), ack_flag=AckFlag.END_TO_END, status=Answer.RECV, sid=row.sid)
    world.a.receive(Packet(B, A, Function.RECEIPTS, Primitive.INDICATION, [forged]))
    assert outcomes(world.a) == [Outcome.REJECTED]


@pytest.mark.parametrize("answer", [Answer.REJ, Answer.VOID, Answer.SETTLED])
def test_another_answer_of_the_receiver_corrects_no_outcome_nor_does_a_receipt_after_it(
    world: SealedWorld, answer: Answer
) -> None:
    row = open_row(world)
    note = Receipt(flag=HubFlag.REFUSED, ident=str(row.lk0), att=row.att, reason=("SEMQ-1201", "no"))
    current_row = world.a.store.tables.outbound[row.object_id]
    if current_row.outcome is None:
        world.a.engine.acts.cancel(row.lk0, lambda: None, world.a.refused.append)
        world.settle()
    world.a.receive(Packet(HUB, A, Function.RECEIPTS, Primitive.INDICATION, [note]))
    before = outcomes(world.a)
    receipt = Receipt(
        ident=str(row.lk0), ack_flag=AckFlag.END_TO_END, status=answer, sid=row.sid, reason=("SEMQ-1", "x")
    )
    world.a.receive(signed(world.b, A, Function.RECEIPTS, Primitive.INDICATION, receipt))
    after = outcomes(world.a)
    assert before == [None] or after == before
    world.a.receive(signed(world.b, A, Function.RECEIPTS, Primitive.INDICATION, replace(receipt, status=Answer.RECV)))
    assert outcomes(world.a) in (after, [])
    assert not any(event.corrects for event in world.a.reported.events)
