"""The identity of a running node: key ring, trusted authorities, TLS contexts, lifetimes.

A node that uses TLS has an identity. Without TLS, an enrolled local node has one, for seals and signatures.
"""

import ssl
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import structlog
from cryptography import x509
from msgspec.structs import asdict

from semq.answers import OperationAnswer
from semq.answers.status import CertificateStatus
from semq.clock import Clock
from semq.config.settings import Settings
from semq.errors import SemqError
from semq.moments import utc_text
from semq.pki.certificate import NodeCertificate, read_certificate
from semq.pki.errors import TrustNeeded, Untrusted, WrongName
from semq.pki.keys import SecretSource
from semq.pki.slots import Identity, KeyRing
from semq.pki.tls import client_context, load_active, server_context
from semq.pki.trust import TrustStore
from semq.store.files import write_safely
from semq.transport.peer import PeerInfo
from semq.transport.tls_files import FileState, state_of
from semq.umx_t.address import Address, NodeType

log = structlog.get_logger("semq.identity")
WARN_EVERY = timedelta(hours=12)


def ring_of(settings: Settings) -> KeyRing:
    """Return the key ring of a configuration."""
    tls = settings.tls
    passphrase = SecretSource(tls.passphrase_file, tls.passphrase_credential, tls.passphrase_variable)
    return KeyRing(settings.pki_dir, settings.address, passphrase)


def trust_of(settings: Settings, ring: KeyRing) -> TrustStore:
    """Return the trusted authorities of a configuration. Raises TrustUnreadable."""
    return TrustStore.read(settings.tls.trust or ring.trust_path)


class KeySlot(OperationAnswer, frozen=True, kw_only=True):
    """A key of a node, with its certificate if there is one."""

    slot: str  #: active, next, previous, retired
    key_id: str
    serial: str | None
    not_after: str | None
    days_left: float | None


