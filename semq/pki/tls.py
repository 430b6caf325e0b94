"""TLS contexts for links and listeners: TLS 1.3 (or also 1.2, if configured), certificates of trusted authorities.

Between nodes, the caller checks the node name in the certificate (``names.node_of``), so host names are not checked. A
listener requests a certificate of the client but does not require it: applications log in by password, and a node has
no certificate before its enrolment.
"""

import ssl
from pathlib import Path

from semq.pki.errors import KeyRefused
from semq.pki.slots import KeyRing
from semq.pki.trust import TrustStore

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
# For peers without TLS 1.3: only AEAD suites with forward secrecy (RFC 9325, section 4.2).
SUITES_1_2 = "ECDHE+AESGCM:ECDHE+CHACHA20"


def client_context(trust: TrustStore, ring: KeyRing | None = None, minimum: str = "1.3") -> ssl.SSLContext:
    """Return a context for a link opened by this node; with ``ring`` it presents the active certificate.

    ``minimum``: oldest accepted version of TLS. Raises KeyRefused, NoIdentity, WrongName, Untrusted.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the peer is a node: the caller checks the URI
    _set_up(context, trust, ring, minimum)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def server_context(trust: TrustStore, ring: KeyRing, minimum: str = "1.3") -> ssl.SSLContext:
    """Return a context for a listener, which presents the active certificate and requests the client's certificate.

    ``minimum``: oldest accepted version of TLS. Raises KeyRefused, NoIdentity, WrongName, Untrusted.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_up(context, trust, ring, minimum)
    context.verify_mode = ssl.CERT_OPTIONAL
    # A resumed session would restore a certificate that has been revoked or renewed since.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    return context


def _set_up(context: ssl.SSLContext, trust: TrustStore, ring: KeyRing | None, minimum: str) -> None:
    context.minimum_version = VERSIONS[minimum]
    context.set_ciphers(SUITES_1_2)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=trust.pem.decode("ascii"))
    if ring is not None:
        load_active(context, ring)


def load_active(context: ssl.SSLContext, ring: KeyRing) -> None:
    """Present the active certificate on new connections of a context; open connections keep their certificate.

    Raises KeyRefused, NoIdentity, WrongName, Untrusted.
    """
    identity = ring.identity()  # reads and checks the files before OpenSSL does, with clearer errors
    key_id = identity.certificate.key_id
    load_pair(context, ring.certificate_path(key_id), ring.key_path(key_id), ring.passphrase())


def load_pair(context: ssl.SSLContext, certificate: Path, key: Path, passphrase: bytes | None) -> None:
    """Present this certificate, and sign with this key, on new connections of a context. Raises KeyRefused."""
    try:
        # A callable, so that OpenSSL never prompts at a terminal.
        context.load_cert_chain(certificate, key, password=lambda: passphrase or b"")
    except (OSError, ssl.SSLError) as error:
        raise KeyRefused(
            "TLS does not accept the certificate with its key.", file=str(certificate), fault=str(error)
        ).with_remedy(
            "The file has the certificate of this key first, then its chain, in PEM. Restore both from one backup,"
            " or get a new certificate."
        ) from error
