"""Identity of nodes: their certificates, the authority that signs them, and the key pairs of a node on disk.

The package is above floor 0 because it reads and writes files; it uses neither sockets nor rows, and the time is an
argument. Called by the nodes, their links and operations, the reconciliation, and commands such as ``semq cert`` and
``semq verify``. The keys of ``slots`` also open sealed documents.

    ring = KeyRing(folder, node, Passphrase(file=…))     # slots on disk: next, active, previous, retired
    identity = ring.identity()                           # raises NoIdentity, KeyRefused, WrongName, Untrusted
    identity.node, identity.certificate, identity.key    # EC P-256 (or P-384), or RSA; also signs receipts
    identity.keys[key_id]                                # every key that may be needed to open a document

    trust = TrustStore.read(ring.trust_path)             # raises TrustUnreadable
    peer = trust.verify(der_or_pem, now, node=address)   # NodeCertificate; raises Untrusted or a subclass
    peer.node, peer.key_id, peer.public_key, peer.not_after, peer.fingerprint, peer.der

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
from semq.pki.keys import Passphrase, PrivateKey, PublicKey, key_id
from semq.pki.slots import Identity, KeyRing
from semq.pki.trust import TrustStore

__all__ = [
    "Identity",
    "KeyRing",
    "NodeCertificate",
    "Passphrase",
    "PrivateKey",
    "PublicKey",
    "TrustStore",
    "key_id",
    "read_certificate",
]