class NodeIdentity:
    """The identity of a running node. Raises NoIdentity, KeyRefused, TrustUnreadable, Untrusted (WrongName)."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.ring = ring_of(settings)
        # First, because only its error says that the node is not enrolled; the authorities are missing then, too.
        self.current: Identity = self.ring.identity()
        self.trust = trust_of(settings, self.ring)
        self._settings = settings
        self._clock = clock
        self._jitter = clock.random()
        self._contexts: list[ssl.SSLContext] = []  #: for ``rotate``
        self._states = self._present_states()
        self.fault = ""  #: why replaced files are not used
        self._warned_at: datetime | None = None
        encrypted_keys = self.ring.encrypt_clear_keys()
        if encrypted_keys:
            log.info("keys_encrypted", count=encrypted_keys)

    # --- contexts
    def server_tls(self) -> ssl.SSLContext:
        """Return the TLS context of this node's port."""
        return self._registered(server_context(self.trust, self.ring, self._settings.tls.minimum))

    def client_tls(self) -> ssl.SSLContext:
        """Return the TLS context for dialled links."""
        return self._registered(client_context(self.trust, self.ring, self._settings.tls.minimum))

    def _registered(self, context: ssl.SSLContext) -> ssl.SSLContext:
        self._contexts.append(context)
        return context

    def rotate(self) -> NodeCertificate:
        """Activate the certificate in the slot ``next``; new connections use it."""
        active = self.ring.rotate(self._clock.wall())
        self.current = self.ring.identity()
        for context in self._contexts:
            load_active(context, self.ring)
        self._jitter, self._warned_at = self._clock.random(), None
        until = utc_text(active.not_after)
        log.info("certificate_active", serial=active.serial_text, key_id=active.key_id, until=until)
        return active

    def is_outdated(self) -> bool:
        """Whether certificate or authorities were replaced on disk, and are not loaded here."""
        if self.ring.slots().active not in (None, self.certificate.key_id):
            return True
        states = self._present_states()
        if states == self._states:
            return False
        try:
            certificate, trust = self.ring.identity().certificate, trust_of(self._settings, self.ring)
        except SemqError:
            return True  # `adopt` raises the error
        is_same = certificate.fingerprint == self.certificate.fingerprint
        if is_same and trust.fingerprints == self.trust.fingerprints:
            self._states, self.fault = states, ""
            return False
        return True

    def _present_states(self) -> tuple[FileState, ...]:
        trust = self._settings.tls.trust or self.ring.trust_path
        return tuple(map(state_of, (trust, self.ring.certificate_path(self.certificate.key_id))))

    def adopt(self) -> None:
        """Load certificate, keys and authorities again from their files; the caller must create new contexts.

        Raises the errors of the constructor. After an error nothing has changed, until the files change again.
        """
        self._states = self._present_states()
        try:
            current, trust = self.ring.identity(), trust_of(self._settings, self.ring)
            trust.verify(current.certificate, self._clock.wall(), chain=self.ring.chain(current.certificate.key_id))
        except SemqError as error:
            self.fault = str(error)
            raise
        self.fault = ""
        self.trust.change(trust.authorities)
        self.current = current
        self._contexts.clear()
        self._jitter, self._warned_at = self._clock.random(), None
        log.warning("certificate_adopted", **asdict(self.status()))

    def replace_authorities(self, authorities: Sequence[x509.Certificate]) -> None:
        """Trust these authorities only; the caller must create new contexts. Raises TrustNeeded, TrustUnreadable."""
        trust = TrustStore(authorities)
        chain = self.ring.chain(self.certificate.key_id)
        try:
            trust.verify(self.certificate, self._clock.wall(), chain=chain)
        except Untrusted as error:
            raise TrustNeeded(
                "The certificate of this node comes from an authority that would no longer be trusted.",
                node=str(self.ring.node),
            ) from error
        # The file first: a crash leaves either the old or the new authorities.
        write_safely(self._settings.tls.trust or self.ring.trust_path, trust.pem)
        self.trust.change(trust.authorities)
        self._contexts.clear()
        log.warning("authorities_changed", fingerprints=trust.fingerprints)

    def now(self) -> datetime:
        return self._clock.wall()

    # --- time
    @property
    def certificate(self) -> NodeCertificate:
        return self.current.certificate

    @property
    def renew_at(self) -> datetime:
        """The time of renewal: after two thirds of the lifetime, with jitter."""
        return self.certificate.renew_at(self._jitter)

    def is_renewal_due(self) -> bool:
        return self._clock.wall() >= self.renew_at

    @property
    def state(self) -> str:
        """ok, renew (renewal is due), ending (due, and at most ``tls.warn_days`` remain), or expired."""
        lifetime = self.certificate.not_after - self._clock.wall()
        if lifetime <= timedelta(0):
            return "expired"
        if lifetime <= timedelta(days=self._settings.tls.warn_days) and self.is_renewal_due():
            return "ending"
        return "renew" if self.is_renewal_due() else "ok"

    def maintain(self) -> None:
        """Warn if the certificate is ending or expired; delete retired keys (``KeyRing.delete_retired``)."""
        now, state = self._clock.wall(), self.state
        if state in ("ending", "expired") and (self._warned_at is None or now - self._warned_at > WARN_EVERY):
            self._warned_at = now
            log.warning("certificate_ends", **asdict(self.status()))
        for key_id in self.ring.delete_retired(now, self._settings.tls.keep_keys_days):
            log.info("key_forgotten", key_id=key_id)

    def slots(self) -> list[KeySlot]:
        return slots_of(self.ring, self._clock.wall())

    def status(self) -> CertificateStatus:
        certificate = self.certificate
        return CertificateStatus(
            node=str(certificate.node),
            state=self.state,
            serial=certificate.serial_text,
            fingerprint=certificate.fingerprint,
            key_id=certificate.key_id,
            not_after=utc_text(certificate.not_after),
            days_left=days_left(certificate.not_after, self._clock.wall()),
            renew_at=utc_text(self.renew_at),
            fault=self.fault,
        )


def days_left(end: datetime, now: datetime) -> float:
    """Return the remaining days; negative after the end."""
    return round((end - now) / timedelta(days=1), 2)


def slots_of(ring: KeyRing, now: datetime) -> list[KeySlot]:
    """Return the facts about every slot of a key ring, for display."""
    slots = []
    for slot, key_id in ring.slots().all():
        certificate = ring.certificate(key_id)
        slots.append(
            KeySlot(
                slot=slot,
                key_id=key_id,
                serial=certificate.serial_text if certificate else None,
                not_after=utc_text(certificate.not_after) if certificate else None,
                days_left=days_left(certificate.not_after, now) if certificate else None,
            )
        )
    return slots


def certificate_of(peer: PeerInfo) -> NodeCertificate:
    """Return the certificate that TLS has verified for a peer. Raises Untrusted (none presented), WrongName."""
    if peer.certificate is None:
        raise Untrusted("The peer has presented no certificate.", peer=str(peer))
    return read_certificate(peer.certificate)


def must_be(node: Address) -> Callable[[PeerInfo], None]:
    """Return a check that raises WrongName for a peer with the certificate of another node."""

    def check(peer: PeerInfo) -> None:
        peer_node = certificate_of(peer).node
        if peer_node != node:
            raise WrongName("Another node answers at this address.", found=str(peer_node), expected=str(node))

    return check


def must_be_hub(peer: PeerInfo) -> None:
    """Raise WrongName for a peer with the certificate of an institution: the hub's authority signs those, too."""
    node = certificate_of(peer).node
    if node.type != NodeType.PLATFORM:
        raise WrongName("The peer is not a hub.", found=str(node), peer=str(peer))
