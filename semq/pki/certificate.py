"""A node's certificate as a value: node, validity, key. ``trust`` verifies it."""

import hashlib
from datetime import datetime, timedelta

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509 import (
    Certificate,
    DNSName,
    IPAddress,
    SubjectAlternativeName,
    load_der_x509_certificate,
    load_pem_x509_certificate,
)
from msgspec import Struct

from semq.pki.errors import Untrusted
from semq.pki.keys import PublicKey, is_accepted, key_id
from semq.pki.names import node_of
from semq.umx_t.address import Address

DER_MAX = 16 * 1024  # bytes; certificates of nodes are much shorter
RENEWED_AFTER = 2 / 3  # part of the validity after which a certificate is renewed


class NodeCertificate(Struct, frozen=True):
    """The content of a certificate, not verified (see ``TrustStore.verify``)."""

    der: bytes
    node: Address
    serial: int
    not_before: datetime
    not_after: datetime
    key_id: str
    public_key: PublicKey

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the whole certificate, hexadecimal."""
        return hashlib.sha256(self.der).hexdigest()

    @property
    def serial_text(self) -> str:
        """The serial number in hexadecimal, as shown to people and stored in tables."""
        return f"{self.serial:x}"

    @property
    def x509(self) -> Certificate:
        """The parsed certificate, for fields that have no attribute here."""
        return load_der_x509_certificate(self.der)

    @property
    def pem(self) -> bytes:
        """The certificate in PEM."""
        return self.x509.public_bytes(serialization.Encoding.PEM)

    @property
    def host_names(self) -> list[str]:
        """Host names and IP addresses, for clients that check the name of the server."""
        names = self.x509.extensions.get_extension_for_class(SubjectAlternativeName).value
        return [
            *names.get_values_for_type(DNSName),
            *map(str, names.get_values_for_type(IPAddress)),
        ]

    def renew_at(self, jitter: float) -> datetime:
        """Return the time to renew: after two thirds of the validity, plus up to a tenth of the rest.

        ``jitter`` is a number in [0, 1) that spreads the renewals.
        """
        validity: timedelta = self.not_after - self.not_before
        return self.not_before + validity * RENEWED_AFTER + validity * (1 - RENEWED_AFTER) * 0.1 * jitter


def read_certificate(data: bytes) -> NodeCertificate:
    """Read a node's certificate from DER or PEM.

    Raises Untrusted if the data is not a certificate, is too long, or has an unaccepted key; WrongName if it
    does not name exactly one node (``names.node_of``).
    """
    if len(data) > DER_MAX:
        raise Untrusted("The certificate is too long.", size=len(data))
    try:
        is_pem = b"-----BEGIN" in data
        certificate = load_pem_x509_certificate(data) if is_pem else load_der_x509_certificate(data)
        key = certificate.public_key()
        if not is_accepted(key) or not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
            raise Untrusted("The kind or size of the certificate's key is not accepted.")
        return NodeCertificate(
            der=certificate.public_bytes(serialization.Encoding.DER),
            node=node_of(certificate),
            serial=certificate.serial_number,
            not_before=certificate.not_valid_before_utc,
            not_after=certificate.not_valid_after_utc,
            key_id=key_id(key),
            public_key=key,
        )
    except Untrusted:
        raise
    except Exception as error:  # hostile DER raises undocumented exceptions, some only when a field is read
        raise Untrusted("The input is not a certificate.", fault=type(error).__name__) from error
