"""A trio whose institutions have certificates of a real authority, and whose wires carry bytes."""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import Any

from semq.engine.frames import read_frame, write_frame
from semq.engine.secrecy.sealing import Policy, Sealing
from semq.pki import Identity
from semq.pki.authority import Authority, create_authority
from semq.pki.keys import PrivateKey, key_id, new_key
from semq.pki.trust import TrustStore
from semq.service.credentials.keyring import NodeKeys, OwnKeys
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Frame
from semq.umx_t.status import Outcome
from tests.clocks import ManualClock
from tests.flows.trio import Local, Trio, TrioWire

SECRET = b"PLANTED: 4711 crates of quince brandy"


@cache
def key_named(name: str) -> PrivateKey:
    """Return the private key of this name, always the same. Only the key "B3" is an RSA key."""
    return new_key("rsa") if name == "B3" else new_key()


def watching(seen: list[Data]) -> Callable[[TrioWire, Frame], Frame]:
    """Return a ``tamper`` that collects all messages in ``seen``."""

    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Data):
            seen.append(frame)
        return frame

    return tamper


class SealedWorld(Trio):
    def __init__(self, policy: Policy | None = None, certified: str = "AB", has_hub: bool = True) -> None:
        self.authority = create_authority("hub", ManualClock().wall())
        self.policy = policy or Policy()  #: of both institutions
        self.certified = certified  #: letters of the institutions that have a certificate
        self.drawn = 0  #: draws of random bytes
        self.captured: list[bytes] = []  #: headers and bodies of all sent frames
        #: returns the frame that arrives instead of a sent one; None drops it
        self.tamper: Callable[[TrioWire, Frame], Frame | None] = lambda wire, frame: frame
        super().__init__(secrecy=self._secrecy, has_hub=has_hub)
        self.lose = self._carry

    @property
    def clock(self) -> ManualClock:
        return self.time

    def _secrecy(self, node: Address) -> Sealing | None:
        name = {"10008": "A", "56001": "B"}[node.id]
        if name not in self.certified:
            return None
        keys = NodeKeys(
            node, self.clock, TrustStore([self.authority.certificate]), self.certified_keys(node, f"{name}1")
        )
        return Sealing(node, keys, self.clock, self._draw, self.policy)

    def _draw(self, count: int) -> bytes:
        self.drawn += 1
        return sha256(f"{id(self)} {self.drawn}".encode()).digest()[:count]

    def certified_keys(
        self, node: Address, *names: str, authority: Authority | None = None, days: float = 90.0
    ) -> OwnKeys:
        """Return the keys with these names, each with a certificate of the node; the first key is active.

        ``authority`` signs the certificates, by default the trio's; ``days``: their validity, negative if expired.
        """
        now = self.clock.wall()
        issued = [(authority or self.authority).issue(key_named(name).public_key(), node, now, days) for name in names]
        keys = {key_id(key): key for key in map(key_named, names)}
        return OwnKeys(
            Identity(issued[0], key_named(names[0]), keys), tuple(certificate.pem.decode() for certificate in issued)
        )

    def roll(self, node: Local, *names: str) -> None:
        """Replace a node's keys by ``certified_keys``, and let the node introduce itself."""
        keys_of(node).own_keys = self.certified_keys(node.address, *names)
        node.engine.introduce()

    def _carry(self, wire: TrioWire, frame: Frame) -> bool:
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


def outcomes(node: Local) -> list[Outcome | None]:
    return [row.outcome for row in node.store.tables.outbound.values()]


def send(world: SealedWorld, *bodies: bytes, **facts: Any) -> None:
    """Let A send sealed documents; ``facts`` as for ``Local.send``."""
    world.a.send(*bodies, encrypt=True, **facts)
