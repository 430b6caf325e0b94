"""How a certificate names a node: a URI in the subject alternative name, ``semq:1.10008``.

A URI and not a DNS name: an address may hold upper case and underscores, tells 1.10008 from 2.10008, and must never be
taken for a host (a DNS name ``1.10008`` would be one, and whoever owns a certificate for a host would own a node).
Host names may stand beside it, for applications that check where they connect to; they give no rights between nodes.
"""

from cryptography import x509

from semq.pki.errors import WrongName
from semq.umx_t.address import Address, parse_address
from semq.umx_t.errors import BadAddress

SCHEME = "semq:"


def uri_of(node: Address) -> str:
    """The name of a node in its certificate."""
    return f"{SCHEME}{node.node}"


def node_of(certificate: x509.Certificate) -> Address:
    """The node that a certificate names.

    Raises WrongName unless it holds exactly one URI of our scheme, in its one normal form and without a user.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        ours = [uri for uri in names.get_values_for_type(x509.UniformResourceIdentifier) if uri[:5].lower() == SCHEME]
    except (x509.ExtensionNotFound, ValueError) as error:
        raise WrongName("The certificate names no node.", subject=subject_of(certificate)) from error
    if len(ours) != 1:
        raise WrongName("The certificate does not name exactly one node.", names=ours[:3])
    try:
        node = parse_address(ours[0][len(SCHEME) :])
    except BadAddress as error:
        raise WrongName("The certificate names no node address.", names=ours) from error
    if uri_of(node) != ours[0]:
        raise WrongName("The certificate does not name its node in the normal form.", names=ours)
    return node


def subject_of(certificate: x509.Certificate) -> str:
    """The subject for people; some are not well formed."""
    try:
        return certificate.subject.rfc4514_string()[:200]
    except ValueError:
        return "unreadable"
