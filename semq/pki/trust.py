"""Which authorities a node believes, and whether they stand behind a certificate.

TLS does this for the links (``tls``); here the same question is answered for certificates that come another way: from
the hub's directory, in a receipt, in a slot. Chains are built and checked by ``cryptography.x509.verification``.
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

from semq.pki.certificate import NodeCertificate, read_certificate
from semq.pki.errors import OutOfDate, TrustUnreadable, Untrusted, WrongAuthority, WrongName
from semq.umx_t.address import Address

CHAIN_MAX = 3  # intermediates between a node and an authority that we trust


class TrustStore:
    """A set of authorities."""

    def __init__(self, authorities: Sequence[x509.Certificate]) -> None:
        if not authorities:
            raise TrustUnreadable("There is no authority to trust.")
        self.authorities = list(authorities)
        self._store = Store(self.authorities)

    @classmethod
    def read(cls, path: Path) -> "TrustStore":
        """From a PEM file. Raises TrustUnreadable."""
        try:
            return cls.from_pem(path.read_bytes())
        except OSError as error:
            raise TrustUnreadable(file=str(path), fault=error.strerror) from error

    @classmethod
    def from_pem(cls, octets: bytes) -> "TrustStore":
        """From PEM text. Raises TrustUnreadable."""
        try:
            return cls(x509.load_pem_x509_certificates(octets))
        except ValueError as error:
            raise TrustUnreadable("The authorities are not PEM certificates.", fault=str(error)[:200]) from error

    def change(self, authorities: Sequence[x509.Certificate]) -> None:
        """Believe these from now on: whoever holds this set does. Raises TrustUnreadable."""
        changed = TrustStore(authorities)
        self.authorities, self._store = changed.authorities, changed._store

    def check_authorities(self, now: datetime) -> None:
        """Whether all of them may sign, and are valid. Raises TrustUnreadable."""
        for one in self.authorities:
            try:
                constraints = one.extensions.get_extension_for_class(x509.BasicConstraints).value
                is_good = constraints.ca and one.not_valid_before_utc <= now <= one.not_valid_after_utc
            except Exception as error:  # hostile DER fails in ways that the library does not list
                raise TrustUnreadable("A certificate cannot be read.", fault=type(error).__name__) from error
            if not is_good:
                raise TrustUnreadable("A certificate is not one of an authority, or not valid now.")

    @property
    def pem(self) -> bytes:
        """All of them."""
        return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in self.authorities)

    @property
    def fingerprints(self) -> list[str]:
        """SHA-256 of each, hexadecimal."""
        return [fingerprint_of(one) for one in self.authorities]

    def verify(
        self,
        certificate: bytes | NodeCertificate,
        now: datetime,
        *,
        node: Address | None = None,
        chain: Sequence[x509.Certificate] = (),
    ) -> NodeCertificate:
        """The certificate, if a trusted authority stands behind it now, and if it is ``node``'s where that is given.

        Raises OutOfDate, WrongName, WrongAuthority, Untrusted. Revocation is asked of the hub, not of the certificate.
        """
        found = certificate if isinstance(certificate, NodeCertificate) else read_certificate(certificate)
        if now < found.not_before:
            raise OutOfDate(
                "The certificate is not yet valid.", node=str(found.node), from_=found.not_before.isoformat()
            )
        if now > found.not_after:
            raise OutOfDate("The certificate has expired.", node=str(found.node), until=found.not_after.isoformat())
        if node is not None and found.node != node.node:
            raise WrongName(expected=str(node.node), found=str(found.node))
        verifier = (
            PolicyBuilder()
            .store(self._store)
            .time(now)
            .max_chain_depth(CHAIN_MAX)
            .extension_policies(ca_policy=ExtensionPolicy.webpki_defaults_ca(), ee_policy=_LEAF)
            .build_client_verifier()
        )
        try:
            verifier.verify(found.x509, list(chain))
        except VerificationError as error:
            raise WrongAuthority(node=str(found.node), fault=str(error)[:300]) from error
        except Exception as error:  # a hostile chain fails in ways that the library does not list
            raise Untrusted("The chain cannot be read.", fault=type(error).__name__) from error
        return found


# Our leaves name a URI and no host; everything else is as in the public web.
_LEAF = ExtensionPolicy.webpki_defaults_ee().require_present(x509.SubjectAlternativeName, Criticality.AGNOSTIC, None)


def fingerprint_of(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate, hexadecimal."""
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


def plain_fingerprint(text: str) -> str:
    """A fingerprint as people write it (colons, spaces, upper case, a prefix), in our form; not checked here."""
    return text.strip().lower().removeprefix("sha256:").removeprefix("sha256=").replace(":", "").replace(" ", "")
