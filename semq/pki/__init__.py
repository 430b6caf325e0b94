"""Identity of nodes: their certificates, the authority that signs them, and the key pairs of a node on disk.

The package reads and writes files, but uses neither sockets nor rows. Time is an argument.

===============  =======================================================================================================
``slots``        the key pairs of a node on disk, and its identity
``certificate``  a certificate as a value; ``read_certificate`` does not verify it
``trust``        the trusted authorities, and the verification of certificates
``names``        the address of a node in its certificate
``keys``         private keys: creation, files, passphrases, names (``key_id``, the value of @KeyId)
``authority``    the hub's authority, which signs certificates; certificate requests
``succession``   the statement that a new authority follows a former one
``tls``          TLS contexts
``errors``       SEMQ-5100 to SEMQ-5199
===============  =======================================================================================================
"""

from semq.pki.certificate import NodeCertificate, read_certificate
from semq.pki.keys import PrivateKey, PublicKey, SecretSource, key_id
from semq.pki.slots import Identity, KeyRing
from semq.pki.trust import TrustStore

__all__ = [
    "Identity",
    "KeyRing",
    "NodeCertificate",
    "PrivateKey",
    "PublicKey",
    "SecretSource",
    "TrustStore",
    "key_id",
    "read_certificate",
]
