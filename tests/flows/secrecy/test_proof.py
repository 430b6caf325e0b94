"""Receipts as proofs, and the change of keys while documents are on their way."""

from datetime import timedelta
from hashlib import sha256

import pytest
from msgspec.structs import replace
from msgspec.structs import replace as replace_row

from semq.engine.sender import resealing
from semq.moments import milliseconds
from semq.pki import Identity
from semq.pki.keys import key_id
from semq.seal.errors import SignerGone
from semq.seal.receipts import Statement, leaf, path, root, root_of_path
from semq.seal.token import read_token
from semq.service.credentials.keyring import OwnKeys
from semq.store.rows import Event, KeptKey, KeptReceipts
from semq.umx_t.envelope import Data, Frame, Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Answer, Inquiry, Presence, Receipt
from semq.umx_t.status import Arrival, Outcome
from tests.flows.sealed import SECRET, SealedWorld, key_named, keys_of, outcomes, send, watching
from tests.flows.trio import HUB, TrioWire

# ---------------------------------------------------------------------------------------------- receipts as proofs


def forged(world: SealedWorld, lk0: str) -> list[Packet]:
    """Return statements of B that a hub forges."""
    b, a = world.b.address, world.a.address
    receipt = Receipt(ident=lk0, ack_flag=AckFlag.END_TO_END, status=Answer.RECV)
    answer = Inquiry(ident=lk0, answer=Answer.RECV)
    return [
        Packet(b, a, Function.RECEIPTS, Primitive.INDICATION, [receipt]),
        Packet(b, a, Function.RECEIPTS, Primitive.INDICATION, [receipt], signature="forged"),
        Packet(b, a, Function.INQUIRIES, Primitive.CONFIRMATION, [answer]),
    ]


def test_a_forged_ack2_ends_nothing(world: SealedWorld) -> None:
    world.tamper = lambda wire, frame: None if wire is world.b.down else frame
    send(world, SECRET)
    world.settle()
    (row,) = world.a.store.tables.outbound.values()
    for packet in forged(world, str(row.lk0)):
        world.a.receive(packet)
        world.settle()
        assert outcomes(world.a) == [None]
    assert world.a.lines(Event.VIOLATION) == 3
    world.tamper = lambda wire, frame: frame
    world.later(40)
    assert world.a.reported.kinds[-1] == "delivered"


def test_an_altered_receipt_and_one_of_another_key_end_nothing(world: SealedWorld) -> None:
    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Packet) and frame.function is Function.RECEIPTS and frame.signature:
            return replace(frame, records=[replace(r, at=r.at + 1) for r in frame.records], header=None, body=b"")
        return frame

    world.tamper = tamper
    send(world, SECRET)
    world.settle()
    assert outcomes(world.a) == [None]
    keys = keys_of(world.b)
    assert keys.own_keys is not None
    keys.own_keys = OwnKeys(
        Identity(keys.own_keys.identity.certificate, key_named("X"), keys.own_keys.identity.keys), ()
    )
    world.tamper = lambda wire, frame: frame
    world.later(20)
    assert outcomes(world.a) == [None]


def test_a_receipt_can_be_proved_alone(world: SealedWorld) -> None:
    send(world, *[bytes([n]) for n in range(7)])
    world.settle()
    lines = [line for line in world.a.store.tables.ledger if line.event is Event.DELIVERED]
    kept = {row.number: row for row in world.a.store.tables.rare_rows if isinstance(row, KeptReceipts)}
    assert len(lines) == 7
    for line in lines:
        _, number, _, place, _, sid, _, _, at = line.detail.replace(",", "").split()
        leaves = [kept[int(number)].leaves[n : n + 32] for n in range(0, len(kept[int(number)].leaves), 32)]
        moment, digest = milliseconds(at), digest_of(world, line.lk0)
        statement = Statement("1.56001", line.lk0, "RECV", digest, moment, "", "1.10008", int(sid))
        assert leaf(statement) == leaves[int(place)]
        assert root_of_path(leaf(statement), int(place), path(leaves, int(place))) == root(leaves)


