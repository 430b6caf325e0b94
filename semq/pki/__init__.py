"""Identity of nodes: their certificates, the authority that signs them, and the key pairs of a node on disk.

Above floor 0 because it reads and writes files; it uses neither sockets nor rows, and takes the time as an argument.
Used by the nodes, their links and ``semq cert``; documents sealed for a node are opened with the keys held here.

    ring = KeyRing(folder, node, Passphrase(file=…))     # slots on disk: next, active, previous, retired
    identity = ring.identity()                           # raises NoIdentity, KeyRefused, WrongName
    identity.node, identity.certificate, identity.key    # EC P-256 (or P-384), or RSA; also signs receipts
    identity.keys[key_id]                                # every key that may be needed to open a document

    trust = TrustStore.read(ring.trust_path)             # raises TrustUnreadable
    peer = trust.verify(der_or_pem, now, node=address)   # NodeCertificate; raises OutOfDate, WrongName, WrongAuthority
    peer.node, peer.key_id, peer.public_key, peer.not_after, peer.fingerprint, peer.der

``certificate.read_certificate`` reads a certificate without verifying it, ``keys.key_id`` returns the name of a key
(the value of @KeyId), ``keys.Passphrase`` states the source of the passphrase of key files, ``keys.read_private`` reads
any secret file and refuses one that others may read. ``authority`` signs, ``tls`` makes contexts, ``names`` maps
certificates to addresses, ``errors`` lists the errors.
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
