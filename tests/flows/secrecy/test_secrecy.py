"""Sealed documents between A and B through a hub that is honest, or hostile."""

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace

from semq.amqp.wire import Timestamp, encode_fields
from semq.engine.secrecy.sealing import Policy, Sealing
from semq.pki import Identity
from semq.pki.authority import create_authority
from semq.pki.keys import key_id
from semq.pki.trust import TrustStore
from semq.seal.session import KeyLimits
from semq.service.credentials.keyring import NodeKeys, OwnKeys
from semq.store.rows import Event, KeptKey
from semq.umx_t.address import Address
from semq.umx_t.attributes import Attribute
from semq.umx_t.envelope import Data, Frame, Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Answer, Presence, Receipt
from semq.umx_t.status import Outcome
from tests.clocks import ManualClock
from tests.flows.sealed import SECRET, SealedWorld, key_named, keys_of, outcomes, send, watching
from tests.flows.trio import TrioWire
from tests.umx_t.samples.altered import BOUND, altered

# --------------------------------------------------------------------------------------- only the receiver can read


def test_a_document_is_sealed_in_the_store_on_the_wire_and_opened_at_the_receiver(world: SealedWorld) -> None:
    world.cut(world.a)
    send(world, SECRET, key="S1", user_headers={"crates": 4711, "deep": {"a": [1, None, "x"]}})
    world.settle()
    (stored,) = world.a.store.tables.bodies.values()
    assert SECRET not in stored.payload + stored.envelope
    assert sha256(SECRET).digest() not in stored.envelope
    world.connect(world.a)
    world.later(2)
    (delivery,) = world.b.app.deliveries
    assert delivery.payload == SECRET
    assert delivery.envelope.digest == sha256(SECRET).digest()
    sent = encode_fields({"crates": 4711, "deep": {"a": [1, None, "x"]}})
    assert delivery.envelope.attributes.user_headers == sent
    assert world.a.reported.kinds[-1] == "delivered"
    assert not any(SECRET in data or sha256(SECRET).digest() in data for data in world.captured)
    world.later(20)
    assert world.is_clean()


def test_the_hub_stores_ciphertext_that_opens_later(world: SealedWorld) -> None:
    world.cut(world.b)
    send(world, *[SECRET + bytes([n]) for n in range(5)])
    world.later(1)
    assert world.held == 5
    assert not any(SECRET in stored.payload for stored in world.hub_store.tables.bodies.values())
    world.connect(world.b)
    world.later(3)
    assert world.b.app.payloads == [SECRET + bytes([n]) for n in range(5)]


@pytest.mark.parametrize("cut", ["", "A", "B", "AB"])
@pytest.mark.parametrize("encrypt", [False, True])
def test_headers_of_every_type_of_amqp_arrive_unchanged_although_the_envelope_was_stored(
    world: SealedWorld, cut: str, encrypt: bool
) -> None:
    headers: dict[str, Any] = {"price": Decimal("12.50"), "x-death": [{"time": Timestamp(1_700_000_000)}], "x": b"\xff"}
    nodes = {"A": world.a, "B": world.b}
    for name in cut:
        world.cut(nodes[name])
    world.a.send(b"document", encrypt=encrypt, user_headers=headers)
    world.settle()
    for name in cut:
        world.connect(nodes[name])
        world.later(5)
    world.later(30)
    arrived = [delivery.envelope.attributes.user_headers for delivery in world.b.app.deliveries]
    assert arrived == [encode_fields(headers)]
    assert not world.b.lines(Event.VIOLATION)
    assert world.is_clean()


def test_a_session_key_serves_a_limited_number_of_documents_of_one_process() -> None:
    world = SealedWorld(Policy(limits=KeyLimits(messages=10)))
    for start in range(0, 25, 5):
        send(world, *[bytes([start + n]) for n in range(5)])
        world.settle()
    kept = [row for row in world.a.store.tables.rare_rows if isinstance(row, KeptKey)]
    assert len(kept) == len({row.id for row in kept}) == 3
    assert len(world.b.app.deliveries) == 25
    world.a.sealing = world._secrecy(world.a.address)  # another start of the process
    world.a.crash()
    world.connect(world.a)
    world.settle()
    send(world, b"after")
    world.settle()
    assert len({row.id for row in world.a.store.tables.rare_rows if isinstance(row, KeptKey)}) == 4


