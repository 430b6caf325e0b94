"""Statements and documents without a proof are accepted only if the operator of the receiver allows them.

Refused documents occupy no position at the receiver.
"""

from collections.abc import Callable
from hashlib import sha256

import pytest
from msgspec.structs import replace

from semq.amqp.wire import encode_fields
from semq.engine.secrecy.sealing import Policy
from semq.pki.authority import create_authority
from semq.seal.errors import SignerAwaited, SignerUnknown
from semq.store.rows import Event
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Frame, Function, Packet, Primitive
from semq.umx_t.locator import Pos
from semq.umx_t.records import AckFlag, Presence, Receipt
from tests.flows.lying import (
    STATEMENTS_OF_B,
    A,
    B,
    C,
    hiding_certificates,
    honest,
    sealing,
    signed,
    violations,
    with_hidden_certificates,
)
from tests.flows.sealed import SECRET, SealedWorld, keys_of, outcomes, send
from tests.flows.trio import TrioWire


@pytest.mark.parametrize("kind", STATEMENTS_OF_B)
def test_an_unsigned_statement_of_a_partner_with_a_hidden_certificate_ends_nothing(kind: str) -> None:
    world = with_hidden_certificates()
    world.tamper = lambda wire, frame: None if wire is world.b.down else hiding_certificates(world.a)(wire, frame)
    world.a.send(b"in clear")
    world.settle()
    (row,) = world.a.store.tables.outbound.values()
    function, primitive, record = STATEMENTS_OF_B[kind](row)
    world.a.receive(Packet(B, A, function, primitive, [record]))
    assert outcomes(world.a) == [None]
    assert violations(world.a) == 1


def forgery(world: SealedWorld) -> Data:
    """Return a document that the hub forges in A's name."""
    world.a.send(b"x")
    world.settle()
    assert world.b.down is not None
    frame = next(sent for sent in world.b.down.sent if isinstance(sent, Data))
    e = frame.envelope
    lk0 = e.lk0._replace(inc=e.lk0.inc + 5, object_id=77)
    forged = replace(e, lk0=lk0, sid=0, floor=0, digest=sha256(b"pay me").digest(), signature="")
    return Data(forged, b"pay me")


def test_an_invented_document_is_not_recorded() -> None:
    world = with_hidden_certificates()
    forged = forgery(world)
    before = dict(world.b.store.tables.recorded)
    world.b.receive(forged)
    world.settle()
    assert b"pay me" not in world.b.app.payloads
    assert world.b.store.tables.recorded == before
    assert violations(world.b) >= 1


@pytest.mark.parametrize(
    ("policy", "is_accepted"),
    [
        pytest.param(Policy(unproved_from=["10008"]), True, id="the partner is named"),
        pytest.param(Policy(unproved_from=["88001"]), False, id="another partner is named"),
        pytest.param(Policy(mixed=True), True, id="mixed network"),
        pytest.param(Policy(mixed=True, required_with=["10008"]), False, id="mixed, but required"),
        pytest.param(Policy(unsigned_floors_from=["10008"]), False, id="an older version"),
    ],
)
def test_the_operator_decides_about_documents_without_a_proof(policy: Policy, is_accepted: bool) -> None:
    world = SealedWorld(policy, certified="B")
    world.a.send(b"in clear")
    world.later(20)
    assert (world.b.app.payloads == [b"in clear"]) is is_accepted
    assert (violations(world.b) == 0) is is_accepted
    assert not any(delivery.envelope.proved for delivery in world.b.app.deliveries)
    assert not any(row.proved for row in world.b.store.tables.pending.values())


def signed_under_another_authority(policy: Policy) -> SealedWorld:
    """Return a trio in which A does not trust the authority of B's certificate."""
    world = SealedWorld(policy)
    other = create_authority("other", world.clock.wall())
    keys_of(world.b).own_keys = world.certified_keys(world.b.address, "X", authority=other)
    world.b.engine.introduce()
    world.settle()
    return world


