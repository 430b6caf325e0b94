"""Operations on a local node's own certificate: show, slots, rotate, renew."""

from local_node.ports import OperatedLocalNode
from semq.access_rights import AccessRole
from semq.answers.status import CertificateStatus
from semq.pki.errors import NoAuthority
from semq.service.credentials.identity import KeySlot
from semq.service.operations.arguments import Arguments
from semq.service.operations.operation import Caller, act, look


class CertificateOperations:
    """The handlers."""

    def __init__(self, node: OperatedLocalNode) -> None:
        self._node = node

    async def show(self, arguments: Arguments) -> CertificateStatus:
        """Show the active certificate, and when it is renewed."""
        return self._node.certificate_status()

    async def slots(self, arguments: Arguments) -> list[KeySlot]:
        """List the keys and certificates of the node, by slot: active, next, previous, retired."""
        return self._node.identity_in_use().slots()

    async def rotate(self, arguments: Arguments, caller: Caller) -> CertificateStatus:
        """Activate the certificate in the slot ``next``, and open a new link with it."""
        identity = self._node.identity_in_use()
        identity.rotate()
        await self._node.parts.hub.restart()
        return identity.status()

    async def renew(self, arguments: Arguments, caller: Caller) -> CertificateStatus:
        """Renew the node's certificate now."""
        if self._node.parts.renewing is None:
            raise NoAuthority("This node gets no certificates from a hub: it has no link to a hub with TLS.")
        await self._node.parts.renewing.renew_now()
        return self._node.identity_in_use().status()


CERTIFICATES = (
    look("cert.show", AccessRole.VIEWER, Arguments, CertificateOperations.show),
    look("cert.list", AccessRole.VIEWER, Arguments, CertificateOperations.slots),
    act("cert.renew", AccessRole.ADMIN, Arguments, CertificateOperations.renew),
    act("cert.rotate", AccessRole.ADMIN, Arguments, CertificateOperations.rotate),
)
