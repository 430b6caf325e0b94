"""Keys and certificates: implements ``KeyHolder`` of ``semq.engine.secrecy.sealing``.

A certificate from the hub's directory is trusted if a trusted authority has signed it, it names the partner, and the
partner's pins (``secrecy.pins``) do not exclude it. A certificate that has expired or is not yet valid verifies
signatures, too, but nothing is sealed for it. One that was revoked or removed from the directory verifies nothing.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

import structlog
from cryptography import x509
from msgspec import Struct, field
from msgspec.structs import asdict

from semq.clock import Clock
from semq.engine.ports import CertificateNews
from semq.errors import SemqError
from semq.pki import Identity, NodeCertificate, TrustStore, read_certificate
from semq.pki.errors import Untrusted
from semq.seal.errors import SignerUnknown
from semq.seal.keys import PrivateKey, PublicKey, key_id
from semq.seal.voucher import is_vouched, with_vouchers, without_vouchers
from semq.umx_t.address import Address, parse_address

CERTIFICATES_MAX = 16  # of one node
CHAIN_SIZE_MAX = 64 * 1024  # characters
SEEN_MAX = 256  # fingerprints per node
END = "-----END CERTIFICATE-----"
log = structlog.get_logger("semq.keyring")


class OwnKeys(Struct):
    """This node's identity, and the certificates in PEM, the active one first."""

    identity: Identity
    certificates: tuple[str, ...]
    public: dict[str, PublicKey] = field(default_factory=dict)  #: by key id
    introduced: tuple[str, ...] = ()  #: the certificates, each signed with the other keys of this node

    def __post_init__(self) -> None:
        self.public = {key_id: key.public_key() for key_id, key in self.identity.keys.items()}
        self.introduced = tuple(map(self._vouched, self.certificates))

    def _vouched(self, pem: str) -> str:
        certificate = read_certificate(split(pem)[0].encode())
        others = [key for key_id, key in self.identity.keys.items() if key_id != certificate.key_id]
        return with_vouchers(pem, str(certificate.node), certificate.fingerprint, others)


class TrustedCertificate(NamedTuple):
    """A certificate of a partner, and its PEM text with the chain."""

    certificate: NodeCertificate
    pem: str


