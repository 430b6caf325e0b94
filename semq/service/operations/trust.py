"""Operations ``trust.list``, ``trust.add`` and ``trust.remove``: the trusted authorities of a running node.

Institutions can change to a new authority gradually: first all nodes trust both authorities, then each node installs a
certificate of the new one, then all nodes remove the old one. Each addition or removal ends the sessions, which are
opened again.
"""

from collections.abc import Mapping
from typing import Annotated

from cryptography import x509
from msgspec import Meta

from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.pki.errors import TrustNeeded, TrustUnreadable
from semq.pki.trust import TrustStore, plain_fingerprint
from semq.service.credentials.identity import NodeIdentity
from semq.service.operations.arguments import Arguments
from semq.service.operations.operation import Caller, act, look
from semq.service.operations.ports import OperatedNode

AUTHORITIES_MAX = 16
PEM_MAX = 1 << 20  # characters


class AddTrust(Arguments, frozen=True, kw_only=True):
    """Authorities to trust."""

    pem: Annotated[str, Meta(min_length=1, max_length=PEM_MAX, description="Certificates of the authorities, PEM.")]


class RemoveTrust(Arguments, frozen=True, kw_only=True):
    """An authority to stop trusting."""

    fingerprint: Annotated[str, Meta(min_length=1, max_length=200, description="SHA-256 fingerprint, from trust.list.")]


class TrustedAuthorities(OperationAnswer, frozen=True, kw_only=True):
    """The authorities that a node trusts."""

    fingerprints: list[str]  #: SHA-256, as enrolment expects them
    pem: str  #: their certificates


class TrustOperations:
    """The handlers of ``trust.*``."""

    def __init__(self, node: OperatedNode) -> None:
        self._node = node

    async def list_all(self, arguments: Arguments) -> TrustedAuthorities:
        """List the trusted authorities: their fingerprints, as enrolment expects them, and their certificates."""
        return _described(self._node.identity_in_use())

    async def add(self, arguments: AddTrust, caller: Caller) -> TrustedAuthorities:
        """Trust more authorities. Raises TrustUnreadable."""
        identity = self._node.identity_in_use()
        added = TrustStore.from_pem(arguments.pem.encode())
        added.check_authorities(identity.now())
        authorities = _by_fingerprint(identity.trust) | _by_fingerprint(added)
        if len(authorities) > AUTHORITIES_MAX:
            raise TrustUnreadable("These are more authorities than a node may trust.", most=AUTHORITIES_MAX)
        return await self._replace(identity, authorities)

    async def remove(self, arguments: RemoveTrust, caller: Caller) -> TrustedAuthorities:
        """Stop trusting one authority.

        Raises TrustNeeded if the authority is unknown, is the last one, or has issued the certificate of this node.
        """
        identity = self._node.identity_in_use()
        authorities, fingerprint = _by_fingerprint(identity.trust), plain_fingerprint(arguments.fingerprint)
        if fingerprint not in authorities:
            raise TrustNeeded(
                "The node trusts no authority with this fingerprint.", fingerprint=fingerprint[:80]
            ).with_remedy("`semq cert trust` lists the fingerprints of those that it trusts.")
        del authorities[fingerprint]
        if not authorities:
            raise TrustNeeded("The last trusted authority cannot be removed.", fingerprint=fingerprint).with_remedy(
                "First add another authority (`semq cert trust --add FILE`) and install a certificate of it."
            )
        return await self._replace(identity, authorities)

    async def _replace(self, identity: NodeIdentity, authorities: Mapping[str, x509.Certificate]) -> TrustedAuthorities:
        if authorities != _by_fingerprint(identity.trust):
            identity.replace_authorities([*authorities.values()])
            await self._node.apply_authorities_and_end_sessions()
        return _described(identity)


TRUST = (
    look("trust.list", AccessRole.VIEWER, Arguments, TrustOperations.list_all),
    act("trust.add", AccessRole.ADMIN, AddTrust, TrustOperations.add),
    act("trust.remove", AccessRole.ADMIN, RemoveTrust, TrustOperations.remove),
)


def _by_fingerprint(trust: TrustStore) -> dict[str, x509.Certificate]:
    return dict(zip(trust.fingerprints, trust.authorities, strict=True))


def _described(identity: NodeIdentity) -> TrustedAuthorities:
    return TrustedAuthorities(fingerprints=identity.trust.fingerprints, pem=identity.trust.pem.decode("ascii"))
