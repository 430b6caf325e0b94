"""The name of a node in a certificate: a URI in the subject alternative name, ``semq:1.10008``.

The name is a URI, not a DNS name: a certificate of a host must never count as the certificate of a node. Host names may
be added for applications that check the name of the server; they give no rights between nodes.
"""

from cryptography import x509

from semq.pki.errors import WrongName
from semq.umx_t.address import Address, parse_address
from semq.umx_t.errors import BadAddress

SCHEME = "semq:"


def uri_of(node: Address) -> str:
    """Return the URI of a node for its certificate."""
    return f"{SCHEME}{node.node}"


def node_of(certificate: x509.Certificate) -> Address:
    """Return the node that a certificate names.

    Raises WrongName unless the certificate has exactly one URI of the scheme ``semq:``, in normal form and without a
    user.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (x509.ExtensionNotFound, ValueError) as error:
        raise WrongName("The certificate does not name a node.", subject=subject_of(certificate)) from error
    node_uris = [uri for uri in uris if uri[: len(SCHEME)].lower() == SCHEME]
    if len(node_uris) != 1:
        raise WrongName("The certificate does not name exactly one node.", names=node_uris[:3])
    try:
        node = parse_address(node_uris[0][len(SCHEME) :])
    except BadAddress as error:
        raise WrongName("The URI in the certificate is not a node address.", names=node_uris) from error
    if uri_of(node) != node_uris[0]:
        raise WrongName("The certificate does not name its node in the normal form.", names=node_uris)
    return node


def subject_of(certificate: x509.Certificate) -> str:
    """Return the subject as text, at most 200 characters; ``unreadable`` if it is malformed."""
    try:
        return certificate.subject.rfc4514_string()[:200]
    except ValueError:
        return "unreadable"
