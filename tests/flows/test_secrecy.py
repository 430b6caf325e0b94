"""Sealed documents between A and B through a hub that is honest, hostile, or behind; roll-over; receipts that prove.

Real certificates of a real authority, real engines; frames go through the AMQP form as they do on a wire.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace

from semq.engine.framing import read_frame, write_frame
from semq.engine.sealing import Policy, Sealing
from semq.pki import Identity
from semq.pki.authority import Authority, create_authority
from semq.pki.keys import PrivateKey, key_id, new_key
from semq.pki.trust import TrustStore
from semq.seal.receipts import Statement, climb, leaf, path, root
from semq.seal.session import Limits
from semq.service.keyring import NodeKeys, Own
from semq.store.rows import Event, KeptKey, KeptReceipts
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Envelope, Frame, Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Answer, Inquiry, Presence, Receipt
from semq.umx_t.status import Arrival, Outcome
from tests.flows.trio import PLATFORM, Local, Time, Trio, Wire

SECRET = b"PLANTED: 4711 crates of quince brandy"
KEYS: dict[str, PrivateKey] = {name: new_key() for name in ("A1", "B1", "B2", "X")} | {"B3": new_key("rsa")}


def watching(seen: list[Data]) -> Callable[[Wire, Frame], Frame]:
    def tamper(wire: Wire, frame: Frame) -> Frame:
        if isinstance(frame, Data):
            seen.append(frame)
        return frame

    return tamper


class World(Trio):
    """A trio whose institutions have certificates, and whose wires carry octets."""

    def __init__(self, policy: Policy | None = None, certified: str = "AB") -> None:
        self.authority = create_authority("hub", Time().wall())
        self.policy = policy or Policy()
        self.certified = certified
        self.drawn = 0
        self.captured: list[bytes] = []
        self.tamper: Callable[[Wire, Frame], Frame | None] = lambda wire, frame: frame
        super().__init__(secrecy=self._secrecy)
        self.lose = self._carry

    @property
    def clock(self) -> Time:
        return self.time

    def _secrecy(self, node: Address) -> Sealing | None:
        name = {"10008": "A", "56001": "B"}[node.id]
        if name not in self.certified:
            return None
        keys = NodeKeys(node, self.clock, TrustStore([self.authority.certificate]), self.own(node, f"{name}1"))
        return Sealing(node, keys, self.clock, self._draw, self.policy)

    def _draw(self, count: int) -> bytes:
        self.drawn += 1
        return sha256(f"{id(self)} {self.drawn}".encode()).digest()[:count]

    def own(self, node: Address, *names: str, authority: Authority | None = None, days: float = 90.0) -> Own:
        """An identity whose active key is the first; the others still open."""
        now = self.clock.wall()
        issued = [(authority or self.authority).issue(KEYS[name].public_key(), node, now, days) for name in names]
        keys = {key_id(KEYS[name]): KEYS[name] for name in names}
        return Own(Identity(issued[0], KEYS[names[0]], keys), tuple(one.pem.decode() for one in issued))

    def roll(self, node: Local, *names: str) -> None:
        """A node has other keys; the directory is told."""
        keys_of(node).mine = self.own(node.address, *names)
        node.engine.introduce()

    def _carry(self, wire: Wire, frame: Frame) -> bool:
        routing_key, header, body = write_frame(frame)
        self.captured.append(repr(header.headers).encode() + bytes(body))
        arrived = self.tamper(wire, read_frame(routing_key, header, bytes(body)))
        if arrived is not None:
            wire.arrive(arrived)
        return True


def keys_of(node: Local) -> NodeKeys:
    assert isinstance(node.sealing, Sealing)
    assert isinstance(node.sealing.keys, NodeKeys)
    return node.sealing.keys


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.settle()
    yield made
    for node in made.nodes:  # whatever a test did, no secret lies where it must not
        told = [line.detail for line in node.store.tables.ledger] + [str(error) for error in node.refused]
        assert not any(SECRET.decode() in text or "PRIVATE" in text for text in told)
        assert not any(SECRET in kept.text.encode() for kept in node.store.tables.rare if isinstance(kept, KeptKey))


def outcomes(node: Local) -> list[Outcome | None]:
    return [row.outcome for row in node.store.tables.outbound.values()]


def send(world: World, *bodies: bytes, **facts: Any) -> None:
    world.a.send(*bodies, encrypt=True, **facts)


# ------------------------------------------------------------------------------------------------- nobody else reads


def test_a_document_is_sealed_in_the_store_on_the_wire_and_opened_at_the_receiver(world: World) -> None:
    world.cut(world.a)
    send(world, SECRET, key="S1", user_headers={"crates": 4711, "deep": {"a": [1, None, "x"]}})
    world.settle()
    (stored,) = world.a.store.tables.bodies.values()
    assert SECRET not in stored.payload + stored.envelope
    assert sha256(SECRET).digest() not in stored.envelope
    world.connect(world.a)
    world.later(2)
    (delivery,) = world.b.app.got
    assert delivery.payload == SECRET
    assert delivery.envelope.digest == sha256(SECRET).digest()
    assert delivery.envelope.attributes.user_headers == {"crates": 4711, "deep": {"a": [1, None, "x"]}}
    assert world.a.told.kinds[-1] == "delivered"
    assert not any(SECRET in octets or sha256(SECRET).digest() in octets for octets in world.captured)
    world.later(20)
    assert world.is_clean()


def test_what_the_hub_stores_is_the_ciphertext_and_opens_later(world: World) -> None:
    world.cut(world.b)
    send(world, *[SECRET + bytes([n]) for n in range(5)])
    world.later(1)
    assert world.held == 5
    assert not any(SECRET in stored.payload for stored in world.hub_store.tables.bodies.values())
    world.connect(world.b)
    world.later(3)
    assert world.b.app.payloads == [SECRET + bytes([n]) for n in range(5)]


def test_one_session_serves_many_documents_then_ends_and_lives_have_their_own() -> None:
    world = World(Policy(limits=Limits(messages=10)))
    for start in range(0, 25, 5):
        send(world, *[bytes([start + n]) for n in range(5)])
        world.settle()
    kept = [row for row in world.a.store.tables.rare if isinstance(row, KeptKey)]
    assert len(kept) == len({row.id for row in kept}) == 3
    assert len(world.b.app.got) == 25
    world.a.sealing = world._secrecy(world.a.address)  # another life of the process
    world.a.crash()
    world.connect(world.a)
    world.settle()
    send(world, b"after")
    world.settle()
    assert len({row.id for row in world.a.store.tables.rare if isinstance(row, KeptKey)}) == 4


def test_the_same_token_is_the_same_document_although_it_is_sealed_anew(world: World) -> None:
    send(world, SECRET, token="t")
    world.settle()
    send(world, SECRET, token="t")
    send(world, b"other", token="t")
    world.settle()
    assert [one.repeated for one in world.a.accepted] == [False, True]
    assert len(world.a.refused) == 1
    assert world.b.app.payloads == [SECRET]


def test_without_a_certificate_nothing_is_accepted_that_should_be_sealed() -> None:
    for certified in ("A", "B", ""):
        world = World(certified=certified)
        world.settle()
        send(world, SECRET)
        world.settle()
        assert [getattr(error, "code", "") for error in world.a.refused] == ["SEMQ-5207"]
        assert not world.a.store.tables.outbound
        assert not any(SECRET in octets for octets in world.captured)


def test_documents_are_sealed_without_being_asked_where_the_policy_says_so() -> None:
    world = World(Policy(required_with=["56001"]))
    world.settle()
    world.a.send(SECRET)
    world.settle()
    assert world.b.app.payloads == [SECRET]
    assert world.b.app.got[0].envelope.attributes.encrypt
    assert not any(SECRET in octets for octets in world.captured)


def test_certificates_of_another_authority_expired_or_of_another_name_are_not_believed(world: World) -> None:
    other = create_authority("impostor", world.clock.wall())
    for own in (
        world.own(world.b.address, "X", authority=other),
        world.own(world.b.address, "X", days=-1 / 1440),
        world.own(Address(1, "99999"), "X"),
    ):
        keys_of(world.b).mine = own
        world.b.engine.introduce()
        world.settle()
        assert keys_of(world.a).receiver("1.56001") is None
        send(world, SECRET)
        world.settle()
    assert len(world.a.refused) == 3


def test_pinned_certificates_alone_are_believed(world: World) -> None:
    mine = keys_of(world.b).mine
    assert mine is not None
    for pins, believed in (({mine.identity.certificate.fingerprint}, True), ({"00" * 32}, False)):
        world.a.sealing = Sealing(
            world.a.address,
            NodeKeys(world.a.address, world.clock, TrustStore([world.authority.certificate]), None, {"56001": pins}),
            world.clock, world._draw, Policy(),
        )  # fmt: skip
        world.a.sealing.heard("1.56001", mine.certificates)
        assert keys_of(world.a).knows("1.56001") is believed


# ------------------------------------------------------------------------------------------------------ a hostile hub


def altered(**changes: Any) -> Callable[[Envelope], Envelope]:
    return lambda envelope: replace(envelope, **changes)


def attributed(**changes: Any) -> Callable[[Envelope], Envelope]:
    return lambda envelope: replace(envelope, attributes=replace(envelope.attributes, **changes))


ALTERED: dict[str, Callable[[Envelope], Envelope]] = {
    "lk0": lambda e: replace(e, lk0=e.lk0._replace(object_id=e.lk0.object_id + 9)),
    "sid": lambda e: replace(e, sid=e.sid + 9),
    "prev": lambda e: replace(e, prev=e.pos),
    "sender": altered(sender="somebody"),
    "submitted_at": altered(submitted_at=1),
    "digest": altered(digest=bytes(32)),
    "target user": lambda e: replace(e, target=Address(1, "56001", "buyer")),
    "class": lambda e: replace(e, attributes=replace(e.attributes, ack2=False)),
    "app key": lambda e: replace(e, attributes=replace(e.attributes, app_key=e.attributes.app_key._replace(key="S2"))),
    "order key": attributed(order_key="o"),
    "content type": attributed(content_type="text/html"),
    "content encoding": attributed(content_encoding="gzip"),
    "expiry": attributed(expires_at=5),
    "priority": attributed(priority=9),
    "fixed": attributed(fixed=True),
    "header": attributed(user_headers={"crates": 1}),
    "origin": lambda e: replace(e, origin=f"{e.ident} {e.sid} -"),
    "alg": altered(alg="HPKE-P384+A256GCM"),
    "downgrade": attributed(encrypt=False),
}


@pytest.mark.parametrize("what", ALTERED)
def test_an_altered_attribute_is_noticed_and_the_document_arrives_when_the_hub_stops(world: World, what: str) -> None:
    def tamper(wire: Wire, frame: Frame) -> Frame:
        if isinstance(frame, Data) and wire is world.b.down:
            return replace(frame, envelope=ALTERED[what](frame.envelope), header=None)
        return frame

    world.tamper = tamper
    send(world, SECRET, key="S1")
    world.settle()
    assert world.b.app.got == []
    assert not world.b.store.tables.pending or what == "alg"
    assert world.b.lines(Event.VIOLATION) >= 1 or what == "alg"
    assert Outcome.DELIVERED not in outcomes(world.a)
    if what == "alg":
        return  # it cannot be read at all: refused for good, as PROTOCOL.md section 18 says
    world.tamper = lambda wire, frame: frame
    world.later(40)
    assert world.b.app.payloads == [SECRET]


BODIES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda body: body[:-1],
    "empty": lambda body: b"",
    "one bit": lambda body: body[:20] + bytes([body[20] ^ 1]) + body[21:],
    "longer": lambda body: body + b"\0",
    "in clear": lambda body: SECRET,
}


@pytest.mark.parametrize("what", BODIES)
def test_an_altered_ciphertext_is_noticed(world: World, what: str) -> None:
    def tamper(wire: Wire, frame: Frame) -> Frame:
        is_for_b = isinstance(frame, Data) and wire is world.b.down
        return replace(frame, body=BODIES[what](bytes(frame.body)), header=None) if is_for_b else frame

    world.tamper = tamper
    send(world, SECRET)
    world.settle()
    assert world.b.app.got == []
    assert not world.b.store.tables.pending
    world.tamper = lambda wire, frame: frame
    world.later(40)
    assert world.b.app.payloads == [SECRET]


def test_a_ciphertext_grafted_onto_another_message_is_noticed(world: World) -> None:
    seen: list[Data] = []

    def tamper(wire: Wire, frame: Frame) -> Frame:
        if isinstance(frame, Data) and wire is world.b.down:
            seen.append(frame)
            return replace(frame, body=seen[0].body, header=None)
        return frame

    world.tamper = tamper
    send(world, b"first", b"second")
    world.settle()
    assert world.b.app.payloads == [b"first"]
    assert world.b.lines(Event.VIOLATION) == 1


def test_a_replay_under_a_new_place_is_noticed(world: World) -> None:
    """The hub claims that an old ciphertext is sent again as a new message: only the sender can say so."""
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
        world.b.engine.hear(world.b.up, [replace(old, envelope=envelope, header=None)])  # type: ignore[arg-type]
        world.settle()
    assert world.b.app.payloads == [SECRET]
    assert world.b.lines(Event.VIOLATION) >= 2


def test_a_session_key_made_by_the_hub_in_the_senders_name_is_not_believed(world: World) -> None:
    hub = Sealing(
        world.a.address,
        NodeKeys(world.a.address, world.clock, TrustStore([world.authority.certificate]), None),
        world.clock, world._draw, Policy(),
    )  # fmt: skip
    forger = keys_of(world.a)
    assert isinstance(hub.keys, NodeKeys)
    hub.keys.mine = Own(Identity(forger.mine.identity.certificate, KEYS["X"], {}), ())  # type: ignore[union-attr]
    assert keys_of(world.b).mine is not None
    hub.heard("1.56001", keys_of(world.b).introduction())
    frames: list[Data] = []

    def tamper(wire: Wire, frame: Frame) -> Frame:
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
    assert world.b.app.got == []
    assert not world.b.store.tables.pending


def test_a_document_in_clear_is_refused_where_it_has_to_be_sealed() -> None:
    world = World()
    world.settle()
    assert isinstance(world.b.sealing, Sealing)
    world.b.sealing.policy = Policy(required_with=["*"])
    world.a.send(b"in clear")
    world.settle()
    assert world.b.app.got == []
    assert world.a.told.events[-1].reason is not None
    assert world.a.told.events[-1].reason[0] == "SEMQ-5206"


# ------------------------------------------------------------------------------------------- receipts that prove


def forged(world: World, lk0: str) -> list[Packet]:
    """What a hub could make up of B."""
    b, a = world.b.address, world.a.address
    receipt = Receipt(ident=lk0, ack_flag=AckFlag.END_TO_END, status=Answer.RECV)
    answer = Inquiry(ident=lk0, answer=Answer.RECV)
    return [
        Packet(b, a, Function.RECEIPTS, Primitive.INDICATION, [receipt]),
        Packet(b, a, Function.RECEIPTS, Primitive.INDICATION, [receipt], signature="forged"),
        Packet(b, a, Function.INQUIRIES, Primitive.CONFIRMATION, [answer]),
    ]


def test_a_forged_ack2_ends_nothing(world: World) -> None:
    world.tamper = lambda wire, frame: None if wire is world.b.down else frame  # the hub keeps everything
    send(world, SECRET)
    world.settle()
    (row,) = world.a.store.tables.outbound.values()
    assert world.a.up is not None
    for packet in forged(world, str(row.lk0)):
        world.a.engine.hear(world.a.up, [packet])
        world.settle()
        assert outcomes(world.a) == [None]
    assert world.a.lines(Event.VIOLATION) == 3
    world.tamper = lambda wire, frame: frame
    world.later(40)
    assert world.a.told.kinds[-1] == "delivered"


def test_an_altered_receipt_and_one_of_another_key_end_nothing(world: World) -> None:
    def tamper(wire: Wire, frame: Frame) -> Frame:
        if isinstance(frame, Packet) and frame.function is Function.RECEIPTS and frame.signature:
            return replace(frame, records=[replace(r, at=r.at + 1) for r in frame.records], header=None, body=b"")
        return frame

    world.tamper = tamper
    send(world, SECRET)
    world.settle()
    assert outcomes(world.a) == [None]
    keys = keys_of(world.b)
    assert keys.mine is not None
    keys.mine = Own(Identity(keys.mine.identity.certificate, KEYS["X"], keys.mine.identity.keys), ())
    world.tamper = lambda wire, frame: frame
    world.later(20)
    assert outcomes(world.a) == [None]


def test_a_receipt_can_be_proved_alone(world: World) -> None:
    send(world, *[bytes([n]) for n in range(7)])
    world.settle()
    lines = [line for line in world.a.store.tables.ledger if line.event is Event.DELIVERED]
    kept = {row.number: row for row in world.a.store.tables.rare if isinstance(row, KeptReceipts)}
    assert len(lines) == 7
    for line in lines:
        _, number, _, place, _, _, at = line.detail.split()
        leaves = [kept[int(number)].leaves[n : n + 32] for n in range(0, len(kept[int(number)].leaves), 32)]
        statement = Statement("1.56001", line.lk0, "RECV", digest_of(world, line.lk0), int(at))
        assert leaf(statement) == leaves[int(place)]
        assert climb(leaf(statement), int(place), path(leaves, int(place))) == root(leaves)


def digest_of(world: World, lk0: str) -> str:
    lines = [line for line in world.a.store.tables.ledger if line.lk0 == lk0 and line.event is Event.ACCEPTED]
    return lines[0].digest.hex()


def test_signed_answers_end_a_message_whose_ack2_was_lost(world: World) -> None:
    def tamper(wire: Wire, frame: Frame) -> Frame | None:
        lost = isinstance(frame, Packet) and frame.function is Function.RECEIPTS and wire is world.a.down
        return None if lost else frame

    world.tamper = tamper
    send(world, SECRET)
    world.settle()
    assert outcomes(world.a) == [None]
    world.later(20)
    assert world.a.told.kinds[-1] == "delivered"


# ------------------------------------------------------------------------------------------------------------ roll-over


def test_what_was_sealed_for_an_old_key_opens_as_long_as_the_receiver_keeps_it(world: World) -> None:
    world.cut(world.b)
    send(world, SECRET)
    world.settle()
    keys_of(world.b).mine = world.own(world.b.address, "B2", "B1")
    world.connect(world.b)
    world.later(3)
    assert world.b.app.payloads == [SECRET]
    send(world, b"for the new key")
    world.later(3)
    assert world.b.app.got[-1].envelope.key_id == key_id(KEYS["B2"])


@pytest.mark.parametrize("new", ["B2", "B3"])
def test_what_the_receiver_cannot_open_is_sealed_for_its_new_key_by_the_senders_node(world: World, new: str) -> None:
    world.cut(world.b)
    send(world, SECRET, key="S1", user_headers={"n": 1})
    send(world, b"second")
    world.settle()
    keys_of(world.b).mine = world.own(world.b.address, new)  # the old key is gone
    world.connect(world.b)
    world.later(5)
    assert world.b.app.payloads == [SECRET, b"second"]
    kinds = world.a.told.kinds
    assert kinds.count("failed") == 2
    assert kinds.count("delivered") == 2
    failed = next(event for event in world.a.told.events if event.kind == "failed")
    assert failed.reason is not None
    assert failed.reason[0] == "SEMQ-5201"
    assert key_id(KEYS["B1"]) in failed.reason[1]
    got = world.b.app.got[0].envelope
    assert got.lk0 != failed.lk0
    assert got.origin.startswith(str(failed.lk0))
    assert got.digest == sha256(SECRET).digest()
    assert got.attributes.app_key.key == "S1"
    world.later(30)
    assert not world.a.store.tables.outbound
    assert world.b.lines(Event.REJECTED) == 2


def test_it_is_sealed_again_after_a_crash_as_soon_as_the_directory_knows_another_key(world: World) -> None:
    keys = keys_of(world.b)
    assert keys.mine is not None
    keys.mine = Own(Identity(keys.mine.identity.certificate, KEYS["B1"], {}), keys.mine.certificates)
    send(world, SECRET)
    world.settle()
    assert outcomes(world.a) == [Outcome.REJECTED]
    world.a.crash()
    world.connect(world.a)
    world.later(5)
    assert outcomes(world.a) == [Outcome.REJECTED]  # A knows the refused key only: it does not try in vain
    world.roll(world.b, "B2")
    world.later(5)
    assert world.b.app.payloads == [SECRET]


def test_a_receiver_whose_new_certificate_is_not_known_yet_is_believed_later(world: World) -> None:
    keys_of(world.b).mine = world.own(world.b.address, "B2")  # and the directory is not told
    send(world, SECRET)
    world.settle()
    assert outcomes(world.a) == [None]  # refused, but signed with a key that A does not know
    world.b.engine.introduce()
    world.later(60)
    assert world.b.app.payloads == [SECRET]


def test_a_message_that_was_sealed_again_cannot_be_replayed_as_another(world: World) -> None:
    world.cut(world.b)
    send(world, SECRET)
    world.settle()
    keys_of(world.b).mine = world.own(world.b.address, "B2")
    seen: list[Data] = []
    world.tamper = watching(seen)
    world.connect(world.b)
    world.later(5)
    resent = next(frame for frame in seen if frame.envelope.origin)
    e = resent.envelope
    lk0 = e.lk0._replace(object_id=e.lk0.object_id + 7)
    assert world.b.up is not None
    for again in (replace(e, lk0=lk0, sid=e.sid + 1), replace(e, lk0=lk0, sid=e.sid + 1, origin="")):
        world.b.engine.hear(world.b.up, [replace(resent, envelope=again, header=None)])
        world.settle()
    assert world.b.app.payloads == [SECRET]


def test_a_node_introduces_nobody_but_itself(world: World) -> None:
    assert world.a.up is not None
    record = Presence(node="1.56001", certificates=("forged",))
    packet = Packet(world.a.address, PLATFORM, Function.PRESENCE, Primitive.INDICATION, [record])
    before = world.directory.certificates(world.b.address)
    world.a.up.send(packet)
    world.settle()
    assert world.directory.certificates(world.b.address) == before


def test_documents_to_ones_own_node_are_sealed_too(world: World) -> None:
    world.a.send(SECRET, to="10008", encrypt=True)
    world.later(3)
    assert world.a.app.payloads == [SECRET]
    assert world.a.app.got[0].envelope.lk0.node == world.a.address
    assert [row.status for row in world.a.store.tables.pending.values()] in ([], [Arrival.RECV])


def test_validity_is_asked_at_every_use(world: World) -> None:
    world.clock.now += timedelta(days=91).total_seconds()
    send(world, SECRET)
    assert [getattr(error, "code", "") for error in world.a.refused] == ["SEMQ-5207"]
