"""The keys of a node, and the trusted certificates of partners: ``engine.sealing.KeyHolder`` on ``semq.pki``.

A certificate of the directory is believed only if a trusted authority has signed it, it names the partner, and it is
among the partner's pins, if there are any (``secrecy.pins``). An expired certificate still verifies signatures of
stored documents; no new document is sealed for its key. A certificate that the directory no longer contains (revoked,
or removed) verifies nothing.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from cryptography import x509
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

CERTIFICATES_MAX = 16  # per node; more than slots and renewals need
CHAIN_SIZE_MAX = 64 * 1024  # characters
SEEN_MAX = 256  # remembered certificates per node
END = "-----END CERTIFICATE-----"
log = structlog.get_logger("semq.keyring")


@dataclass(slots=True)
class Own:
    """This node's identity and certificates, the active one first."""

    identity: Identity
    certificates: tuple[str, ...]
    public: dict[str, PublicKey] = field(default_factory=dict)
    introduced: tuple[str, ...] = ()  #: the certificates, each signed by this node's other keys

    def __post_init__(self) -> None:
        self.public = {name: key.public_key() for name, key in self.identity.keys.items()}
        self.introduced = tuple(map(self._vouched, self.certificates))

    def _vouched(self, pem: str) -> str:
        certificate = read_certificate(split(pem)[0].encode())
        others = [key for name, key in self.identity.keys.items() if name != certificate.key_id]
        return with_vouchers(pem, str(certificate.node), certificate.fingerprint, others)


