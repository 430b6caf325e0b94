"""Who is who: certificates of nodes, the authority that signs them, and the key pairs of a node on disk.

Above the ground floor because it reads and writes files; it knows neither sockets nor rows, and takes the time as an
argument. The nodes, their links and ``semq cert`` use it; what is sealed for a node is opened with the keys from here.

    ring = KeyRing(folder, node, Passphrase(file=…))     # slots on disk: next, active, previous, retired
    identity = ring.identity()                           # NoIdentity, KeyRefused, WrongName
    identity.node, identity.certificate, identity.key    # EC P-256 (or P-384), or RSA: sign receipts with it
    identity.keys[key_id]                                # every key that may have to open something; KeyError: none

    trust = TrustStore.read(ring.trust_path)             # TrustUnreadable
    peer = trust.verify(der_or_pem, now, node=address)   # NodeCertificate; OutOfDate, WrongName, WrongAuthority
    peer.node, peer.key_id, peer.public_key, peer.not_after, peer.fingerprint, peer.der

``certificate.read_certificate`` reads one without believing it, ``keys.key_id`` names a key (what @KeyId carries),
``keys.Passphrase`` says where the passphrase of key files comes from, ``keys.read_private`` reads any secret file and
refuses one that others may read. ``authority`` signs, ``tls`` makes contexts, ``names`` ties certificates to addresses,
``errors`` lists what can be wrong.
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
