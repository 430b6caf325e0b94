"""A hub refuses a document after it has forwarded it: the receiver's receipt corrects the outcome."""

from typing import Any

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

    def tamper(wire: TrioWire, frame: Frame) -> Frame | None:
        if wire is world.a.down and isinstance(frame, Packet) and frame.source == HUB:
            notes = [r for r in frame.records if isinstance(r, Receipt) and r.flag is HubFlag.FORWARDED]
            if notes:
                refusals = [replace(r, flag=HubFlag.REFUSED, reason=(code, "no")) for r in notes]
                return replace(frame, records=refusals, header=None, body=b"")
        return None if wire is world.b.up else frame

    world.tamper = tamper
    send(world, SECRET)
    world.later(2)  # Ack-Fwd is delayed for a second
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


def row_refused_by_the_hub(world: SealedWorld) -> Any:
    """Let B record a document that the hub reports as refused; return A's row."""

    def tamper(wire: TrioWire, frame: Frame) -> Frame | None:
        is_receipts = wire is world.a.down and isinstance(frame, Packet) and frame.function is Function.RECEIPTS
        return None if is_receipts or wire is world.b.up else frame

    world.tamper = tamper
    send(world, SECRET)
    world.settle()
    (row,) = world.a.store.tables.outbound.values()
    world.a.receive(refusal_of(row))
    assert outcomes(world.a) == [Outcome.REJECTED]
    return row


def refusal_of(row: Any) -> Packet:
    """Return the hub's refusal of the present attempt of A's row."""
    note = Receipt(flag=HubFlag.REFUSED, ident=str(row.lk0), att=row.att, reason=("SEMQ-1201", "no"))
    return Packet(HUB, A, Function.RECEIPTS, Primitive.INDICATION, [note])


def receive_receipt(world: SealedWorld, row: Any, status: Answer) -> None:
    reason = None if status is Answer.RECV else ("SEMQ-1", "x")
    receipt = Receipt(
        ident=str(row.lk0), ack_flag=AckFlag.END_TO_END, status=status, sid=row.sid, reason=reason,
    )  # fmt: skip
    world.a.receive(signed(world.b, A, Function.RECEIPTS, Primitive.INDICATION, receipt))


def test_an_unsigned_receipt_corrects_no_outcome(world: SealedWorld) -> None:
    row = row_refused_by_the_hub(world)
    forged = Receipt(ident=str(row.lk0), ack_flag=AckFlag.END_TO_END, status=Answer.RECV, sid=row.sid)
    world.a.receive(Packet(B, A, Function.RECEIPTS, Primitive.INDICATION, [forged]))
    assert outcomes(world.a) == [Outcome.REJECTED]


@pytest.mark.parametrize("status", [Answer.REJ, Answer.VOID, Answer.SETTLED])
def test_only_the_status_recv_corrects_a_refusal(world: SealedWorld, status: Answer) -> None:
    row = row_refused_by_the_hub(world)
    receive_receipt(world, row, status)
    assert outcomes(world.a) == [Outcome.REJECTED]
    assert not any(event.corrects for event in world.a.reported.events)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (Answer.REJ, Outcome.REJECTED),
        (Answer.VOID, Outcome.CANCELLED),
        (Answer.SETTLED, Outcome.UNKNOWN),
    ],
)
def test_an_outcome_that_the_receiver_stated_is_not_corrected(
    world: SealedWorld, status: Answer, outcome: Outcome
) -> None:
    """The refused attempt was made before the document was cancelled."""
    row = open_row(world)
    refusal = refusal_of(row)
    world.a.engine.acts.cancel(row.lk0, lambda: None, world.a.refused.append)
    world.settle()
    world.a.receive(refusal)
    assert outcomes(world.a) == [None]
    receive_receipt(world, row, status)
    assert outcomes(world.a) == [outcome]
    receive_receipt(world, row, Answer.RECV)
    assert outcomes(world.a) == [outcome]
    assert not any(event.corrects for event in world.a.reported.events)
