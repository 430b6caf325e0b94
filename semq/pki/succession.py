"""The statement that a new authority follows a former one, signed with the key of the former authority.

A hub makes the statement when it changes its authority. A node accepts the new authority only if it trusts the former
one.
"""

from base64 import b64decode, b64encode
from typing import cast

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from semq.pki.authority import Authority
from semq.pki.certificate import NodeCertificate
from semq.pki.errors import WrongAuthority
from semq.pki.trust import TrustStore, fingerprint_of
from semq.seal.canonical import canonical
from semq.seal.errors import KeyUnfit, SignatureWrong
from semq.seal.keys import PublicKey, alg_of, sign, verify

LABEL = "semq authority succession 1"  # of the signed data


class Succession(msgspec.Struct, frozen=True):
    """A statement that one authority follows another."""

    former: str  #: SHA-256 of the former authority's certificate, hexadecimal
    pem: str  #: certificate of the new authority
    signature: str  #: by the former authority, in base64

    @property
    def new(self) -> x509.Certificate:
        """The certificate of the new authority. Raises TrustUnreadable."""
        return TrustStore.from_pem(self.pem.encode()).authorities[0]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the new authority's certificate, hexadecimal."""
        return fingerprint_of(self.new)


def state_succession(former: Authority, new: Authority) -> Succession:
    """Return the statement that ``new`` follows ``former``."""
    signature = sign(former.key, _message(former.fingerprint, new.fingerprint))
    return Succession(former.fingerprint, new.pem.decode("ascii"), b64encode(signature).decode("ascii"))


def verify_succession(statement: Succession, trust: TrustStore) -> x509.Certificate:
    """Return the new authority if a trusted authority has signed the statement.

    Raises WrongAuthority, TrustUnreadable.
    """
    new = statement.new
    trusted = {fingerprint_of(authority): authority for authority in trust.authorities}
    former = trusted.get(statement.former)
    if former is None:
        raise WrongAuthority("This node does not trust the former authority.", former=statement.former[:80])
    message = _message(statement.former, fingerprint_of(new))
    try:
        key = former.public_key()
        alg_of(key)  # raises KeyUnfit if ``verify`` does not support the key
        verify(cast(PublicKey, key), b64decode(statement.signature), message)
    except (KeyUnfit, SignatureWrong, ValueError, UnsupportedAlgorithm) as error:
        fault = "The former authority has not signed this statement."
        raise WrongAuthority(fault, former=statement.former[:80]) from error
    return new


def is_issued_by(certificate: NodeCertificate, authority: x509.Certificate) -> bool:
    """Return whether the authority itself, not an intermediate one, has signed the certificate."""
    try:
        certificate.x509.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):  # another issuer, another kind of key, another signature
        return False
    return True


def _message(former: str, new: str) -> bytes:
    return canonical(LABEL, former, new)