@pytest.mark.parametrize("withdrawn", ["cancelled", "expired"])
def test_a_document_that_arrived_before_it_was_withdrawn_ends_with_its_receipt_and_without_a_reason(
    world: SealedWorld, withdrawn: str
) -> None:
    receipts: list[Frame] = []

    def hold_back(wire: TrioWire, frame: Frame) -> Frame | None:
        if wire is not world.a.down or not isinstance(frame, Packet) or frame.function is not Function.RECEIPTS:
            return frame
        receipts.append(frame)
        return None

    world.tamper = hold_back
    send(world, SECRET, expires_at=world.a.engine.core.now_ms() + 2000 if withdrawn == "expired" else 0)
    world.settle()
    if withdrawn == "cancelled":
        world.a.engine.acts.cancel(world.a.accepted[0].lk0, lambda: None, world.a.refused.append, "by mistake")
    world.later(5)
    assert world.a.lines(Event.VOIDED) == 1
    assert outcomes(world.a) == [None]
    world.tamper = lambda wire, frame: frame
    down = world.a.down
    assert down is not None
    for frame in receipts:
        down.arrive(frame)
    world.settle()
    (line,) = (line for line in world.a.store.tables.ledger if line.event is Event.DELIVERED)
    assert line.detail.startswith("receipt ")
    assert (world.a.reported.kinds[-1], world.a.reported.events[-1].reason) == ("delivered", None)


def digest_of(world: SealedWorld, lk0: str) -> str:
    lines = [line for line in world.a.store.tables.ledger if line.lk0 == lk0 and line.event is Event.ACCEPTED]
    return lines[0].digest.hex()


def test_signed_answers_end_a_message_whose_ack2_was_lost(world: SealedWorld) -> None:
    def tamper(wire: TrioWire, frame: Frame) -> Frame | None:
        lost = isinstance(frame, Packet) and frame.function is Function.RECEIPTS and wire is world.a.down
        return None if lost else frame

    world.tamper = tamper
    send(world, SECRET)
    world.settle()
    assert outcomes(world.a) == [None]
    world.later(20)
    assert world.a.reported.kinds[-1] == "delivered"


@pytest.mark.parametrize("arrives", [True, False], ids=["the certificate arrives", "it never arrives"])
def test_receipts_that_arrive_before_their_certificate_are_no_violation_yet(world: SealedWorld, arrives: bool) -> None:
    keys_of(world.b).own_keys = world.certified_keys(world.b.address, "B2", "B1")
    send(world, SECRET)
    world.later(1)
    assert outcomes(world.a) == [None]
    assert world.a.engine.core.counters.counts["signer_awaited"] > 0
    if arrives:
        world.b.engine.introduce()
    world.later(300)
    assert (world.a.reported.kinds[-1] == "delivered") == arrives
    assert (world.a.lines(Event.VIOLATION) == 0) == arrives
    awaited = [line.target for line in world.a.store.tables.ledger if line.detail.startswith("SEMQ-5217 ")]
    assert awaited == ["1.56001"]  # one line for all packets


# ------------------------------------------------------------------------------------------------------------ roll-over


def test_a_document_sealed_for_an_old_key_opens_while_the_receiver_keeps_the_key(world: SealedWorld) -> None:
    world.cut(world.b)
    send(world, SECRET)
    world.settle()
    keys_of(world.b).own_keys = world.certified_keys(world.b.address, "B2", "B1")
    world.connect(world.b)
    world.later(3)
    assert world.b.app.payloads == [SECRET]
    send(world, b"for the new key")
    world.later(3)
    assert world.b.app.deliveries[-1].envelope.key_id == key_id(key_named("B2"))


@pytest.mark.parametrize("new", ["B2", "B3"])
def test_an_unreadable_document_is_sealed_again_for_the_new_key(world: SealedWorld, new: str) -> None:
    world.cut(world.b)
    send(world, SECRET, key="S1", user_headers={"n": 1}, token="T1")
    send(world, b"second")
    world.settle()
    keys_of(world.b).own_keys = world.certified_keys(world.b.address, new)  # the old key is deleted
    world.connect(world.b)
    world.later(5)
    assert world.b.app.payloads == [SECRET, b"second"]
    kinds = world.a.reported.kinds
    assert kinds.count("failed") == 2
    assert kinds.count("delivered") == 2
    delivered = [event.token for event in world.a.reported.events if event.kind == "delivered"]
    assert sorted(delivered) == ["", "T1"]
    failed = next(event for event in world.a.reported.events if event.kind == "failed")
    assert failed.reason is not None
    assert failed.reason[0] == "SEMQ-5201"
    assert key_id(key_named("B1")) in failed.reason[1]
    envelope = world.b.app.deliveries[0].envelope
    assert envelope.lk0 != failed.lk0
    assert envelope.origin.startswith(str(failed.lk0))
    assert envelope.digest == sha256(SECRET).digest()
    assert envelope.attributes.app_key.key == "S1"
    world.later(30)
    assert not world.a.store.tables.outbound
    assert world.b.lines(Event.REJECTED) == 2
    details = [line.detail for line in world.a.store.tables.ledger if line.event is Event.ACCEPTED]
    assert len(details) == 4
    assert all(detail.startswith("SaveFwd=3 Ack2=1, ") for detail in details)


