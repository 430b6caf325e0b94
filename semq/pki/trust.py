"""The authorities that a node trusts, and the verification of certificates against them.

TLS verifies the certificates of links (``tls``); this module verifies certificates that arrive in other ways.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.verification import (
    Criticality,
    ExtensionPolicy,
    PolicyBuilder,
    Store,
    VerificationError,
)

from semq.foreign_text import shortened
from semq.moments import utc_text
from semq.pki.certificate import NodeCertificate, read_certificate
from semq.pki.errors import OutOfDate, TrustUnreadable, Untrusted, WrongAuthority, WrongName
from semq.umx_t.address import Address

CHAIN_MAX = 3  # intermediate certificates between a node's certificate and a trusted authority


class TrustStore:
    """A set of trusted authorities, at least one: without any, construction raises TrustUnreadable."""

    def __init__(self, authorities: Sequence[x509.Certificate]) -> None:
        if not authorities:
            raise TrustUnreadable("There is no trusted authority.")
        self.authorities = list(authorities)
        self._store = Store(self.authorities)

    @classmethod
    def read(cls, path: Path) -> "TrustStore":
        """Read the authorities from a PEM file. Raises TrustUnreadable."""
        try:
            return cls.from_pem(path.read_bytes())
        except OSError as error:
            raise TrustUnreadable(file=str(path), fault=error.strerror) from error

    @classmethod
    def from_pem(cls, data: bytes) -> "TrustStore":
        """Read the authorities from PEM text. Raises TrustUnreadable."""
        try:
            return cls(x509.load_pem_x509_certificates(data))
        except ValueError as error:
            raise TrustUnreadable(
                "The authorities are not PEM certificates.", fault=shortened(str(error), 200)
            ) from error

    def change(self, authorities: Sequence[x509.Certificate]) -> None:
        """Replace the authorities, for all holders of this object. Raises TrustUnreadable."""
        changed = TrustStore(authorities)
        self.authorities, self._store = changed.authorities, changed._store

    def check_authorities(self, now: datetime) -> None:
        """Check that all authorities may sign and are valid. Raises TrustUnreadable."""
        for authority in self.authorities:
            try:
                constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
                is_valid_now = authority.not_valid_before_utc <= now <= authority.not_valid_after_utc
            except Exception as error:  # hostile DER raises exceptions that the library does not document
                raise TrustUnreadable("A certificate cannot be read.", fault=type(error).__name__) from error
            if not (constraints.ca and is_valid_now):
                raise TrustUnreadable("A certificate does not belong to an authority, or is not valid now.")

    @property
    def pem(self) -> bytes:
        """All authorities in PEM."""
        return b"".join(authority.public_bytes(serialization.Encoding.PEM) for authority in self.authorities)

    @property
    def fingerprints(self) -> list[str]:
        """SHA-256 of each authority's certificate, hexadecimal."""
        return [fingerprint_of(authority) for authority in self.authorities]

    def verify(
        self,
        certificate: bytes | NodeCertificate,
        now: datetime,
        *,
        node: Address | None = None,
        chain: Sequence[x509.Certificate] = (),
    ) -> NodeCertificate:
        """Return the certificate if it is valid at ``now``, a chain of valid certificates leads from it to a trusted
        authority, and it names ``node`` (if given). ``chain``: intermediate certificates.

        Raises OutOfDate, WrongName, WrongAuthority, Untrusted. Revocation is not checked here.
        """
        candidate = certificate if isinstance(certificate, NodeCertificate) else read_certificate(certificate)
        if now < candidate.not_before:
            raise OutOfDate(
                "The certificate is not yet valid.", node=str(candidate.node), valid_from=utc_text(candidate.not_before)
            )
        if now > candidate.not_after:
            raise OutOfDate(
                "The certificate has expired.", node=str(candidate.node), valid_until=utc_text(candidate.not_after)
            )
        if node is not None and candidate.node != node.node:
            raise WrongName("The certificate names another node.", expected=str(node.node), found=str(candidate.node))
        verifier = (
            PolicyBuilder()
            .store(self._store)
            .time(now)
            .max_chain_depth(CHAIN_MAX)
            .extension_policies(ca_policy=ExtensionPolicy.webpki_defaults_ca(), ee_policy=_LEAF)
            .build_client_verifier()
        )
        try:
            verifier.verify(candidate.x509, list(chain))
        except VerificationError as error:
            raise WrongAuthority(node=str(candidate.node), fault=shortened(str(error), 300)) from error
        except Exception as error:  # a hostile chain raises exceptions that the library does not document
            raise Untrusted("The certificate chain cannot be read.", fault=type(error).__name__) from error
        return candidate


# Certificates of nodes have a URI and need no host name; the other rules are those of the public web.
_LEAF = ExtensionPolicy.webpki_defaults_ee().require_present(x509.SubjectAlternativeName, Criticality.AGNOSTIC, None)


def fingerprint_of(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of a certificate, hexadecimal."""
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


def plain_fingerprint(text: str) -> str:
    """Return a fingerprint in lower case, without colons, spaces and the prefix ``sha256``. Its content is not
    checked.
    """
    return text.strip().lower().removeprefix("sha256:").removeprefix("sha256=").replace(":", "").replace(" ", "")
