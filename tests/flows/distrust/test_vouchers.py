"""A new certificate of a partner leaves a ledger line, and an alarm if no older key has signed it.

Also: packets do not overtake the certificate of their key, and violations are counted by speaker and code.
"""

from hashlib import sha256

from msgspec.structs import replace

from semq.store.rows import Event
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Answer, Receipt
from tests.flows.lying import STATEMENTS_OF_B, A, B, honest, open_row, signed
from tests.flows.sealed import SealedWorld
from tests.flows.trio import HUB


def certificate_lines(world: SealedWorld) -> list[str]:
    """Return A's ledger lines about certificates of B."""
    return [
        line.detail for line in world.a.store.tables.ledger
        if line.target == str(B) and ("certificate" in line.detail or line.detail.startswith("SEMQ-5216"))
    ]  # fmt: skip


def test_a_new_certificate_of_a_partner_leaves_a_line_and_an_alarm_unless_the_old_key_vouches(
    world: SealedWorld,
) -> None:
    assert [line.split(" of ")[0] for line in certificate_lines(world)] == ["the first certificate"]
    world.roll(world.b, "B2", "B1")  # a renewal
    world.settle()
    assert certificate_lines(world)[1].startswith("another certificate, signed by an earlier key,")
    assert world.a.engine.core.misconduct.seen() == []
    world.roll(world.b, "B3")  # B has enrolled again, or another party uses its name
    world.settle()
    assert certificate_lines(world)[-1].startswith("SEMQ-5216")
    lines = len(certificate_lines(world))
    (seen,) = world.a.engine.core.misconduct.seen()
    assert (seen.who, seen.what, seen.count) == (str(B), "SEMQ-5216", 1)
    world.b.engine.introduce()
    world.settle()
    assert len(certificate_lines(world)) == lines


def test_packets_signed_with_a_new_key_do_not_overtake_its_certificate(world: SealedWorld) -> None:
    row = open_row(world)
    world.tamper = honest
    world.roll(world.b, "B2", "B1")
    function, primitive, record = STATEMENTS_OF_B["an Ack2"](row)
    world.b.engine.core.mail.add(A, function, primitive, replace(record, digest=row.digest.hex()))
    world.settle()
    assert world.a.engine.core.misconduct.seen() == []
    assert world.a.lines(Event.VIOLATION) == 0
    assert world.a.lines(Event.DELIVERED) == 1


def test_packets_signed_with_a_new_key_do_not_overtake_its_certificate_at_a_login(world: SealedWorld) -> None:
    row = open_row(world)
    world.tamper = honest
    world.cut(world.a)
    world.roll(world.b, "B2", "B1")
    world.settle()
    world.connect(world.a)
    function, primitive, record = STATEMENTS_OF_B["an Ack2"](row)
    assert world.b.down is not None
    # The packet arrives at the hub in the turn of the login.
    world.hub.receive(world.b.down, [signed(world.b, A, function, primitive, replace(record, digest=row.digest.hex()))])
    world.settle()
    assert world.a.lines(Event.VIOLATION) == 0
    assert world.a.lines(Event.DELIVERED) == 1


def test_a_voucher_of_an_unknown_key_has_no_effect(world: SealedWorld) -> None:
    world.roll(world.b, "B2", "X")
    world.settle()
    assert certificate_lines(world)[-1].startswith("SEMQ-5216")


def test_violations_are_counted_by_speaker_and_code_in_bounded_memory(world: SealedWorld) -> None:
    row = open_row(world)
    function, primitive, record = STATEMENTS_OF_B["an Ack2"](row)
    for _ in range(300):
        world.a.receive(Packet(B, A, function, primitive, [record]))
    for n in range(300):
        world.a.receive(Packet(Address(1, f"n{n}"), A, function, primitive, [record]))
    result = world.a.engine.core.misconduct.seen()
    assert (result[0].who, result[0].what, result[0].count) == (str(B), "SEMQ-5209", 300)
    assert len(result) <= 101  # one hundred pairs, and one count for all others
    assert sum(entry.count for entry in result) == 600


def test_violations_at_the_hub_are_counted_by_speaker_and_code(world: SealedWorld) -> None:
    world.cut(world.b)
    world.a.send(b"in clear")
    world.settle()
    assert world.a.up is not None
    frame = next(frame for frame in world.a.up.sent if isinstance(frame, Data))
    other = replace(frame.envelope, digest=sha256(b"other").digest())
    world.a.up.send(replace(frame, envelope=other, body=b"other", header=None))
    world.settle()
    world.connect(world.b)
    world.tamper = lambda wire, frame: None if wire is world.b.up else frame
    world.settle()
    assert world.b.up is not None
    (held,) = world.hub_store.tables.outbound.values()
    lk1 = world.hub.core.lk1(held.object_id)
    ack = Receipt(
        src_semq_id=lk1.semq_id, src_semq_db_id=lk1.semq_db_id, src_ref_id=lk1.object_id, ack_flag=AckFlag.TRANSPORT,
        ident=f"{B}.1.1.1.1", status=Answer.RECV,
    )  # fmt: skip
    world.tamper = honest
    world.b.up.send(Packet(B, HUB, Function.RECEIPTS, Primitive.INDICATION, [ack]))
    world.settle()
    result = {(entry.who, entry.what): entry.text for entry in world.hub.core.misconduct.seen()}
    assert set(result) == {(str(A), "SEMQ-1221"), (str(B), "SEMQ-1220")}
    assert result[str(A), "SEMQ-1221"].startswith("A message arrived again with other bytes")
    assert result[str(B), "SEMQ-1220"].startswith("An Ack names another message than the row.")
    (line,) = [line for line in world.hub_store.tables.ledger if line.event is Event.MISMATCH]
    assert line.detail.startswith("SEMQ-1221 ")
