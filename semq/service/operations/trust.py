"""Operations ``trust.list``, ``trust.add`` and ``trust.remove``: the trusted authorities of a running node.

Institutions can change to another authority gradually: first all nodes trust both, then certificates of the new one are
installed one by one, then all remove the old one. A change is stored before it takes effect. New connections use it,
and links reconnect, so that no link depends on a removed authority.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Protocol

from msgspec import Meta

from semq.access_rights import AccessRole
from semq.pki.errors import TrustNeeded, TrustUnreadable
from semq.pki.trust import TrustStore, plain_fingerprint
from semq.service.credentials.identity import NodeIdentity
from semq.service.operations.arguments import Arguments
from semq.service.operations.operation import Caller, act, look

AUTHORITIES_MAX = 16
PEM_MAX = 1 << 20  # characters


class AddTrust(Arguments, frozen=True, kw_only=True):
    """Authorities to trust."""

    pem: Annotated[str, Meta(min_length=1, max_length=PEM_MAX, description="Certificates of the authorities, PEM.")]


class RemoveTrust(Arguments, frozen=True, kw_only=True):
    """An authority to stop trusting."""

    fingerprint: Annotated[str, Meta(min_length=1, max_length=200, description="SHA-256 of its certificate.")]


class Trusting(Protocol):
    """The parts of a node that the operations use."""

    def identity_in_use(self) -> NodeIdentity:
        """Return the node's certificates and authorities. Raises NoIdentity, NoAuthority if it has none."""

    async def trust_changed(self) -> None:
        """Use the changed authorities."""


class TrustOperations:
    """The handlers."""

    def __init__(self, node: Trusting) -> None:
        self._node = node

    async def list(self, arguments: Arguments) -> dict[str, Any]:
        """List the trusted authorities: fingerprints, which enrolment pins, and certificates."""
        return _described(self._node.identity_in_use())

    async def add(self, arguments: AddTrust, caller: Caller) -> dict[str, Any]:
        """Trust more authorities. Raises TrustUnreadable."""
        who = self._node.identity_in_use()
        more = TrustStore.from_pem(arguments.pem.encode())
        more.check_authorities(who.now())
        authorities = _authorities(who.trust) | _authorities(more)
        if len(authorities) > AUTHORITIES_MAX:
            raise TrustUnreadable("These are more authorities than a node trusts.", most=AUTHORITIES_MAX)
        return await self._use(who, authorities)

    async def remove(self, arguments: RemoveTrust, caller: Caller) -> dict[str, Any]:
        """Stop trusting one authority. Raises TrustNeeded for the last one and an unknown one."""
        who = self._node.identity_in_use()
        authorities, wanted = _authorities(who.trust), plain_fingerprint(arguments.fingerprint)
        if wanted not in authorities:
            raise TrustNeeded("The node trusts no authority with this fingerprint.", fingerprint=wanted[:80])
        del authorities[wanted]
        if not authorities:
            raise TrustNeeded("It is the last authority.", fingerprint=wanted)
        return await self._use(who, authorities)

    async def _use(self, who: NodeIdentity, authorities: Mapping[str, Any]) -> dict[str, Any]:
        if authorities != _authorities(who.trust):
            who.replace_authorities([*authorities.values()])
            await self._node.trust_changed()
        return _described(who)


TRUST = (
    look("trust.list", AccessRole.VIEWER, Arguments, TrustOperations.list),
    act("trust.add", AccessRole.ADMIN, AddTrust, TrustOperations.add),
    act("trust.remove", AccessRole.ADMIN, RemoveTrust, TrustOperations.remove),
)


def _authorities(trust: TrustStore) -> dict[str, Any]:
    return dict(zip(trust.fingerprints, trust.authorities, strict=True))


def _described(who: NodeIdentity) -> dict[str, Any]:
    return {"fingerprints": who.trust.fingerprints, "pem": who.trust.pem.decode("ascii")}
