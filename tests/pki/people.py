"""Authorities, nodes with key rings, and invalid certificates, for all tests."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from semq.pki.authority import Authority, create_authority, key_of_request, new_request
from semq.pki.certificate import NodeCertificate
from semq.pki.keys import PrivateKey, SecretSource, new_key, write_key
from semq.pki.slots import KeyRing
from semq.pki.trust import TrustStore
from semq.store.files import write_safely
from semq.umx_t.address import Address, parse_address

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
LOCAL = ("localhost", "127.0.0.1")


def authority(name: str = "hub") -> Authority:
    return create_authority(name, NOW - 400 * DAY)


def trust(*authorities: Authority) -> TrustStore:
    return TrustStore([authority.certificate for authority in authorities])


def issued(
    by: Authority, node: str = "1.10008", *, at: datetime = NOW, days: float = 90, key: PrivateKey | None = None
) -> NodeCertificate:
    return by.issue((key or new_key()).public_key(), parse_address(node), at, days)


def ring(
    folder: Path,
    by: Authority,
    node: str = "1.10008",
    *,
    at: datetime = NOW,
    days: float = 90,
    passphrase: SecretSource | None = None,
) -> KeyRing:
    """Return a key ring with an active certificate, which is valid from ``at`` for ``days``."""
    keys = KeyRing(folder, parse_address(node), passphrase)
    add(keys, by, at=at, days=days)
    write_safely(keys.trust_path, trust(by).pem)
    return keys


def add(keys: KeyRing, by: Authority, *, at: datetime = NOW, days: float = 90, kind: str = "ec") -> NodeCertificate:
    """Add a key with a new certificate to a ring, and make it the active one."""
    key = keys.next_key(kind)
    certificate = by.issue(key_of_request(new_request(key, keys.node)), keys.node, at, days, LOCAL)
    keys.store_certificate(certificate.pem, trust(by), at)
    keys.rotate(at)
    return certificate


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Return certificate and key files of an unknown party with a self-signed certificate for 1.10008."""
    key = new_key()
    return _files(folder, "self", build(key, key, "self", uris=["semq:1.10008"]), key)


def build(
    key: PrivateKey,
    signer: PrivateKey,
    issuer: str,
    *,
    uris: list[str],
    names: list[x509.GeneralName] | None = None,
    common_name: str = "someone",
) -> x509.Certificate:
    """Return a certificate with these names, signed with ``signer``."""
    all_names = [*(x509.UniformResourceIdentifier(uri) for uri in uris), *(names or [])]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + DAY)
    )
    if all_names:
        builder = builder.add_extension(x509.SubjectAlternativeName(all_names), critical=False)
    return builder.sign(signer, hashes.SHA256())


def named(by: Authority, folder: Path, uris: list[str]) -> tuple[Path, Path]:
    """Return certificate and key files. The certificate has these URIs and is signed by the authority ``by``."""
    key = new_key()
    template = by.issue(key.public_key(), Address(1, "x"), NOW, 1).x509
    builder = (
        x509.CertificateBuilder()
        .subject_name(template.subject)
        .issuer_name(template.issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + DAY)
    )
    for extension in template.extensions:
        if not isinstance(extension.value, x509.SubjectAlternativeName):
            builder = builder.add_extension(extension.value, extension.critical)
    names = [x509.UniformResourceIdentifier(uri) for uri in uris]
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _files(folder, "named", builder.sign(by.key, hashes.SHA256()), key)


def _files(folder: Path, name: str, certificate: x509.Certificate, key: PrivateKey) -> tuple[Path, Path]:
    write_key(folder / f"{name}.key", key, None)
    write_safely(folder / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))
    return folder / f"{name}.crt", folder / f"{name}.key"