@pytest.mark.parametrize("is_lost", [False, True], ids=["receipts", "answers"])
def test_statements_of_a_named_partner_count_although_its_key_is_unknown(is_lost: bool) -> None:
    world = signed_under_another_authority(Policy(unproved_from=["56001", "10008"]))
    world.cut(world.a)
    world.b.send(b"taken back", to="10008")
    world.later(1)
    world.b.engine.acts.cancel(world.b.accepted[0].lk0, lambda: None, world.b.refused.append)
    world.later(1)
    world.connect(world.a)
    world.lose = lambda wire, frame: (is_lost and is_ack2(frame)) or world._carry(wire, frame)
    world.a.send(b"to B")
    world.b.send(b"to A", to="10008")
    world.later(30 if is_lost else 2)
    assert (world.b.app.payloads, world.a.app.payloads) == ([b"to B"], [b"to A"])
    assert world.a.reported.kinds[-1] == world.b.reported.kinds[-1] == "delivered"
    assert [event.outcome for event in world.b.reported.events if event.outcome] == ["CANCELLED", "DELIVERED"]
    assert violations(world.a) == 0
    world.later(300)
    assert world.is_clean()


def is_ack2(frame: Frame) -> bool:
    return isinstance(frame, Packet) and frame.function is Function.RECEIPTS and frame.primitive is Primitive.INDICATION


@pytest.mark.parametrize(
    "policy", [Policy(), Policy(mixed=True), Policy(unproved_from=["56001"], required_with=["56001"])]
)
def test_a_receipt_with_an_unknown_key_is_refused_if_its_node_has_to_prove_it(policy: Policy) -> None:
    world = signed_under_another_authority(policy)
    receipt = signed(world.b, A, Function.RECEIPTS, Primitive.INDICATION, Receipt(ack_flag=AckFlag.END_TO_END))
    with pytest.raises(SignerAwaited):
        sealing(world.a).verify_packet(receipt)
    world.clock.now += 100
    with pytest.raises(SignerUnknown):
        sealing(world.a).verify_packet(receipt)


def test_in_a_mixed_network_a_partner_with_an_earlier_certificate_must_sign() -> None:
    world = SealedWorld(Policy(mixed=True))
    world.settle()
    without_certificates = Presence(node=str(A), certificates=())
    world.b.engine.receive_presence([without_certificates])
    forged = forgery(world)
    count = len(world.b.app.deliveries)
    world.b.receive(forged)
    world.settle()
    assert len(world.b.app.deliveries) == count
    assert violations(world.b) >= 1


def test_a_document_in_clear_is_proved_by_its_signature(world: SealedWorld) -> None:
    world.a.send(b"in clear", user_headers={"n": [1, {"x": True}]}, key="K")
    world.later(2)
    assert world.b.app.payloads == [b"in clear"]
    assert world.b.app.deliveries[0].envelope.proved
    assert world.a.reported.kinds[-1] == "delivered"
    assert violations(world.b) == 0


def test_many_documents_in_clear_share_signatures(world: SealedWorld) -> None:
    bodies = [bytes([n]) for n in range(70)]
    world.a.send(*bodies)
    world.later(5)
    assert world.b.app.payloads == bodies
    assert all(delivery.envelope.proved for delivery in world.b.app.deliveries)
    parts = {delivery.envelope.signature.split(".")[2] for delivery in world.b.app.deliveries}
    assert len(parts) == 3  # signatures over 32, 32 and 6 documents
    assert world.is_clean()


ALTERATIONS: dict[str, Callable[[Data], Data]] = {
    "body": lambda f: replace(f, body=b"pay me"),
    "body and digest": lambda f: replace(
        f, body=b"pay me", envelope=replace(f.envelope, digest=sha256(b"pay me").digest())
    ),
    "place": lambda f: replace(f, envelope=replace(f.envelope, sid=5)),
    "name": lambda f: replace(f, envelope=replace(f.envelope, lk0=f.envelope.lk0._replace(object_id=9))),
    "user": lambda f: replace(f, envelope=replace(f.envelope, target=Address(1, "56001", "buyer"))),
    "order": lambda f: replace(f, envelope=replace(f.envelope, prev=Pos(f.envelope.lk0.inc, f.envelope.sid))),
    "sender": lambda f: replace(f, envelope=replace(f.envelope, sender="boss")),
    "expiry": lambda f: replace(
        f, envelope=replace(f.envelope, attributes=replace(f.envelope.attributes, expires_at=5))
    ),
    "headers": lambda f: replace(
        f, envelope=replace(f.envelope, attributes=replace(f.envelope.attributes, user_headers=encode_fields({"n": 2})))
    ),
    "no signature": lambda f: replace(f, envelope=replace(f.envelope, signature="")),
    "an unreadable signature": lambda f: replace(f, envelope=replace(f.envelope, signature="2.x")),
    "a third source": lambda f: replace(f, envelope=replace(f.envelope, source=C)),
}


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_an_altered_document_in_clear_is_not_recorded(world: SealedWorld, alteration: str) -> None:
    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Data) and wire is world.b.down:
            return replace(ALTERATIONS[alteration](frame), header=None)
        return frame

    world.tamper = tamper
    world.a.send(b"in clear", user_headers={"n": 1})
    world.settle()
    assert world.b.app.payloads == []
    assert not world.b.store.tables.recorded
    assert violations(world.b) + world.b.lines(Event.MISMATCH) == 1
    world.tamper = honest
    world.later(60)
    assert world.b.app.payloads == [b"in clear"]
    assert world.a.reported.kinds[-1] == "delivered"


