"""Signatures of extracts and repair lists, with the keys and certificates of nodes.

A signature contains its certificate, so a check needs only the authorities (``[reconcile] trust``). Revocation is not
checked.
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

LABEL = b"semq reconciliation 1\n"  # makes signatures of extracts invalid for other purposes
ALGORITHM = "semq-1"


def signer_of_node(node: NodeSettings) -> Sign | None:
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


def signer_of_config(config: Path | None, institution: str | None = None) -> Sign | None:
    """Return the signing function of the node that a configuration file describes.

    None without a file, if the file describes no node, or if the node is not enrolled.
    """
    node = _node_of(config, institution)
    return signer_of_node(node) if node is not None else None


def _node_of(config: Path | None, institution: str | None) -> NodeSettings | None:
    if config is None or (institution is None and "node" not in tomllib.loads(config.read_text("utf-8"))):
        return None
    return node_settings(config, institution)


def authorities_file(trust: str, config: Path | None, institution: str | None = None) -> Path | None:
    """Return the file of authorities for checks of signatures; None if there is none.

    ``[reconcile] trust`` has priority over the trusted authorities of the configured node, if that node is enrolled.
    """
    if trust:
        return Path(trust)
    node = _node_of(config, institution)
    if node is None:
        return None
    ring = ring_of(node)
    return node.tls.trust or ring.trust_path if ring.is_enrolled else None


def verifier(trust: Path, clock: Clock) -> Verify:
    """Return the function that checks signatures of nodes, by the authorities of a PEM file. Raises TrustUnreadable.

    For the node HUB, any node of the hub may have signed. If ``since`` is None, the certificate must be valid now. Else
    ``since`` is the earliest time of signing, and the certificate must have been valid at some time since then.
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
    """Return the moment at which a certificate must be valid.

    It is the present moment if ``since`` is None or the certificate has not expired; else the end of the certificate,
    or ``since`` if that is later.
    """
    if since is None or certificate.not_after >= now:
        return now
    return min(now, max(certificate.not_after, datetime.fromtimestamp(since / 1000, UTC)))
