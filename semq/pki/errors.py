"""Errors of certificates, keys and certificate requests. Codes 5100–5199.

Untrusted            a peer's certificate does not prove its identity
├── WrongAuthority   no chain of valid certificates leads to a trusted authority
├── OutOfDate        it has expired, or is not yet valid
├── WrongName        it names no node, or another node than expected
└── Revoked          its authority has revoked it
KeyRefused           a file of a key, its certificate or its passphrase cannot or must not be used
NoIdentity           the node has no certificate yet
RequestRefused       the authority does not sign this request
KeyRevoked           a certificate of the requested key has been revoked
TokenRefused         the token is not valid: unknown, used, or too old
TrustUnreadable      the list of trusted authorities cannot be read
TrustNeeded          an authority cannot be removed: the node needs it, or does not trust it
NoAuthority          the hub has no authority of its own
"""

from semq.errors import BadInput, Misconfigured, SemqError


class Untrusted(SemqError):
    """The certificate does not prove the identity of the peer."""

    code = "SEMQ-5101"
    remedy = "Compare `semq cert show` at both ends; `semq cert trust` lists the authorities that this node trusts."


class WrongAuthority(Untrusted):
    """No chain of valid certificates leads to an authority that this node trusts."""

    code = "SEMQ-5102"
    remedy = (
        "Enrol the node at its hub (`semq node enroll`), or add the authority to tls.trust at the end that refuses."
        " If an intermediate certificate has expired, install the certificate with a new chain (`semq cert install`)."
    )


class OutOfDate(Untrusted):
    """The certificate is not valid at this time."""

    code = "SEMQ-5103"
    remedy = "Renew it (`semq cert renew`); if the dates look right, set the clocks of both machines."


class WrongName(Untrusted):
    """The certificate names no node, or another node than expected."""

    code = "SEMQ-5104"
    remedy = "Use the certificate that was issued to this node; its name is in the URI semq:TYPE.ID."


class Revoked(Untrusted):
    """The certificate has been revoked."""

    code = "SEMQ-5105"
    remedy = "Enrol the node again with a new token (`semq hub nodes token`), unless it was revoked permanently."


class KeyRefused(Misconfigured):
    """A file of a key, its certificate or its passphrase cannot or must not be used."""

    code = "SEMQ-5110"
    remedy = (
        "Store the key in PKCS#8, for the node's user only (chmod 600); if it is encrypted, set the passphrase under"
        " tls."
    )


class NoIdentity(Misconfigured):
    """The node has no certificate."""

    code = "SEMQ-5111"
    remedy = (
        "Enrol it: `semq node enroll --config FILE --hub HOST:PORT --fingerprint SHA256 --token TOKEN`;"
        " under an authority of your own: `semq cert request`, then `semq cert install`."
    )


class TrustUnreadable(Misconfigured):
    """The trusted authorities cannot be read."""

    code = "SEMQ-5112"
    remedy = (
        "tls.trust (for the carrier: cluster.trust) names a file of PEM certificates of authorities; the default of "
        "tls.trust is trust.pem in the key folder, which `semq node enroll` writes."
    )


class TrustNeeded(BadInput):
    """The authority cannot be removed: it is the only one, it issued this node's certificate, or it is not trusted."""

    code = "SEMQ-5113"
    remedy = "First install a certificate of another authority; `semq cert trust` lists those that the node trusts."


class RequestRefused(BadInput):
    """The authority does not sign this request."""

    code = "SEMQ-5120"
    remedy = "Send a PKCS#10 request signed with its own key: EC on P-256 or P-384, or RSA from 2048 bits."


class KeyRevoked(BadInput):
    """A certificate of this key has been revoked, so other parties may know the key."""

    code = "SEMQ-5123"
    remedy = "Request a certificate for another key: repeat `semq node enroll`, which makes a new key."


class TokenRefused(BadInput):
    """The token is unknown, used, or too old."""

    code = "SEMQ-5121"
    remedy = (
        "Ask the operator of the hub for a new token (`semq hub nodes token ID` there): a token serves one institution,"
        " once, for a limited time. The log of the hub has the reason."
    )


class NoAuthority(BadInput):
    """The hub has no authority of its own."""

    code = "SEMQ-5122"
    remedy = "Sign with your own authority: `semq cert request`, then `semq cert install`."