class NodeKeys:
    """The keys of a process; ``own`` changes with the node's certificate."""

    def __init__(
        self,
        node: Address,
        clock: Clock,
        trust: TrustStore,
        own: Own | None,
        pins: Mapping[str, Collection[str]] | None = None,
        refresh: Callable[[Own | None], Own | None] = lambda own: own,
    ) -> None:
        """``pins``: fingerprints by node id. ``refresh`` returns the present ``Own``, given the previous one."""
        self._node = str(node)
        self._clock = clock
        self._trust = trust
        self._pins = pins or {}
        self._refresh = refresh
        self._partners: dict[str, list[tuple[NodeCertificate, str]]] = {}
        self._certified: set[str] = set()  #: nodes with a certificate that was ever believed
        self._seen: dict[str, set[str]] = {}  #: fingerprints by node, including those no longer believed
        self._news: list[CertificateNews] = []
        self.mine = own

    @property
    def signing(self) -> PrivateKey | None:
        """Return the key of the active certificate."""
        return None if self.mine is None else self.mine.identity.key

    def own(self, key_id: str) -> PrivateKey | None:
        """Return the key of a slot by its id."""
        return None if self.mine is None else self.mine.identity.keys.get(key_id)

    def receiver(self, node: str) -> PublicKey | None:
        """Return the key of the first currently valid certificate of a node."""
        if node == self._node:
            return None if self.mine is None else self.mine.identity.certificate.public_key
        now = self._clock.wall()
        for certificate, _ in self._partners.get(node, ()):
            if certificate.not_before <= now <= certificate.not_after:
                return certificate.public_key
        return None

    def signer(self, node: str, key_id: str) -> PublicKey:
        """Return a node's key by its id. Raises SignerUnknown."""
        if node == self._node:
            key = self.mine.public.get(key_id) if self.mine is not None else None
        else:
            key = next((c.public_key for c, _ in self._partners.get(node, ()) if c.key_id == key_id), None)
        if key is None:
            raise SignerUnknown(node=node, key_id=key_id[:64])
        return key

    def certificate(self, node: str, key_id: str) -> str | None:
        """Return a partner's certificate with its chain, as PEM, by key id; for a proof."""
        return next((pem for c, pem in self._partners.get(node, ()) if c.key_id == key_id), None)

    def known(self, node: str) -> tuple[str, ...]:
        """Return the trusted certificates of a node as PEM, to store for the next start."""
        return tuple(pem for _, pem in self._partners.get(node, ()))

    def knows(self, node: str) -> bool:
        """Return whether a certificate of a node was ever trusted.

        Otherwise a directory that reports the loss of a certificate could make the node accept unsigned statements
        again, as before its first certificate.
        """
        return node in self._certified

    def remember(self, node: str, certificates: Sequence[str]) -> None:
        """Take over the stored certificates of a node; a node without certificates has none."""
        self.learn(node, certificates)
        self._news.clear()
        self._certified.add(node)

    def introduction(self) -> tuple[str, ...]:
        """Return this node's certificates, the active one first."""
        self.mine = self._refresh(self.mine)
        return () if self.mine is None else self.mine.introduced

    def learn(self, node: str, certificates: Sequence[str]) -> bool:
        """Accept valid certificates; return whether the key to wrap for has changed."""
        before, now = self.receiver(node), self._clock.wall()
        known = {found.key_id: found.public_key for found, _ in self._partners.get(node, ())}
        there_before = {pem: found for found, pem in self._partners.get(node, ())}
        believed = []
        for pem in certificates[:CERTIFICATES_MAX]:
            try:
                found = self._believed(parse_address(node), pem)
                believed.append((there_before.get(pem, found), pem))  # the same key: its sessions continue
            except SemqError as error:
                log.warning("certificate_not_believed", node=node, error=str(error))
        # An expired certificate is no longer listed; it still verifies signatures made while it was valid.
        there = {one.fingerprint for one, _ in believed}
        over = [pair for pair in self._partners.get(node, ()) if pair[0].not_after < now]
        believed += [pair for pair in over if pair[0].fingerprint not in there][:CERTIFICATES_MAX]
        if believed:
            self._log_keys(node, believed, known)
            self._partners[node] = believed
            self._certified.add(node)
        else:
            self._partners.pop(node, None)
        after = self.receiver(node)
        return after is not None and (before is None or key_id(before) != key_id(after))

    def successors(self, node: str, certificates: Sequence[str]) -> tuple[str, ...]:
        """Return the valid certificates that were issued after all known ones of a node, and that one of its known keys
        has signed. An older one may have been revoked, so its signature by a newer key proves nothing.
        """
        known = self._partners.get(node, ())
        keys = {found.key_id: found.public_key for found, _ in known}
        found = []
        for pem in certificates[:CERTIFICATES_MAX] if known else ():
            try:
                one = self._believed(parse_address(node), pem)
            except SemqError as error:
                log.warning("certificate_not_believed", node=node, error=str(error))
                continue
            is_later = one.not_before > max(each.not_before for each, _ in known)
            if is_later and (one.key_id in keys or is_vouched(pem, node, one.fingerprint, keys)):
                found.append(pem)
        return tuple(found)

    def _log_keys(
        self, node: str, believed: Sequence[tuple[NodeCertificate, str]], known: Mapping[str, PublicKey]
    ) -> None:
        """Note new certificates, and which of them an older key has signed."""
        seen = self._seen.setdefault(node, set())
        for found, pem in believed:
            if found.fingerprint in seen:
                continue
            is_same_key = found.key_id in known
            good = is_same_key or is_vouched(pem, node, found.fingerprint, known)
            news = CertificateNews(node, found.fingerprint, found.key_id, node not in self._certified, good)
            self._news.append(news)
            if len(seen) < SEEN_MAX:
                seen.add(found.fingerprint)

    def news(self) -> list[CertificateNews]:
        """Return new certificates of partners, each once."""
        news, self._news = self._news, []
        for one in news:
            good = one.is_first or one.is_vouched
            say = log.info if good else log.warning
            say("certificate_known" if good else "certificate_unvouched", **asdict(one))
        return news

    def check_all(self) -> None:
        """Check all known certificates, expired ones included, against the present authorities."""
        for node, pairs in list(self._partners.items()):
            self._partners[node] = []
            self.learn(node, [pem for _, pem in pairs])

    def _believed(self, node: Address, pem: str) -> NodeCertificate:
        first, chain = split(pem)
        found = read_certificate(first.encode())
        pins = self._pins.get(node.id)
        if pins and found.fingerprint not in pins:
            raise SignerUnknown("The certificate is not one of those that are pinned.", node=str(node))
        now = self._clock.wall()
        at = now if now <= found.not_after else found.not_after - timedelta(seconds=1)
        return self._trust.verify(found, at, node=node, chain=chain)


def split(pem: str) -> tuple[str, list[x509.Certificate]]:
    """Return the first certificate of a PEM text, and the rest, its chain. Raises Untrusted."""
    pem = without_vouchers(pem)
    first, mark, rest = pem.partition(END)
    if END not in rest:
        return first + mark, []
    if len(rest) > CHAIN_SIZE_MAX:
        raise Untrusted("The chain is too long.", size=len(rest))
    try:
        return first + mark, x509.load_pem_x509_certificates(rest.encode())
    except Exception as error:  # hostile DER raises exceptions that the library does not document
        raise Untrusted("The chain is not one of certificates.", fault=type(error).__name__) from error
