"""The hub's small certificate authority: one key, one certificate, and the certificates that it signs.

The authority takes only the key from a request; the names come from the caller (``platform_node``).
"""

import re
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from semq.pki.certificate import NodeCertificate, read_certificate
from semq.pki.errors import KeyRefused, RequestRefused
from semq.pki.keys import PrivateKey, PublicKey, is_accepted, new_key, read_key, write_key
from semq.pki.names import uri_of
from semq.pki.trust import fingerprint_of
from semq.store.files import write_safely
from semq.umx_t.address import Address

REQUEST_MAX = 16 * 1024  # bytes
CLOCK_MARGIN = timedelta(minutes=5)  # validity begins this long before the creation, because clocks differ
AUTHORITY_YEARS = 20  # validity of an authority
HOST_NAME = re.compile(r"(?!.{254})([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}")
KEY_FILE, CERTIFICATE_FILE = "authority.key", "authority.crt"
RESTORE = f"Restore {KEY_FILE} and {CERTIFICATE_FILE} from one backup."  # remedy


class Authority(Struct, frozen=True):
    """A signing key with its certificate."""

    certificate: x509.Certificate
    key: PrivateKey

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its certificate; the operator of a node gets it by a channel other than the hub's connection."""
        return fingerprint_of(self.certificate)

    @property
    def pem(self) -> bytes:
        """The authority's certificate in PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self, key: PublicKey, node: Address, now: datetime, days: float, host_names: tuple[str, ...] = ()
    ) -> NodeCertificate:
        """Sign a certificate for a node's key, valid for ``days``, but not beyond the authority's own certificate.

        Raises RequestRefused for an unaccepted kind or size of key, or an impossible host name.
        """
        if not is_accepted(key):
            raise RequestRefused("The kind or size of the key is not accepted.")
        until = min(now + timedelta(days=days), self.certificate.not_valid_after_utc)
        is_rsa = isinstance(key, rsa.RSAPublicKey)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, str(node.node))]))
            .issuer_name(self.certificate.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCK_MARGIN)
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                _usage(digital_signature=True, key_encipherment=is_rsa, key_agreement=not is_rsa), critical=True
            )
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]),
                critical=False,
            )
            .add_extension(_names(node, host_names), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(_issuer_key(self.certificate), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return read_certificate(certificate.public_bytes(serialization.Encoding.DER))

    def write(self, folder: Path, passphrase: bytes | None) -> None:
        """Write key and certificate to a folder. The key is written first, so that no certificate lacks its key.

        ``passphrase`` None: the key is stored in clear.
        """
        write_key(folder / KEY_FILE, self.key, passphrase)
        write_safely(folder / CERTIFICATE_FILE, self.pem)


def create_authority(name: str, now: datetime) -> Authority:
    """Create a self-signed authority for nodes only: it cannot sign further authorities.

    ``name`` is part of its subject.
    """
    key = new_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"SEMQ authority of {name}"[:64])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_MARGIN)
        .not_valid_after(now + timedelta(days=365 * AUTHORITY_YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key)


def read_authority(folder: Path, passphrase: bytes | None) -> Authority | None:
    """Return the authority kept in a folder, or None if there is none. Raises KeyRefused."""
    if not (folder / CERTIFICATE_FILE).exists():
        return None
    key = read_key(folder / KEY_FILE, passphrase)
    try:
        certificate = x509.load_pem_x509_certificate((folder / CERTIFICATE_FILE).read_bytes())
    except ValueError as error:
        raise KeyRefused(
            "The authority's certificate cannot be read.", file=str(folder / CERTIFICATE_FILE)
        ).with_remedy(RESTORE) from error
    if certificate.public_key() != key.public_key():
        raise KeyRefused("The authority's key does not match its certificate.", folder=str(folder)).with_remedy(RESTORE)
    return Authority(certificate, key)


def new_request(key: PrivateKey, node: Address, host_names: tuple[str, ...] = ()) -> bytes:
    """Return a PKCS#10 request in PEM. The names in it are for authorities outside SEMQ: ``Authority`` ignores them.

    Raises RequestRefused for an impossible host name.
    """
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, str(node.node))]))
        .add_extension(_names(node, host_names), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )


def key_of_request(data: bytes) -> PublicKey:
    """Return the key of a request, which must be signed with this key. Raises RequestRefused."""
    if len(data) > REQUEST_MAX:
        raise RequestRefused("The request is too long.", size=len(data))
    try:
        request = x509.load_pem_x509_csr(data)
        key, is_signed = request.public_key(), request.is_signature_valid
    except Exception as error:  # hostile DER raises exceptions that the library does not document
        raise RequestRefused("The input is not a certificate request.", fault=type(error).__name__) from error
    if not is_signed:
        raise RequestRefused("The request is not signed with its own key.")
    if not is_accepted(key) or not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        raise RequestRefused("The kind or size of the key is not accepted.")
    return key


def _names(node: Address, host_names: tuple[str, ...]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri_of(node)), *map(_host, host_names)])


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        pass  # a host name
    if not HOST_NAME.fullmatch(name):
        raise RequestRefused("The name is not a valid host name.", name=name[:80])
    return x509.DNSName(name)


def _issuer_key(certificate: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        identifier = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:  # an authority created with other software
        key = certificate.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey)
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _usage(
    *,
    digital_signature: bool = False,
    key_encipherment: bool = False,
    key_agreement: bool = False,
    key_cert_sign: bool = False,
    crl_sign: bool = False,
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=digital_signature,  # the same key signs receipts, which are proofs
        key_encipherment=key_encipherment,
        data_encipherment=False,
        key_agreement=key_agreement,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )
