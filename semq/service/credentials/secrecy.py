"""Sealing for a running node, built from its identity, the stored certificates and the configuration.

Created once per process, because it holds the session keys; ``None`` for a node without certificates, which then
refuses documents to be sealed. Used by local nodes.
"""

from collections.abc import Mapping, Sequence

from semq.clock import Clock, draw_secret
from semq.config.settings import Settings
from semq.engine.secrecy.sealing import Policy, Sealing
from semq.pki import Passphrase
from semq.seal.session import KeyLimits
from semq.seal.vault import SALT_LENGTH, Vault
from semq.service.credentials.identity import NodeIdentity
from semq.service.credentials.keyring import CERTIFICATES_MAX, NodeKeys, Own
from semq.umx_t.address import Address

PATIENCE = 4  # inquiries; a certificate may arrive later than a document signed with it


def sealing_of(
    who: NodeIdentity, address: Address, settings: Settings, clock: Clock, known: Mapping[str, Sequence[str]]
) -> Sealing:
    """Create the sealing for an identity; ``known``: certificates of partners from the node's store."""

    def refresh(own: Own | None) -> Own:
        return own if own is not None and own.identity is who.current else own_of(who, clock)

    keys = NodeKeys(address, clock, who.trust, own_of(who, clock), settings.secrecy.pins, refresh)
    for node, certificates in known.items():
        keys.remember(node, certificates)
    s = settings.secrecy
    limits = KeyLimits(s.session_messages, s.session_bytes, s.session_s)
    patience_s = PATIENCE * settings.protocol.inquiry_s
    policy = Policy(
        required_with=tuple(s.required_with), unsigned_floors_from=tuple(s.unsigned_floors_from),
        unproved_from=tuple(s.unproved_from), mixed=s.mixed_network, limits=limits, patience_s=patience_s,
    )  # fmt: skip
    return Sealing(address, keys, clock, draw_secret, policy)


def vault_of(settings: Settings) -> Vault | None:
    """Return the encryption of stored bodies, if configured. Raises KeyRefused, VaultLocked."""
    s = settings.secrecy
    master = Passphrase(s.bodies_key_file, s.bodies_key_credential, s.bodies_key_variable).read()
    return None if master is None else Vault(master, draw_secret(SALT_LENGTH), draw_secret)


def own_of(who: NodeIdentity, clock: Clock) -> Own:
    """Return the keys of all slots and the currently valid certificates, the active one first."""
    slots, now = who.ring.slots(), clock.wall()
    shown = []
    retired = [one.key_id for one in reversed(slots.retired)]  # documents that they signed may still wait at the hub
    for name in filter(None, (slots.active, slots.next, slots.previous, *retired)):
        certificate = who.ring.certificate(name)
        if certificate is not None and certificate.not_after > now:
            shown.append(who.ring.certificate_path(name).read_text("ascii"))
    return Own(who.current, tuple(shown[:CERTIFICATES_MAX]))