def test_the_same_token_is_the_same_document_although_it_is_sealed_again(world: SealedWorld) -> None:
    send(world, SECRET, token="t")
    world.settle()
    send(world, SECRET, token="t")
    send(world, b"other", token="t")
    world.settle()
    assert [accepted.repeated for accepted in world.a.accepted] == [False, True]
    assert len(world.a.refused) == 1
    assert world.b.app.payloads == [SECRET]


def test_without_a_certificate_no_document_to_be_sealed_is_accepted() -> None:
    for certified in ("A", "B", ""):
        world = SealedWorld(certified=certified)
        world.settle()
        send(world, SECRET)
        world.settle()
        assert [getattr(error, "code", "") for error in world.a.refused] == ["SEMQ-5207"]
        assert not world.a.store.tables.outbound
        assert not any(SECRET in data for data in world.captured)


def test_documents_are_sealed_without_a_request_if_the_policy_demands_it() -> None:
    world = SealedWorld(Policy(required_with=["56001"]))
    world.settle()
    world.a.send(SECRET)
    world.settle()
    assert world.b.app.payloads == [SECRET]
    assert world.b.app.deliveries[0].envelope.attributes.encrypt
    assert not any(SECRET in data for data in world.captured)


def test_certificates_of_another_authority_expired_or_of_another_name_are_refused(world: SealedWorld) -> None:
    other = create_authority("impostor", world.clock.wall())
    for own in (
        world.certified_keys(world.b.address, "X", authority=other),
        world.certified_keys(world.b.address, "X", days=-1 / 1440),
        world.certified_keys(Address(1, "99999"), "X"),
    ):
        keys_of(world.b).own_keys = own
        world.b.engine.introduce()
        world.settle()
        assert keys_of(world.a).receiver("1.56001") is None
        send(world, SECRET)
        world.settle()
    assert len(world.a.refused) == 3


class SlowClock(ManualClock):
    """A clock behind another one."""

    def __init__(self, true: ManualClock) -> None:
        super().__init__()
        self._true = true
        self.behind_s = 600

    def wall(self) -> datetime:
        return self._true.wall() - timedelta(seconds=self.behind_s)


@pytest.mark.parametrize("has_hub", [True, False])
def test_a_certificate_renewed_while_the_clock_was_slow_is_used(has_hub: bool) -> None:
    world = SealedWorld(has_hub=has_hub)
    if not has_hub:
        world.connect_directly()
    world.settle()
    keys_of(world.a)._clock = clock = SlowClock(world.clock)
    world.roll(world.b, "B2", "B1")
    world.settle()
    clock.behind_s = 0
    for encrypt, save_fwd in ((False, 3), (True, 3), (True, 2)):
        world.b.send(SECRET, to="10008", encrypt=encrypt, save_fwd=save_fwd)
    world.settle()
    assert world.a.app.payloads == [SECRET] * 3
    send(world, SECRET)
    world.settle()
    assert world.b.app.deliveries[0].envelope.key_id == key_id(key_named("B2"))


def test_only_pinned_certificates_are_accepted(world: SealedWorld) -> None:
    keys_of_b = keys_of(world.b).own_keys
    assert keys_of_b is not None
    for pins, is_accepted in (({keys_of_b.identity.certificate.fingerprint}, True), ({"00" * 32}, False)):
        world.a.sealing = Sealing(
            world.a.address,
            NodeKeys(world.a.address, world.clock, TrustStore([world.authority.certificate]), None, {"56001": pins}),
            world.clock, world._draw, Policy(),
        )  # fmt: skip
        world.a.sealing.learn("1.56001", keys_of_b.certificates)
        assert keys_of(world.a).knows("1.56001") is is_accepted


# ------------------------------------------------------------------------------------------------------ a hostile hub


# If one of these is altered, the document is refused, or the alteration is a violation.
REFUSED = ("@Alg", "@KeyId", "@SessionKey")