REFUSABLE: dict[str, Callable[[Data], Data]] = {
    "an unknown key": lambda f: replace(f, envelope=replace(f.envelope, key_id="0" * 32)),
    "an unreadable session key": lambda f: replace(f, envelope=replace(f.envelope, session_key="9.x")),
    "another algorithm": lambda f: replace(f, envelope=replace(f.envelope, alg="none")),
    "too large": lambda f: replace(f, dropped=1 << 40, body=b""),
    "late": lambda f: replace(
        f,
        envelope=replace(f.envelope, late=True, attributes=replace(f.envelope.attributes, expires_at=5)),
        body=b"",
    ),
    "in clear": lambda f: replace(
        f,
        envelope=replace(
            f.envelope, session_key="", alg="", key_id="", digest=sha256(b"pay me").digest(),
            attributes=replace(f.envelope.attributes, encrypt=False),
        ),
        body=b"pay me",
    ),
}  # fmt: skip


@pytest.mark.parametrize("keeps_signature", [True, False])
@pytest.mark.parametrize("fault", REFUSABLE)
def test_an_unproved_copy_that_would_be_refused_takes_no_position(
    world: SealedWorld, fault: str, keeps_signature: bool
) -> None:
    """The hub sends altered copies at the position of a genuine document and at the positions after it."""
    seen: list[Data] = []

    def tamper(wire: TrioWire, frame: Frame) -> Frame | None:
        if isinstance(frame, Data) and wire is world.b.down:
            seen.append(frame)
            return None
        return frame

    world.tamper = tamper
    send(world, SECRET)
    world.settle()
    for sid in range(5):
        e = replace(seen[0].envelope, sid=sid, signature=seen[0].envelope.signature if keeps_signature else "")
        world.b.receive(REFUSABLE[fault](replace(seen[0], envelope=e, header=None)))
        world.settle()
    assert not world.b.store.tables.recorded
    assert not world.b.store.tables.pending
    assert violations(world.b) == 5
    world.tamper = honest
    send(world, *[bytes([n]) for n in range(4)])
    world.later(60)
    assert sorted(world.b.app.payloads) == sorted([SECRET, *[bytes([n]) for n in range(4)]])
    assert world.a.reported.kinds.count("delivered") == 5
    assert world.a.reported.kinds.count("failed") == 0


def test_repeated_copies_under_an_unknown_key_end_nothing(world: SealedWorld) -> None:
    """The hub has altered the copies, so A ignores B's report that it does not accept them."""

    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Data) and wire is world.b.down:
            parts = frame.envelope.session_key.split(".")
            other = ".".join((*parts[:3], "f" * 32, parts[4]))
            e = replace(frame.envelope, session_key=other, signature="")
            return replace(frame, envelope=e, header=None)
        return frame

    world.tamper = tamper
    send(world, SECRET)
    world.later(400)
    assert outcomes(world.a) == [None]
    assert not world.b.store.tables.recorded
    assert violations(world.a) >= 1
    world.tamper = honest
    world.later(400)
    assert world.b.app.payloads == [SECRET]
    assert world.a.reported.kinds[-1] == "delivered"


def test_a_document_signed_with_a_replaced_key_is_signed_anew(world: SealedWorld) -> None:
    """The hub stores the document while A's key is replaced."""
    world.settle()
    world.cut(world.b)
    world.a.send(b"in clear")
    world.later(1)
    assert world.held == 1
    world.roll(world.a, "X")
    world.connect(world.b)
    world.later(300)
    assert world.b.app.payloads == [b"in clear"]
    assert world.b.app.deliveries[0].envelope.proved
    assert world.a.reported.kinds[-1] == "delivered"
    world.later(100)
    assert world.is_clean()