def test_a_refused_document_is_sealed_again_after_a_crash_when_the_directory_has_another_key(
    world: SealedWorld,
) -> None:
    keys = keys_of(world.b)
    assert keys.own_keys is not None
    keys.own_keys = OwnKeys(
        Identity(keys.own_keys.identity.certificate, key_named("B1"), {}), keys.own_keys.certificates
    )
    send(world, SECRET)
    world.settle()
    assert outcomes(world.a) == [Outcome.REJECTED]
    world.a.crash()
    world.connect(world.a)
    world.later(5)
    assert outcomes(world.a) == [Outcome.REJECTED]  # A knows only the refused key
    world.roll(world.b, "B2")
    world.later(5)
    assert world.b.app.payloads == [SECRET]


def test_documents_whose_stored_key_is_lost_do_not_hide_later_ones(world: SealedWorld) -> None:
    world.a.engine.core.settings = replace(world.a.engine.core.settings, claim_rows=2)
    sealing = world.a.sealing
    assert sealing is not None
    world.cut(world.b)
    for n in range(7):
        send(world, b"%d" % n)
        sealing._sessions.clear()  # each document gets a session key of its own
    world.settle()
    tables = world.a.store.tables
    kept = [row for row in tables.rare_rows if isinstance(row, KeptKey)]
    tables.rare_rows[:] = [row for row in tables.rare_rows if row not in kept[:5]]
    keys_of(world.b).own_keys = world.certified_keys(world.b.address, "B2")
    world.connect(world.b)
    world.later(10)
    assert world.b.app.payloads == [b"5", b"6"]
    assert outcomes(world.a) == [Outcome.REJECTED] * 5
    assert world.a.store.idle  # no document is sent repeatedly


def test_a_refusal_under_an_unknown_key_counts_when_the_certificate_has_arrived(world: SealedWorld) -> None:
    keys_of(world.b).own_keys = world.certified_keys(world.b.address, "B2")  # not introduced yet
    send(world, SECRET)
    world.settle()
    assert outcomes(world.a) == [None]  # A does not know the key of the refusal
    world.b.engine.introduce()
    world.later(60)
    assert world.b.app.payloads == [SECRET]


def test_a_message_that_was_sealed_again_cannot_be_replayed_as_another(world: SealedWorld) -> None:
    world.cut(world.b)
    send(world, SECRET)
    world.settle()
    keys_of(world.b).own_keys = world.certified_keys(world.b.address, "B2")
    seen: list[Data] = []
    world.tamper = watching(seen)
    world.connect(world.b)
    world.later(5)
    resent = next(frame for frame in seen if frame.envelope.origin)
    e = resent.envelope
    lk0 = e.lk0._replace(object_id=e.lk0.object_id + 7)
    for again in (replace(e, lk0=lk0, sid=e.sid + 1), replace(e, lk0=lk0, sid=e.sid + 1, origin="")):
        world.b.receive(replace(resent, envelope=again, header=None))
        world.settle()
    assert world.b.app.payloads == [SECRET]


def test_a_node_introduces_only_itself(world: SealedWorld) -> None:
    assert world.a.up is not None
    record = Presence(node="1.56001", certificates=("forged",))
    packet = Packet(world.a.address, HUB, Function.PRESENCE, Primitive.INDICATION, [record])
    before = world.directory.certificates(world.b.address)
    world.a.up.send(packet)
    world.settle()
    assert world.directory.certificates(world.b.address) == before


def test_documents_to_ones_own_node_are_sealed_too(world: SealedWorld) -> None:
    world.a.send(SECRET, to="10008", encrypt=True)
    world.later(3)
    assert world.a.app.payloads == [SECRET]
    assert world.a.app.deliveries[0].envelope.lk0.node == world.a.address
    assert [row.status for row in world.a.store.tables.pending.values()] in ([], [Arrival.RECV])


def test_a_document_is_not_sealed_for_an_expired_certificate(world: SealedWorld) -> None:
    world.clock.now += timedelta(days=91).total_seconds()
    send(world, SECRET)
    assert [getattr(error, "code", "") for error in world.a.refused] == ["SEMQ-5207"]


def replace_key_of_a(world: SealedWorld) -> None:
    """Give A another key and certificate, as after a revocation; A's old key still opens session keys."""
    own = world.certified_keys(world.a.address, "X")
    keys = {**own.identity.keys, key_id(key_named("A1")): key_named("A1")}
    keys_of(world.a).own_keys = OwnKeys(Identity(own.identity.certificate, key_named("X"), keys), own.certificates)
    world.a.engine.introduce()
    world.later(1)