@pytest.mark.parametrize("row", BOUND, ids=lambda row: row.name)
def test_an_altered_attribute_is_noticed_and_the_document_arrives_after_the_alterations_end(
    world: SealedWorld, row: Attribute
) -> None:
    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Data) and wire is world.b.down:
            return replace(frame, envelope=altered(frame.envelope, row), header=None)
        return frame

    world.tamper = tamper
    send(world, SECRET, key="S1")
    world.settle()
    assert world.b.app.deliveries == []
    assert Outcome.DELIVERED not in outcomes(world.a)
    if row.name in REFUSED:
        assert world.b.lines(Event.REJECTED) + world.b.lines(Event.VIOLATION) >= 1
        return
    assert not world.b.store.tables.pending
    assert world.b.lines(Event.VIOLATION) >= 1
    world.tamper = lambda wire, frame: frame
    world.later(40)
    assert world.b.app.payloads == [SECRET]


STRIPPED = (
    {"alg": ""},
    {"key_id": ""},
    {"session_key": ""},
    {"alg": "", "key_id": ""},
    {"alg": "", "key_id": "", "session_key": ""},
    {"alg": "none"},
    {"alg": "RSA-OAEP-SHA256+A256GCM"},
    {"session_key": "0.AA.AA.x.AA"},
)


@pytest.mark.parametrize("stripped", STRIPPED, ids=str)
def test_a_document_with_a_wrong_attribute_of_its_seal_is_not_delivered(
    world: SealedWorld, stripped: dict[str, str]
) -> None:

    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Data) and wire is world.b.down:
            return replace(frame, envelope=replace(frame.envelope, **stripped), header=None)
        return frame

    world.tamper = tamper
    send(world, SECRET)
    world.settle()
    assert world.b.app.deliveries == []
    assert Outcome.DELIVERED not in outcomes(world.a)
    assert world.b.lines(Event.REJECTED) + world.b.lines(Event.VIOLATION) == 1


BODIES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda body: body[:-1],
    "empty": lambda body: b"",
    "one bit": lambda body: body[:20] + bytes([body[20] ^ 1]) + body[21:],
    "longer": lambda body: body + b"\0",
    "in clear": lambda body: SECRET,
}


@pytest.mark.parametrize("alteration", BODIES)
def test_an_altered_ciphertext_is_noticed(world: SealedWorld, alteration: str) -> None:
    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        is_for_b = isinstance(frame, Data) and wire is world.b.down
        return replace(frame, body=BODIES[alteration](bytes(frame.body)), header=None) if is_for_b else frame

    world.tamper = tamper
    send(world, SECRET)
    world.settle()
    assert world.b.app.deliveries == []
    assert not world.b.store.tables.pending
    world.tamper = lambda wire, frame: frame
    world.later(40)
    assert world.b.app.payloads == [SECRET]


def test_a_ciphertext_grafted_onto_another_message_is_noticed(world: SealedWorld) -> None:
    seen: list[Data] = []

    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Data) and wire is world.b.down:
            seen.append(frame)
            return replace(frame, body=seen[0].body, header=None)
        return frame

    world.tamper = tamper
    send(world, b"first", b"second")
    world.settle()
    assert world.b.app.payloads == [b"first"]
    assert world.b.lines(Event.VIOLATION) == 1


def test_a_replay_at_a_new_position_is_noticed(world: SealedWorld) -> None:
    """Only the sender can state that a ciphertext is sent again as a new message."""
    seen: list[Data] = []
    world.tamper = watching(seen)
    send(world, SECRET)
    world.settle()
    old = seen[-1]
    e = old.envelope
    lk0 = e.lk0._replace(object_id=e.lk0.object_id + 100)
    again = replace(e, lk0=lk0, sid=e.sid + 1, origin=f"{e.ident} {e.sid} -")
    assert world.b.down is not None
    for envelope in (again, replace(again, origin="")):
        world.b.down.arrive(replace(old, envelope=envelope, header=None))
        world.b.receive(replace(old, envelope=envelope, header=None))
        world.settle()
    assert world.b.app.payloads == [SECRET]
    assert world.b.lines(Event.VIOLATION) >= 2


