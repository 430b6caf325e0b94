"""The statement that a new authority follows a former one, signed with the key of the former authority.

A hub makes it when it changes its authority (``platform_node.authority_roll``). A node accepts the new authority only
if it trusts the former one and the statement is signed with its key, so that nobody but the holder of that key can add
an authority to a node's list.
"""

from base64 import b64decode, b64encode

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from semq.pki.authority import Authority
from semq.pki.certificate import NodeCertificate
from semq.pki.errors import WrongAuthority
from semq.pki.trust import TrustStore, fingerprint_of
from semq.seal.canonical import canonical
from semq.seal.errors import SignatureWrong
from semq.seal.keys import PublicKey, sign, verify

LABEL = "semq authority succession 1"


class Succession(msgspec.Struct, frozen=True):
    """The former authority (SHA-256), the certificate of the new one (PEM), and the signature (base64)."""

    former: str
    pem: str
    signature: str

    @property
    def new(self) -> x509.Certificate:
        """The certificate of the new authority. Raises TrustUnreadable."""
        return TrustStore.from_pem(self.pem.encode()).authorities[0]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the new authority."""
        return fingerprint_of(self.new)


def succession(former: Authority, new: Authority) -> Succession:
    """State that ``new`` follows ``former``."""
    signature = sign(former.key, _message(former.fingerprint, new.fingerprint))
    return Succession(former.fingerprint, new.pem.decode("ascii"), b64encode(signature).decode("ascii"))


def verified(signed: Succession, trust: TrustStore) -> x509.Certificate:
    """Return the new authority if a trusted one has signed the statement. Raises WrongAuthority, TrustUnreadable."""
    new = signed.new
    former = next((one for one in trust.authorities if fingerprint_of(one) == signed.former), None)
    if former is None:
        raise WrongAuthority("This node does not trust the former authority.", former=signed.former[:80])
    key = former.public_key()
    assert isinstance(key, PublicKey)
    try:
        verify(key, b64decode(signed.signature), _message(signed.former, fingerprint_of(new)))
    except (SignatureWrong, ValueError) as error:
        raise WrongAuthority("The former authority has not signed this statement.", former=signed.former[:80]) from error
    return new


def is_issued_by(certificate: NodeCertificate, authority: x509.Certificate) -> bool:
    """Whether an authority signed a certificate itself."""
    try:
        certificate.x509.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):  # another issuer, another kind of key, another signature
        return False
    return True


def _message(former: str, new: str) -> bytes:
    return canonical(LABEL, former, new)