def test_a_document_signed_with_a_revoked_key_is_refused_and_signed_again(world: SealedWorld) -> None:
    world.cut(world.b)
    send(world, SECRET, b"second")
    world.settle()
    replace_key_of_a(world)
    world.connect(world.b)
    world.later(20)
    assert world.b.app.deliveries == []
    assert world.b.lines(Event.VIOLATION) == 0  # the certificate may still arrive
    awaited = [line.lk0 for line in world.b.store.tables.ledger if line.detail.startswith("SEMQ-5217 ")]
    assert len(awaited) == len(set(awaited)) == 2  # one line for each document
    assert world.b.engine.core.counters.counts["signer_awaited"] > 2
    assert world.b.engine.core.misconduct.seen() == []
    world.later(300)
    assert any(line.detail.startswith("SEMQ-5214 ") for line in world.b.store.tables.ledger)
    assert sorted(world.b.app.payloads) == sorted([SECRET, b"second"])
    kinds = world.a.reported.kinds
    assert (kinds.count("failed"), kinds.count("delivered")) == (2, 2)
    failed = next(event for event in world.a.reported.events if event.kind == "failed")
    assert failed.reason is not None
    assert failed.reason[0] == "SEMQ-5214"
    assert key_id(key_named("A1")) in failed.reason[1]
    assert not world.a.store.tables.outbound
    assert world.held == 0


def stored_in_clear(world: SealedWorld, *bodies: bytes) -> None:
    """Store documents of class 2 in clear at the hub, while B is offline."""
    world.cut(world.b)
    world.a.send(*bodies, save_fwd=2)
    world.settle()
    assert world.held == len(bodies)


def test_documents_of_class_2_in_clear_signed_with_a_revoked_key_are_signed_again(world: SealedWorld) -> None:
    stored_in_clear(world, b"first", b"second")
    replace_key_of_a(world)
    world.connect(world.b)
    world.later(600)
    assert sorted(world.b.app.payloads) == [b"first", b"second"]
    kinds = world.a.reported.kinds
    assert (kinds.count("failed"), kinds.count("delivered")) == (2, 2)
    failed = next(event for event in world.a.reported.events if event.kind == "failed")
    assert failed.reason is not None
    assert failed.reason[0] == "SEMQ-5214"
    assert not world.a.store.tables.outbound
    assert world.held == 0


def test_documents_of_class_2_in_clear_are_sent_again_only_where_another_key_can_help(
    world: SealedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_in_clear(world, b"first")
    [row] = world.a.store.tables.outbound.values()
    resealer, ours = world.a.engine.sender.resealing, key_id(key_named("A1"))
    for refused, is_allowed in (
        (SignerGone.of(key_id(key_named("X"))).text, True),
        (SignerGone.of(ours).text, False),
        ("no", False),
    ):
        assert resealer._may_sign_anew(replace_row(row, reason=(SignerGone.code, refused))) is is_allowed
    refused_row = replace_row(row, reason=(SignerGone.code, SignerGone.of(key_id(key_named("X"))).text))
    resealer._signed_anew[row.lk0] = ours
    assert not resealer._may_sign_anew(refused_row)  # signed with the present key already
    monkeypatch.setattr(resealing, "ANEW_MAX", 1)
    other = replace_row(refused_row, lk0=row.lk0._replace(object_id=77))
    assert not resealer._may_sign_anew(other)  # no more can be remembered
    replace_key_of_a(world)
    assert resealer._may_sign_anew(replace_row(other, reason=(SignerGone.code, SignerGone.of(ours).text)))


def test_documents_of_a_revoked_sender_without_a_new_certificate_wait_and_are_noted_as_violations(
    world: SealedWorld,
) -> None:
    world.cut(world.b)
    send(world, SECRET)
    world.settle()
    world.directory.known_certificates[world.a.address] = ()
    world.connect(world.b)
    world.later(300)
    assert world.b.app.deliveries == []
    assert outcomes(world.a) == [None]
    assert world.b.lines(Event.REJECTED) == 0
    assert world.b.lines(Event.VIOLATION) > 2
    assert any("SEMQ-5204" in line.detail for line in world.b.store.tables.ledger)


def test_after_a_roll_over_of_the_sender_nothing_more_is_sealed_in_the_name_of_its_old_key(world: SealedWorld) -> None:
    send(world, b"before")
    world.settle()
    seen: list[Data] = []
    world.tamper = watching(seen)
    replace_key_of_a(world)
    send(world, b"after")
    world.settle()
    assert {read_token(frame.envelope.session_key).signer_key_id for frame in seen} == {key_id(key_named("X"))}
    assert world.b.app.payloads == [b"before", b"after"]
