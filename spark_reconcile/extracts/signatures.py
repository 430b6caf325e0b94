"""Signatures of extracts and repair lists, with the keys and certificates of nodes.

A signature contains its certificate, so a check needs only the authorities (``[reconcile] trust``). Revocation is not
checked here.
"""

import tomllib
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from pathlib import Path

from semq.clock import Clock
from semq.config import Settings as NodeSettings
from semq.errors import SemqError
from semq.pki.certificate import NodeCertificate, read_certificate
from semq.pki.trust import TrustStore
from semq.seal import keys
from semq.service.credentials.identity import ring_of
from semq.umx_t.address import NodeType
from spark_reconcile.extracts.manifest import Sign, Signature, Verify
from spark_reconcile.node import node_settings
from spark_reconcile.repair.repair_list import HUB

LABEL = b"semq reconciliation 1\n"  # so that a signature made here is not valid for any other purpose
ALGORITHM = "semq-1"


def signer(node: NodeSettings) -> Sign | None:
    """Return the signing function of a node; None if it is not enrolled. Raises NoIdentity, KeyRefused, WrongName."""
    ring = ring_of(node)
    if not ring.is_enrolled:
        return None
    identity = ring.identity()
    certificate = b64encode(identity.certificate.der).decode()

    def sign(content: bytes) -> Signature:
        value = b64encode(keys.sign(identity.key, LABEL + content)).decode()
        return Signature(identity.certificate.key_id, ALGORITHM, value, certificate)

    return sign


def signer_of(config: Path | None) -> Sign | None:
    """Return the function that signs for the node of a configuration file; None if it describes no node."""
    if config is None or "node" not in tomllib.loads(config.read_text("utf-8")):
        return None
    return signer(node_settings(config))


def authorities(stated: str, config: Path | None) -> Path | None:
    """Return the file of authorities for checks of signatures: the stated one, else that of an enrolled node."""
    if stated:
        return Path(stated)
    if config is None or "node" not in tomllib.loads(config.read_text("utf-8")):
        return None
    node = node_settings(config)
    ring = ring_of(node)
    return node.tls.trust or ring.trust_path if ring.is_enrolled else None


def verifier(trust: Path, clock: Clock) -> Verify:
    """Return the function that checks signatures of nodes, by the authorities of a PEM file. Raises TrustUnreadable.

    Its certificate must be in force now, or have ended only after the signature could be made: extracts stay valid as
    long as their authority is trusted, repair lists only while the hub's certificate is valid.
    """
    store = TrustStore.read(trust)

    def verify(node: str, content: bytes, signature: Signature, since: int | None) -> bool:
        try:
            certificate = read_certificate(b64decode(signature.certificate, validate=True))
            store.verify(certificate, _moment(certificate, since, clock.wall()))
            keys.verify(certificate.public_key, b64decode(signature.value, validate=True), LABEL + content)
        except (SemqError, ValueError):
            return False
        is_hub = certificate.node.type == NodeType.PLATFORM
        return is_hub if node == HUB else str(certificate.node) == node

    return verify


def _moment(certificate: NodeCertificate, since: int | None, now: datetime) -> datetime:
    """Return the moment at which a certificate must be valid: now or its end, but not before the extract was made."""
    if since is None or certificate.not_after >= now:
        return now
    return min(now, max(certificate.not_after, datetime.fromtimestamp(since / 1000, UTC)))
