"""A node's certificate as a value: whose, until when, which key. ``trust`` says whether to believe it."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from semq.pki.errors import Untrusted
from semq.pki.keys import PublicKey, is_strong, key_id
from semq.pki.names import node_of
from semq.umx_t.address import Address

DER_MAX = 16 * 1024  # a longer certificate is nobody's of ours


@dataclass(frozen=True)
class NodeCertificate:
    """What a certificate says; that it is true is another question (``TrustStore.verify``)."""

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
        """The serial number as people and tables have it: hexadecimal."""
        return f"{self.serial:x}"

    @cached_property
    def x509(self) -> x509.Certificate:
        """The parsed certificate, for what is not said here."""
        return x509.load_der_x509_certificate(self.der)

    @property
    def pem(self) -> bytes:
        """The same in PEM."""
        return self.x509.public_bytes(serialization.Encoding.PEM)

    @property
    def host_names(self) -> list[str]:
        """Host names and IP addresses, for clients that check where they connect to."""
        names = self.x509.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return [
            *names.get_values_for_type(x509.DNSName),
            *map(str, names.get_values_for_type(x509.IPAddress)),
        ]

    def renew_at(self, jitter: float, share: float = 2 / 3) -> datetime:
        """When to renew: at two thirds of its life, plus up to a tenth of the rest; ``jitter`` in [0, 1) spreads."""
        life: timedelta = self.not_after - self.not_before
        return self.not_before + life * share + life * (1 - share) * 0.1 * jitter


def read_certificate(octets: bytes) -> NodeCertificate:
    """A node's certificate from DER or PEM. Raises Untrusted (it is no certificate), WrongName (not of a node)."""
    if len(octets) > DER_MAX:
        raise Untrusted("The certificate is too long.", size=len(octets))
    try:
        pem = b"-----BEGIN" in octets
        found = x509.load_pem_x509_certificate(octets) if pem else x509.load_der_x509_certificate(octets)
        key = found.public_key()
        if not is_strong(key) or not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
            raise Untrusted("The key of the certificate is of a kind or size that is not accepted.")
        return NodeCertificate(
            der=found.public_bytes(serialization.Encoding.DER),
            node=node_of(found),
            serial=found.serial_number,
            not_before=found.not_valid_before_utc,
            not_after=found.not_valid_after_utc,
            key_id=key_id(key),
            public_key=key,
        )
    except Untrusted:
        raise
    except Exception as error:  # hostile DER fails in ways that the library does not list, some of them late
        raise Untrusted("This is not a certificate.", fault=type(error).__name__) from error