def test_a_session_key_made_by_the_hub_in_the_senders_name_is_refused(world: SealedWorld) -> None:
    hub = Sealing(
        world.a.address,
        NodeKeys(world.a.address, world.clock, TrustStore([world.authority.certificate]), None),
        world.clock, world._draw, Policy(),
    )  # fmt: skip
    genuine = keys_of(world.a)
    assert isinstance(hub.keys, NodeKeys)
    hub.keys.own_keys = OwnKeys(Identity(genuine.own_keys.identity.certificate, key_named("X"), {}), ())  # type: ignore[union-attr]
    assert keys_of(world.b).own_keys is not None
    hub.learn("1.56001", keys_of(world.b).introduction())
    frames: list[Data] = []

    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Data) and wire is world.b.down:
            session = hub.seal_for(frame.envelope.target, frame.envelope.attributes)
            assert session is not None
            envelope, body = session.seal(frame.envelope, b"pay to another account", sha256(b"x").digest())
            frames.append(replace(frame, envelope=envelope, body=body, header=None))
            return frames[-1]
        return frame

    world.tamper = tamper
    send(world, SECRET)
    world.settle()
    assert frames
    assert world.b.app.deliveries == []
    assert not world.b.store.tables.pending


def test_a_document_in_clear_is_refused_where_it_has_to_be_sealed() -> None:
    world = SealedWorld()
    world.settle()
    assert isinstance(world.b.sealing, Sealing)
    world.b.sealing.policy = Policy(required_with=["*"])
    world.a.send(b"in clear")
    world.settle()
    assert world.b.app.deliveries == []
    assert world.a.reported.events[-1].reason is not None
    assert world.a.reported.events[-1].reason[0] == "SEMQ-5206"


def replacing_documents(world: SealedWorld) -> Callable[[TrioWire, Frame], Frame]:
    """Return a ``tamper`` that replaces documents to B by forged ones in clear."""

    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Data) and wire is world.b.down:
            e = frame.envelope
            clear = replace(e.attributes, encrypt=False)
            bare = replace(e, attributes=clear, session_key="", alg="", key_id="", signature="")
            plain = replace(bare, digest=sha256(b"pay me").digest())
            return replace(frame, envelope=plain, body=b"pay me", header=None)
        return frame

    return tamper


def test_a_document_that_the_hub_puts_in_the_place_of_a_sealed_one_is_not_recorded(world: SealedWorld) -> None:
    world.tamper = replacing_documents(world)
    send(world, SECRET)
    world.settle()
    assert world.b.app.payloads == []
    assert not world.b.store.tables.recorded
    assert world.b.lines(Event.VIOLATION) == 1
    world.tamper = lambda wire, frame: frame
    world.later(60)
    assert world.b.app.payloads == [SECRET]
    assert world.b.app.deliveries[0].envelope.proved
    assert world.a.reported.kinds[-1] == "delivered"


def test_a_forgery_accepted_without_a_proof_is_replaced_by_the_document(world: SealedWorld) -> None:
    """B accepts A's documents without a proof."""
    assert isinstance(world.b.sealing, Sealing)
    world.b.sealing.policy = Policy(unproved_from=["10008"])
    world.tamper = replacing_documents(world)
    send(world, SECRET)
    world.settle()
    assert world.b.app.payloads == [b"pay me"]
    assert not world.b.app.deliveries[0].envelope.proved
    assert outcomes(world.a) == [None]
    assert world.a.lines(Event.VIOLATION) == 1
    world.tamper = lambda wire, frame: frame
    world.later(120)
    assert world.b.app.payloads == [b"pay me", SECRET]
    assert world.b.app.deliveries[1].envelope.proved
    assert any(line.detail.startswith("SEMQ-5215") for line in world.b.store.tables.ledger)
    assert world.a.reported.kinds[-1] == "delivered"
    world.later(400)
    assert world.is_clean()


def test_unsigned_receipts_are_refused_also_after_the_hub_has_withdrawn_the_certificate(world: SealedWorld) -> None:
    world.tamper = lambda wire, frame: None if wire is world.b.down else frame
    send(world, SECRET)
    world.settle()
    withdrawn = Presence(node="1.56001", certificates=())
    world.a.engine.receive_presence([withdrawn])
    (row,) = world.a.store.tables.outbound.values()
    receipt = Receipt(ident=str(row.lk0), ack_flag=AckFlag.END_TO_END, status=Answer.RECV)
    packet = Packet(world.b.address, world.a.address, Function.RECEIPTS, Primitive.INDICATION, [receipt])
    world.a.receive(packet)
    world.settle()
    assert outcomes(world.a) == [None]
    assert world.a.lines(Event.VIOLATION) == 1
