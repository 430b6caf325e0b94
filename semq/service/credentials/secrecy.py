"""Sealing for a running node, built from its identity, the stored certificates and the configuration.

A ``Sealing`` holds the session keys, so a local node passes it on to each new engine. A node without certificates has
no ``Sealing``, and refuses documents that have to be sealed.
"""

from collections.abc import Mapping, Sequence

from semq.clock import Clock, draw_secret
from semq.config.settings import Settings
from semq.engine.secrecy.sealing import Policy, Sealing
from semq.pki import SecretSource
from semq.pki.slots import chained_pem
from semq.seal.session import KeyLimits
from semq.seal.vault import SALT_LENGTH, Vault
from semq.service.credentials.identity import NodeIdentity
from semq.service.credentials.keyring import CERTIFICATES_MAX, NodeKeys, OwnKeys
from semq.umx_t.address import Address

# A document waits for the certificate of its signer for this number of inquiry intervals.
PATIENCE_INQUIRIES = 4


def sealing_of(
    identity: NodeIdentity,
    address: Address,
    settings: Settings,
    clock: Clock,
    stored_certificates: Mapping[str, Sequence[str]],
) -> Sealing:
    """Create the sealing for an identity. ``stored_certificates``: certificates of partners, as PEM, by node."""

    def refresh(own_keys: OwnKeys | None) -> OwnKeys:
        if own_keys is not None and own_keys.identity is identity.current:
            return own_keys
        return own_keys_of(identity, clock)

    secrecy = settings.secrecy
    keys = NodeKeys(address, clock, identity.trust, own_keys_of(identity, clock), secrecy.pins, refresh)
    for node, certificates in stored_certificates.items():
        keys.remember(node, certificates)
    limits = KeyLimits(secrecy.session_messages, secrecy.session_bytes, secrecy.session_s)
    policy = Policy(
        required_with=tuple(secrecy.required_with),
        unsigned_floors_from=tuple(secrecy.unsigned_floors_from),
        unproved_from=tuple(secrecy.unproved_from),
        mixed=secrecy.mixed_network,
        limits=limits,
        patience_s=PATIENCE_INQUIRIES * settings.protocol.inquiry_s,
    )
    return Sealing(address, keys, clock, draw_secret, policy)


def vault_of(settings: Settings) -> Vault | None:
    """Return the encryption of stored bodies; None if none is configured. Raises KeyRefused, VaultLocked."""
    secrecy = settings.secrecy
    master = SecretSource(secrecy.bodies_key_file, secrecy.bodies_key_credential, secrecy.bodies_key_variable).read()
    return None if master is None else Vault(master, draw_secret(SALT_LENGTH), draw_secret)


def own_keys_of(identity: NodeIdentity, clock: Clock) -> OwnKeys:
    """Return the identity and at most CERTIFICATES_MAX certificates that have not expired, the active one first."""
    slots, now = identity.ring.slots(), clock.wall()
    certificates = []
    # Retired keys, too: documents signed with them may still wait at the hub.
    retired_ids = [retired.key_id for retired in reversed(slots.retired)]
    for key_id in filter(None, (slots.active, slots.next, slots.previous, *retired_ids)):
        certificate = identity.ring.certificate(key_id)
        if certificate is not None and certificate.not_after > now:
            # Not the file itself: an older SEMQ stored it as it was installed, perhaps with the private key.
            certificates.append(chained_pem(certificate, identity.ring.chain(key_id)).decode("ascii"))
    return OwnKeys(identity.current, tuple(certificates[:CERTIFICATES_MAX]))