class NodeKeys:
    """The keys of a running node, and the certificates of its partners."""

    def __init__(
        self,
        node: Address,
        clock: Clock,
        trust: TrustStore,
        own_keys: OwnKeys | None,
        pins: Mapping[str, Collection[str]] | None = None,
        refresh: Callable[[OwnKeys | None], OwnKeys | None] = lambda own_keys: own_keys,
    ) -> None:
        """``own_keys``: None for a node without a certificate. ``pins``: fingerprints by node id. ``refresh`` returns
        the present ``OwnKeys``.
        """
        self._node = str(node)
        self._clock = clock
        self._trust = trust
        self._pins = pins or {}
        self._refresh = refresh
        self._partners: dict[str, list[TrustedCertificate]] = {}
        self._certified: set[str] = set()  #: nodes that ever had a trusted certificate
        self._seen: dict[str, set[str]] = {}  #: fingerprints by node, also of certificates no longer trusted
        self._news: list[CertificateNews] = []
        self.own_keys = own_keys

    @property
    def signing(self) -> PrivateKey | None:
        """The key of the active certificate; None if there is none."""
        return None if self.own_keys is None else self.own_keys.identity.key

    def own(self, key_id: str) -> PrivateKey | None:
        """Return the key with this id in any slot; None if there is none."""
        return None if self.own_keys is None else self.own_keys.identity.keys.get(key_id)

    def receiver(self, node: str) -> PublicKey | None:
        """Return the key of the first valid certificate of a node; None if there is none."""
        if node == self._node:
            return None if self.own_keys is None else self.own_keys.identity.certificate.public_key
        now = self._clock.wall()
        for certificate, _ in self._partners.get(node, ()):
            if certificate.not_before <= now <= certificate.not_after:
                return certificate.public_key
        return None

    def signer(self, node: str, key_id: str) -> PublicKey:
        """Return a node's key by its id. Raises SignerUnknown."""
        if node == self._node:
            key = self.own_keys.public.get(key_id) if self.own_keys is not None else None
        else:
            trusted = self._partners.get(node, ())
            key = next((certificate.public_key for certificate, _ in trusted if certificate.key_id == key_id), None)
        if key is None:
            raise SignerUnknown(node=node, key_id=key_id[:64])
        return key

    def certificate(self, node: str, key_id: str) -> str | None:
        """Return a trusted certificate of a partner in PEM, with the chain; None if there is none with this key id."""
        trusted = self._partners.get(node, ())
        return next((pem for certificate, pem in trusted if certificate.key_id == key_id), None)

    def known(self, node: str) -> tuple[str, ...]:
        """Return the trusted certificates of a node in PEM."""
        return tuple(pem for _, pem in self._partners.get(node, ()))

    def knows(self, node: str) -> bool:
        """Return whether a certificate of a node was ever trusted."""
        # Past certificates count: else the directory could remove them to make this node accept unsigned statements.
        return node in self._certified

    def remember(self, node: str, certificates: Sequence[str]) -> None:
        """Learn the stored certificates of a node; ``news`` does not report them."""
        self.learn(node, certificates)
        self._news.clear()
        self._certified.add(node)

    def introduction(self) -> tuple[str, ...]:
        """Return the present ``OwnKeys.introduced``, the active certificate first."""
        self.own_keys = self._refresh(self.own_keys)
        return () if self.own_keys is None else self.own_keys.introduced

    def learn(self, node: str, certificates: Sequence[str]) -> bool:
        """Replace the trusted certificates of a node by the trustworthy ones of these. Expired certificates stay.

        Return whether session keys for the node must be wrapped for another key.
        """
        key_before, now = self.receiver(node), self._clock.wall()
        trusted_before = self._partners.get(node, [])
        by_pem = {pem: certificate for certificate, pem in trusted_before}
        trusted = []
        for pem in certificates[:CERTIFICATES_MAX]:
            try:
                certificate = self._verified(parse_address(node), pem)
                # Keep the object of a known certificate, so that the sessions of its key continue.
                trusted.append(TrustedCertificate(by_pem.get(pem, certificate), pem))
            except SemqError as error:
                log.warning("certificate_not_believed", node=node, error=str(error))
        # The directory does not list expired certificates.
        fingerprints = {certificate.fingerprint for certificate, _ in trusted}
        expired = [entry for entry in trusted_before if entry.certificate.not_after < now]
        trusted += [entry for entry in expired if entry.certificate.fingerprint not in fingerprints][:CERTIFICATES_MAX]
        if trusted:
            keys_before = {certificate.key_id: certificate.public_key for certificate, _ in trusted_before}
            self._note_new(node, trusted, keys_before)
            self._partners[node] = trusted
            self._certified.add(node)
        else:
            self._partners.pop(node, None)
        key_after = self.receiver(node)
        return key_after is not None and (key_before is None or key_id(key_before) != key_id(key_after))

    def successors(self, node: str, certificates: Sequence[str]) -> tuple[str, ...]:
        """Return the valid certificates issued after all known ones of a node, if a known key proves them.

        A known key proves certificates for itself and those that it has signed.
        """
        # A certificate issued before a known one may have been revoked, also if a fast clock has dated the known one.
        trusted = self._partners.get(node, ())
        if not trusted:
            return ()
        keys = {certificate.key_id: certificate.public_key for certificate, _ in trusted}
        newest = max(certificate.not_before for certificate, _ in trusted)
        successors = []
        for pem in certificates[:CERTIFICATES_MAX]:
            try:
                certificate = self._verified(parse_address(node), pem)
            except SemqError as error:
                log.warning("certificate_not_believed", node=node, error=str(error))
                continue
            is_signed = certificate.key_id in keys or is_vouched(pem, node, certificate.fingerprint, keys)
            if certificate.not_before > newest and is_signed:
                successors.append(pem)
        return tuple(successors)

    def _note_new(self, node: str, trusted: Sequence[TrustedCertificate], keys_before: Mapping[str, PublicKey]) -> None:
        seen = self._seen.setdefault(node, set())
        for certificate, pem in trusted:
            fingerprint = certificate.fingerprint
            if fingerprint in seen:
                continue
            is_signed = certificate.key_id in keys_before or is_vouched(pem, node, fingerprint, keys_before)
            is_first = node not in self._certified
            self._news.append(CertificateNews(node, fingerprint, certificate.key_id, is_first, is_signed))
            if len(seen) < SEEN_MAX:
                seen.add(fingerprint)

    def news(self) -> list[CertificateNews]:
        """Return and log the partners' certificates that are new since the last call."""
        news, self._news = self._news, []
        for certificate in news:
            if certificate.is_first or certificate.is_vouched:
                log.info("certificate_known", **asdict(certificate))
            else:
                log.warning("certificate_unvouched", **asdict(certificate))
        return news

    def check_all(self) -> None:
        """Check all certificates again, after a change of the authorities."""
        for node, trusted in list(self._partners.items()):
            self._partners[node] = []
            self.learn(node, [pem for _, pem in trusted])

    def _verified(self, node: Address, pem: str) -> NodeCertificate:
        first, chain = split(pem)
        certificate = read_certificate(first.encode())
        pins = self._pins.get(node.id)
        if pins and certificate.fingerprint not in pins:
            raise SignerUnknown("The certificate is not among the pinned ones.", node=str(node))
        # A certificate that is not yet valid is kept: this node's clock may be slow, and nobody sends it again.
        at = max(self._clock.wall(), certificate.not_before)
        at = min(at, certificate.not_after - timedelta(seconds=1))
        return self._trust.verify(certificate, at, node=node, chain=chain)


def split(pem: str) -> tuple[str, list[x509.Certificate]]:
    """Return the first certificate of a PEM text, as PEM, and the chain. Raises Untrusted."""
    first, mark, chain = without_vouchers(pem).partition(END)
    if END not in chain:
        return first + mark, []
    if len(chain) > CHAIN_SIZE_MAX:
        raise Untrusted("The chain is too long.", size=len(chain))
    try:
        return first + mark, x509.load_pem_x509_certificates(chain.encode())
    except Exception as error:  # hostile DER raises undocumented exceptions
        raise Untrusted("The chain does not consist of certificates.", fault=type(error).__name__) from error
