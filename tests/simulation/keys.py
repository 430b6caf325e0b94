"""Keys of institutions that are renewed, revoked and enrolled anew.

The decisions are those of the product: ``Sealing`` and ``NodeKeys`` at the institutions, ``KnownCertificates`` at the
hub. Simulated are the slots of keys, the authority, and the cryptography: a signature is a hash, because thousands of
runs could not afford real ones.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec

from platform_node.certificate_directory import KnownCertificates
from semq.engine.ports import OpenedPayload
from semq.engine.secrecy.sealing import Policy, Sealing
from semq.pki import Identity, NodeCertificate, TrustStore
from semq.pki.authority import CLOCK_MARGIN
from semq.pki.errors import Revoked
from semq.seal.keys import PrivateKey, key_id
from semq.seal.voucher import with_vouchers
from semq.service.credentials.keyring import CERTIFICATES_MAX, END, NodeKeys, OwnKeys, split
from semq.service.credentials.secrecy import PATIENCE_INQUIRIES
from semq.store.rows import Certificates
from semq.umx_t.address import Address
from semq.umx_t.envelope import Body, Envelope
from semq.umx_t.locator import LK0
from tests.memory_store.tables import Tables
from tests.simulation.application import check_poison
from tests.simulation.timeline import EPOCH

if TYPE_CHECKING:
    from tests.simulation.host import LocalHost
    from tests.simulation.world import World

VALIDITY = timedelta(days=90)
NOTICED_S = 10.0  # longest time until another process of the hub reads a revocation
MAINTAINED_S = 5.0  # interval at which a node looks whether its certificate has changed
OPERATED_S = 50.0  # between acts of an operator on parked copies
ENROLLED_S = (1.0, 20.0, 60.0)  # after a revocation


class SimulatedKey:
    """A key pair: ``sign`` and ``verify`` as the product calls them."""

    curve = ec.SECP256R1()

    def __init__(self, name: str) -> None:
        self._name = name.encode()

    def public_key(self) -> "SimulatedKey":
        return self

    def public_bytes(self, *form: object) -> bytes:
        return self._name

    def sign(self, message: bytes, algorithm: object) -> bytes:
        return sha256(self._name + message).digest()

    def verify(self, signature: bytes, message: bytes, algorithm: object) -> None:
        if signature != self.sign(message, algorithm):
            raise InvalidSignature


class SimulatedAuthority:
    """The certificates that the hub has issued and revoked."""

    def __init__(self) -> None:
        self._issued: dict[str, NodeCertificate] = {}  #: by text
        self.revoked: set[int] = set()  #: serial numbers

    def issue(self, node: Address, key: PrivateKey, now: datetime) -> str:
        """Return a new certificate, as text."""
        number, name = len(self._issued) + 1, key_id(key.public_key())
        text = f"-----BEGIN CERTIFICATE-----\n{number} {name}\n{END}"
        self._issued[text] = NodeCertificate(
            text.encode(), node, number, now - CLOCK_MARGIN, now + VALIDITY, name, key.public_key()
        )
        return text

    def read(self, pem: str) -> NodeCertificate:
        return self._issued[split(pem)[0]]

    def is_revoked(self, pem: str) -> bool:
        return self.read(pem).serial in self.revoked

    def check(self, node: Address, pem: str) -> datetime:
        """Return the end of a certificate, as ``HubNode._check_certificate`` does. Raises Revoked."""
        certificate = self.read(pem)
        if certificate.serial in self.revoked:
            raise Revoked(node=str(node), serial=certificate.serial_text)
        return certificate.not_after

    def directory(self, tables: Tables) -> KnownCertificates:
        """Return the directory of a process of the hub that starts on these tables."""
        return KnownCertificates(stored_certificates(tables), self.check)


def stored_certificates(tables: Tables) -> dict[str, tuple[str, ...]]:
    return {row.node: row.pems for row in tables.rare_rows if isinstance(row, Certificates)}


class SimulatedOwnKeys(OwnKeys):
    """``OwnKeys`` whose certificates ``SimulatedAuthority`` has issued."""

    def _vouched(self, pem: str) -> str:
        others = [key for name, key in self.identity.keys.items() if name not in pem]
        return with_vouchers(pem, str(self.identity.node), sha256(pem.encode()).hexdigest(), others)


class SimulatedCredentials:
    """The slots of an institution: keys and certificates, the active one first. They outlive restores of its store."""

    def __init__(self, authority: SimulatedAuthority, node: Address) -> None:
        self._authority = authority
        self._node = node
        self._drawn = 0
        self._keys: dict[str, PrivateKey] = {}
        self.certificates: tuple[str, ...] = ()
        self.renew(EPOCH)

    def renew(self, now: datetime, *, forgets: bool = False) -> None:
        """Begin to use another key. ``forgets``: the earlier ones are lost."""
        self._drawn += 1
        key = cast(PrivateKey, SimulatedKey(f"{self._node} {self._drawn}"))
        pem = self._authority.issue(self._node, key, now)
        self._keys = {key_id(key.public_key()): key} | ({} if forgets else self._keys)
        self.certificates = (pem, *(() if forgets else self.certificates))[:CERTIFICATES_MAX]
        identity = Identity(self._authority.read(pem), key, self._keys)
        self.own_keys = SimulatedOwnKeys(identity, self.certificates)

    @property
    def is_revoked(self) -> bool:
        """Whether the hub refuses the active certificate."""
        return self._authority.is_revoked(self.certificates[0])

    def trusts(self, key_ids: Iterable[str]) -> bool:
        """Whether the hub passes on the certificates of all these keys."""
        pems = (pem for pem in self.certificates if not self._authority.is_revoked(pem))
        return {self._authority.read(pem).key_id for pem in pems}.issuperset(key_ids)


class SimulatedNodeKeys(NodeKeys):
    """``NodeKeys`` with certificates of ``SimulatedAuthority``."""

    def __init__(self, host: "LocalHost", authority: SimulatedAuthority) -> None:
        trust, own_keys = cast(TrustStore, None), host.credentials.own_keys
        super().__init__(host.address, host.clock, trust, own_keys, refresh=lambda own_keys: host.credentials.own_keys)
        self._authority = authority
        for node, pems in stored_certificates(host.tables).items():
            self.remember(node, pems)

    def _verified(self, node: Address, pem: str) -> NodeCertificate:
        return self._authority.read(pem)


class SimulatedSealing(Sealing):
    """``Sealing`` that cannot open poisoned documents."""

    def open(self, envelope: Envelope, body: Body) -> OpenedPayload:
        check_poison(body)
        return super().open(envelope, body)


class KeyChanges:
    """The faults ``renew``, ``revoke`` and ``enrol``; ``World.keys`` is None without them."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.authority = SimulatedAuthority()

    def sealing(self, host: "LocalHost") -> Sealing:
        """Return the sealing of a process that starts."""
        policy = Policy(patience_s=PATIENCE_INQUIRIES * self._world.plan.settings.inquiry_s)
        keys = SimulatedNodeKeys(host, self.authority)
        return SimulatedSealing(host.address, keys, host.clock, bytes, policy)

    def renew(self, host: "LocalHost") -> None:
        """Renew the key of a node that can reach the hub; both keys are valid."""
        if not host.credentials.is_revoked and (host.session is not None or not self._world.plan.has_hub):
            self._begin_to_use(host, forgets=False)

    def revoke(self, host: "LocalHost", which: str) -> None:
        """Revoke certificates of a node: ``active``, ``older`` or ``all``. It enrols if the active one is revoked."""
        first, *older = host.credentials.certificates
        chosen = {"active": [first], "older": older, "all": [first, *older]}[which]
        self.authority.revoked |= {self.authority.read(pem).serial for pem in chosen}
        for process in self._world.hub_processes():
            notice_s = self._world.chance.choice((0.0, self._world.chance.uniform(0.0, NOTICED_S)))
            self._world.time.after(notice_s, process.apply_revocations)
        self._world.time.after(self._world.chance.choice(ENROLLED_S), self._enrol_revoked, host)

    def _enrol_revoked(self, host: "LocalHost") -> None:
        if host.credentials.is_revoked:
            self._begin_to_use(host, forgets=self._world.chance.random() < 0.5)

    def enrol(self, host: "LocalHost") -> None:
        """Enrol a node that has lost its keys."""
        self._begin_to_use(host, forgets=True)

    def _begin_to_use(self, host: "LocalHost", *, forgets: bool) -> None:
        host.credentials.renew(EPOCH + timedelta(seconds=self._world.time.now), forgets=forgets)
        self._world.trace("new key", host.name, host.credentials.certificates)
        host.restart_links()
        self._world.time.after(self._world.chance.uniform(0.0, MAINTAINED_S), host.introduce)

    def heal(self) -> None:
        """Enrol all nodes that the hub refuses, and set the clocks, without which no certificate is valid."""
        for process in self._world.hub_processes():
            process.apply_revocations()
        for host in self._world.locals:
            host.set_clock(0.0)
            self._enrol_revoked(host)
        self._act_on_parked()

    def _act_on_parked(self) -> None:
        """Let an operator of the hub refuse the copies that nobody can sign again, because their sender has no row: it
        or the receiver was restored. Let it send parked copies of classes 1 and 2 again, which no sender asks about."""
        for process in self._world.hub_processes():
            if process.engine is not None:
                rows = list(process.tables.outbound.values())
                self._world.faults.refuse(process, [row.object_id for row in rows if self._is_unprovable(row.lk0)])
                self._world.faults.resend(process, [row.object_id for row in rows if row.parked and row.sid < 0])
        self._world.time.after(OPERATED_S, self._act_on_parked)

    def _is_unprovable(self, lk0: LK0) -> bool:
        message = self._world.oracle.messages[lk0]
        source = self._world.host(message.source)
        is_forgotten = lk0.object_id not in source.tables.outbound and message.recorded is None
        return is_forgotten and not source.credentials.trusts(message.signers)
